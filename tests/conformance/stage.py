"""Plays a script on one server and holds the answers to what the real server answered.

One loop and one HTTP session for each worker and server. Knows how to send, to wait for a
condition and to read a watch; what a case asks is in its script, what is right in its golden file.
"""

from __future__ import annotations

import asyncio
import difflib
import io
import json
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import yaml
from rig.kube.api import warnings_of
from yarl import URL

from conformance import golden
from conformance.normal import Normaliser
from conformance.script import GROUPS, Script, Step, Watch, get
from jobyard.client.backoff import wait_seconds

# A collector looks for new kinds every half minute, and has the garbage of all other tests too.
DEADLINE_SECONDS = 180
PROBE_SECONDS = 0.03
LINE_BYTES_MAX = 4 * 1024 * 1024
POD_PATHS = ("pods", "serviceaccounts")
USER_AGENT = "conformance/1.0"
ORIGIN = "https://conformance.example.com"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Origin": ORIGIN,
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
_REFERENCE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Server:
    """How one API server is reached."""

    name: str
    url: str
    tls: ssl.SSLContext
    headers: Mapping[str, str]
    # Trusts the server and shows nothing of itself.
    stranger_tls: ssl.SSLContext


def _is_passing(status: int, body: Any) -> bool:
    """What a kube-apiserver says, and has done nothing, while it takes up a changed definition."""
    said = body.get("message") if isinstance(body, dict) else ""
    return status == 503 and said == "apiserver is shutting down"


