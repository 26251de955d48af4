"""`jobyard` with a fault put in on purpose: broken_jobyard.py FAULT WORDS...

FAULT is JSON: `{"env": {"RANK": "0"}}` gives every container that has the variable this value (null
takes it away); `{"replace": {"slots=3": "slots=1"}}` replaces words in all that the controller
creates: pods, config maps, services. A test that still passes with such an engine proves nothing.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from jobyard.cli.main import main
from jobyard.client.request import Answer, Request
from jobyard.engine.relaxing import RelaxedSender

fault = json.loads(sys.argv[1])
send_as_it_is = RelaxedSender.send


def broken(value: Any) -> Any:
    if isinstance(value, str):
        for old, new in fault.get("replace", {}).items():
            value = value.replace(old, new)
        return value
    if isinstance(value, list):
        return [broken(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: broken(each) for name, each in value.items()}
    if isinstance(made.get("env"), list):
        made["env"] = [each for each in map(_wrong, made["env"]) if each is not None]
    return made


def _wrong(variable: dict[str, Any]) -> dict[str, Any] | None:
    wrong = fault.get("env", {})
    if variable["name"] not in wrong:
        return variable
    value = wrong[variable["name"]]
    return None if value is None else {"name": variable["name"], "value": value}


async def send(self: RelaxedSender, request: Request) -> Answer:
    if request.method == "POST" and request.body:
        body = msgspec.json.encode(broken(msgspec.json.decode(request.body)))
        request = msgspec.structs.replace(request, body=body)
    return await send_as_it_is(self, request)


RelaxedSender.send = send  # type: ignore[method-assign]
sys.argv = ["jobyard", *sys.argv[2:]]
main()