@dataclass
class Stage:
    """One case: a server and a namespace of its own."""

    server: Server
    session: aiohttp.ClientSession
    loop: asyncio.AbstractEventLoop
    namespace: str
    captured: dict[str, str] = field(default_factory=dict)
    # Whether watches are asked for over a WebSocket; they tell the same.
    over_socket: bool = False
    _admits_pods: bool = False

    def check(self, topic: str, sentence: str, script: Script) -> None:
        """Play the script; its answers have to be those of the golden file."""
        self.compare(topic, sentence, self.answers(script))

    def compare(self, topic: str, sentence: str, answers: Any) -> None:
        """Hold answers that a test has picked itself to the golden file."""
        if golden.WRITES and self.server.name == "kubernetes":
            golden.write(topic, sentence, answers)
        wanted = golden.wanted(topic, sentence)
        assert wanted is not None, f"no golden answers; {golden.text_of(answers)}"
        if answers != wanted:
            raise AssertionError(difference(wanted, answers))

    def answers(self, script: Script) -> list[Any]:
        """The answers to a script, with neutral names for what can't be the same twice."""
        return self.loop.run_until_complete(self._answers(script))

    async def _answers(self, script: Script) -> list[Any]:
        self.captured = {"namespace": self.namespace}
        if not self._admits_pods and any(step.path.startswith(POD_PATHS) for step in script):
            # A controller makes it, and before that no pod is let in.
            account = get("serviceaccounts/default", until=lambda status, _: status == 200)
            await self._request(account)
            self._admits_pods = True
        raw = await self._play(script)
        names = {
            value: f"<{key}>"
            for key, value in self.captured.items()
            if key.startswith("name") and value
        }
        normalise = Normaliser(names)
        return [normalise(answer) for answer in raw]

    async def _play(self, script: Iterable[Step | Watch]) -> list[Any]:
        answers: list[Any] = []
        for step in script:
            match step:
                case Step():
                    answer = await self._request(step)
                    answers += [] if step.silent else [answer]
                case Watch():
                    answers += await self._watch(step)
        return answers

    # One request

    async def _request(self, step: Step) -> Any:
        status, answer, body = await self._send(step)
        deadline = self.loop.time() + DEADLINE_SECONDS
        while _is_passing(status, body) or (
            step.until is not None and not step.until(status, body)
        ):
            assert self.loop.time() < deadline, f"{step.method} {step.path}: still {body}"
            # The next probe; a timer, because a controller tells nobody that it is done.
            await wait_seconds(PROBE_SECONDS)
            status, answer, body = await self._send(step)
        if step.silent and step.until is None:
            assert status < 400, f"{step.method} {step.path}: {status} {body}"
        for name, place in step.capture.items():
            self.captured[name] = str(at(body, place.split(".")))
        return answer

    async def _send(self, step: Step) -> tuple[int, Any, Any]:
        headers = {"Accept": step.accept, "User-Agent": USER_AGENT, **self.server.headers}
        data: io.BytesIO | None = None
        if step.body is not None:
            text = step.body if isinstance(step.body, str) else json.dumps(step.body)
            data = io.BytesIO(self._filled(text).encode())
            headers["Content-Type"] = step.content_type
        more: dict[str, Any] = {}
        if step.stranger:
            headers.pop("Authorization", None)
            more["ssl"] = self.server.stranger_tls
        headers |= step.headers
        async with self.session.request(
            step.method,
            self._path(step.path),
            params={key: self._filled(value) for key, value in step.query.items()},
            data=data,
            headers=headers,
            **more,
        ) as response:
            body = decoded(response.content_type, await response.text())
            answer: dict[str, Any] = {"status": response.status}
            if response.content_type != "application/json":
                answer["type"] = response.content_type
            if warnings := warnings_of(response.headers.getall("Warning", [])):
                answer["warnings"] = list(warnings)
            shown = body if step.show is None else picked(body, step.show)
            return response.status, {**answer, "body": shown}, body

    def _path(self, short: str) -> str:
        short = self._filled(short)
        if short.startswith("/"):
            return short
        prefix = GROUPS.get(short.split("/")[0].split("?")[0], "/api/v1")
        return f"{prefix}/namespaces/{self.namespace}/{short}"

    def _filled(self, text: str) -> str:
        return _REFERENCE.sub(lambda match: self.captured[match[1]], text)

    def url_of(self, short: str) -> URL:
        """Where a short path leads, with its query, for who doesn't take the session."""
        path, _, query = short.partition("?")
        return URL(f"{self.server.url}{self._path(path)}?{query}", encoded=True)

    async def told_inside(self, script: Script) -> None:
        """Plays steps while a test of its own has something open."""
        await self._play(script)

    # A watch

    async def _watch(self, step: Watch) -> list[Any]:
        """The answers of the steps inside come first, then one entry with all events."""
        query = {key: self._filled(value) for key, value in step.query.items()}
        if self.over_socket and (told := await self._watch_socket(step, query)) is not None:
            return told
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            self.session.get(
                self._path(step.path),
                params={"watch": "true", **query},
                headers={**self._watch_headers(step), **(UPGRADE if self.over_socket else {})},
            ) as response,
        ):
            inside = await self._play(step.during)
            if response.status != 200:
                text = await response.text()
                body = decoded(response.content_type, text)
                return [*inside, {"status": response.status, "body": body}]
            assert not self.over_socket, "lines instead of a WebSocket"
            events: list[Any] = []
            ended = False
            try:
                while step.count is None or len(events) < step.count:
                    line = await response.content.readline()
                    if not line:
                        ended = True
                        break
                    event = json.loads(line)
                    events.append(event if step.show is None else picked(event, step.show))
            except TimeoutError:
                raise AssertionError(f"watch: only {len(events)} events: {events}") from None
            finally:
                connection = response.connection
                if not ended and connection is not None and connection.transport is not None:
                    connection.transport.abort()
            return [*inside, {"events": events}]

    def _watch_headers(self, step: Watch) -> dict[str, str]:
        return {"Accept": step.accept, "User-Agent": USER_AGENT, **self.server.headers}

    async def _watch_socket(self, step: Watch, query: Mapping[str, str]) -> list[Any] | None:
        """The same over a WebSocket; None if it is refused, and then why is asked for again."""
        socket = self.session.ws_connect(
            str(URL(self._path(step.path)).with_query({"watch": "true", **query})),
            headers=self._watch_headers(step),
            origin=ORIGIN,
            max_msg_size=LINE_BYTES_MAX,
        )
        events: list[Any] = []
        try:
            async with asyncio.timeout(DEADLINE_SECONDS), socket as messages:
                inside = await self._play(step.during)
                while step.count is None or len(events) < step.count:
                    message = await messages.receive()
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        assert message.type is aiohttp.WSMsgType.CLOSE, message
                        break
                    event = json.loads(message.data)
                    events.append(event if step.show is None else picked(event, step.show))
        except aiohttp.WSServerHandshakeError:
            return None
        except TimeoutError:
            raise AssertionError(f"watch: only {len(events)} events: {events}") from None
        return [*inside, {"events": events}]


def decoded(content_type: str, text: str) -> Any:
    """JSON and YAML as values, everything else as text."""
    # OpenAPI's index is JSON without saying so.
    if "json" in content_type or text.startswith("{"):
        return json.loads(text)
    return yaml.safe_load(text) if "yaml" in content_type else text


def at(value: Any, place: list[str]) -> Any:
    """What is at a dotted place; `*` goes through a list, None where there is nothing."""
    for index, key in enumerate(place):
        if key == "*":
            return [at(each, place[index + 1 :]) for each in value or ()]
        if isinstance(value, list):
            value = value[int(key)] if int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def picked(body: Any, places: Iterable[str]) -> dict[str, Any]:
    """The places of a body that a case is about; a refusal stays whole."""
    if isinstance(body, dict) and body.get("status") == "Failure":
        return body
    return {place: at(body, place.split(".")) for place in places}


def difference(wanted: Any, found: Any) -> str:
    """What a reader has to know: the lines that differ, with their surroundings."""
    before, after = (golden.text_of(each).splitlines() for each in (wanted, found))
    diff = difflib.unified_diff(before, after, "kubernetes", "found", lineterm="", n=4)
    return "not what the real server answered:\n" + "\n".join(diff)
