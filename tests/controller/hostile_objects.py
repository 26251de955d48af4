"""Objects with which somebody could try to stop a controller, made by the dice.

Each class is a way that once worked, or nearly did: numbers that no program should read, values
nested thousands deep, sizes that multiply, texts that grow, names that collide, and programs in
pods that answer without end. An API server takes most of them.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import zlib
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from typing import Any

from rig import job_manifests

from jobyard.client.backoff import wait_seconds
from jobyard.plan.lowering.names import ATTEMPT, MANAGED_BY, PODS_BEFORE, REPLICA_RANK, ROLE_INDEX

Json = dict[str, Any]
OCTOPUS = "octopus.openi.pcl.cn/v1alpha1"
NOBODY = "nobody-schedules-this"
# Nothing that Python reads as a number may have more digits than this.
DIGITS_MAX = 4300
LARGE_BYTES = 1_000_000
DEEP = "nested by "


# What programs in pods answer


async def dribbles(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await wait_seconds(20)


async def never_ends(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"jobs": ["')
    while True:
        writer.write(b"x" * 2**16)
        await writer.drain()


async def never_ends_badly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 No\r\nContent-Type: text/html\r\n\r\n")
    while True:
        writer.write(b"<p>" * 2**14)
        await writer.drain()


async def nests(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _answered(writer, b'{"jobs": ' + b"[" * 200_000)


async def is_long_winded(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _answered(writer, b'{"jobs": [{"jid": "' + b"j" * 3_000_000 + b'"}]}')


async def is_no_text(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _answered(writer, b'{"jobs": [{"jid": "\xff\xfe\x00"}]}')


async def packs(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _answered(writer, packed(), b"Content-Encoding: gzip\r\n")


@cache
def packed() -> bytes:
    """A quarter of a gigabyte of blanks, as a quarter of a megabyte."""
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(b" " * 2**20) for _ in range(256)) + packer.flush()


async def says_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    del writer
    await asyncio.Event().wait()


async def _answered(writer: asyncio.StreamWriter, body: bytes, more: bytes = b"") -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
    writer.write(head % (more, len(body)) + body)
    await writer.drain()


ANSWERS: tuple[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], ...] = (
    dribbles,
    never_ends,
    never_ends_badly,
    nests,
    is_long_winded,
    is_no_text,
    packs,
    says_nothing,
)


def beam_of(name: str, port: int | str) -> Json:
    """A BeamJob whose job manager is asked at that port."""
    job = job_manifests.beam(1)
    job["metadata"] = {"name": name}
    job["spec"]["flinkClusterTemplate"]["spec"]["flinkProperties"] = {"rest.port": str(port)}
    return job


# Jobs


def taskset(name: str, **template: Any) -> Json:
    pod = {"metadata": template, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    return {
        "apiVersion": OCTOPUS,
        "kind": "TaskSet",
        "metadata": {"name": name},
        "spec": {"roles": [{"name": "worker", "replicas": 1, "template": pod}]},
    }


def generic(**spec: Any) -> Json:
    return job_manifests.generic({"worker": 1}, **spec)


def _number(dice: random.Random) -> str:
    """What looks like a number to somebody."""
    digits = dice.choice([DIGITS_MAX + 1, 4400, 20_000, 100_000])
    return dice.choice(
        [
            "9" * digits,
            "0" * digits + "1",
            "1" + "0" * digits,
            "²",
            "٣" * digits,
            "-" + "7" * 30,
            str(2**63),
            "1e400",
        ]
    )


def annotated_tasksets(dice: random.Random) -> Iterator[Json]:
    for _ in range(4):
        key = dice.choice([PODS_BEFORE, ATTEMPT, ROLE_INDEX])
        yield taskset("t", annotations={key: _number(dice)}, labels={MANAGED_BY: "jobyard"})


def deep_tasksets(dice: random.Random) -> Iterator[Json]:
    for depth in (1100, 3000, dice.randrange(400, 9000)):
        job = taskset("deep")
        job["metadata"]["managedFields"] = [_deep_entry(depth, OCTOPUS)]
        yield job


def _deep_entry(depth: int, api_version: str) -> Json:
    return {
        "manager": "m",
        "operation": "Update",
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": f"{DEEP}{depth}",
    }


def as_text(obj: Json) -> str:
    """The object as JSON, and what is deep in it as deep as it says: Python couldn't write it."""

    def nested(found: re.Match[str]) -> str:
        depth = int(found[1])
        return '{"f:a":' * depth + "{}" + "}" * depth

    return re.sub(rf'"{DEEP}([0-9]+)"', nested, json.dumps(obj))


def quantities(dice: random.Random) -> Iterator[Json]:
    # Not 1e3000000 or thousands of digits: an API server itself takes seconds for such a pod.
    exponent = dice.randrange(10**18, 10**19)
    for text in ("1e99999999999999999999", f"1e{exponent}", "9" * 40):
        job = beam_of("amount", 8081)
        manager = job["spec"]["flinkClusterTemplate"]["spec"]["taskManager"]
        manager["resources"] = {"limits": {"cpu": text, "memory": text}}
        yield job
        amounts = {"limits": {"cpu": text}, "requests": {"cpu": "1"}}
        plain = generic()
        plain["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["resources"] = amounts
        yield plain
        slots = job_manifests.mpi(1)
        container = slots["spec"]["worker"]["template"]["spec"]["containers"][0]
        container["resources"] = {"limits": {"nvidia.com/gpu": text}}
        yield slots


def numbers_in_texts(dice: random.Random) -> Iterator[Json]:
    for _ in range(2):
        number = _number(dice)
        job = generic(service={"ports": [{"port": 80}]})
        container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
        container["args"] = [f"$(service.worker[{number}].host)"]
        yield job
        slots = job_manifests.mpi(1)
        slots["spec"]["worker"]["extraMPIArgs"] = [dice.choice(["-N", "-np"]), number]
        yield slots
        yield beam_of("port", number)


def large_jobs(dice: random.Random) -> Iterator[Json]:
    """Everything that grows with replicas, with as many as an API server takes, or more."""
    longest = "n" * 51
    for make, count in (
        (lambda n: job_manifests.tensorflow({"worker": n}), dice.choice([1500, 5000])),
        (lambda n: job_manifests.tensorflow({"worker": n}), 1030),
        (job_manifests.xgboost, dice.choice([1500, 4999])),
        (job_manifests.mpi, 200),
    ):
        job = make(count)
        job["metadata"]["name"] = longest
        _unscheduled(job)
        yield job
    ports = [{"name": f"p{n}", "port": n + 1, "targetPort": n + 2} for n in range(32)]
    job = job_manifests.generic({"worker": 100}, service={"ports": ports})
    _unscheduled(job)
    yield job


def _unscheduled(job: Json) -> None:
    """Its pods stay pending: thousands of lives would only keep the fake nodes busy."""
    for replica in job["spec"].get("replicaSpecs") or [job["spec"]["worker"]]:
        replica["template"]["spec"]["schedulerName"] = NOBODY


def growing_texts(dice: random.Random) -> Iterator[Json]:
    type_ = "t" * dice.randrange(30, 50)
    for count in (2500, 40_000, 120_000):
        job = job_manifests.generic({type_: 3})
        _unscheduled(job)
        container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
        whole = "$(type)" * count
        container["args"] = [whole[at : at + 7 * 2500] for at in range(0, len(whole), 7 * 2500)]
        yield job
    doubling = generic()
    container = doubling["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    container["env"] = [
        {"name": "A0", "value": "x" * 1000},
        *({"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})"} for n in range(1, 40)),
    ]
    yield doubling


def many_mistakes(dice: random.Random) -> Iterator[Json]:
    """Each of them is worth a sentence to their author; together they are gigabytes."""
    unknown = job_manifests.generic({f"type-{n}-{'t' * 40}": 1 for n in range(16)})
    container = unknown["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    container["args"] = ["$(replicas[x])"] * dice.randrange(15_000, 30_000)
    yield unknown
    mounts = generic()
    pod = mounts["spec"]["replicaSpecs"][0]["template"]["spec"]
    pod["volumes"] = [{"name": f"v{n}", "emptyDir": {}} for n in range(5000)]
    pod["containers"] = [
        {
            "name": f"c{n}",
            "image": "i",
            "volumeMounts": [{"name": "no", "mountPath": f"/m{m}"} for m in range(64)],
        }
        for n in range(32)
    ]
    yield mounts


def refused_pods(dice: random.Random) -> Iterator[Json]:
    """Whose refusal quotes a megabyte, each time."""
    for _ in range(4):
        job = generic()
        container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": "A B=" * dice.randrange(50_000, 150_000), "value": "x"}]
        yield job


def large_templates(dice: random.Random) -> Iterator[Json]:
    """Pods as large as they can be, many at a time."""
    for letter in dice.sample(["x", "<", "\\", "é"], 1):
        job = job_manifests.generic({"worker": 30})
        container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
        width = {"<": 6, "\\": 2, "é": 2}.get(letter, 1)
        container["env"] = [
            {"name": f"A{n}", "value": letter * (100_000 // width)} for n in range(13)
        ]
        _unscheduled(job)
        yield job


def same_names(_: random.Random) -> Iterator[Json]:
    """Two kinds that want the same pods."""
    for make in (
        lambda: job_manifests.generic({"worker": 60}),
        lambda: job_manifests.tensorflow({"worker": 60}),
    ):
        job = make()
        job["metadata"] = {"name": "same"}
        job["is-named"] = True
        _unscheduled(job)
        yield job


CLASSES = (
    annotated_tasksets,
    deep_tasksets,
    quantities,
    numbers_in_texts,
    growing_texts,
    many_mistakes,
    refused_pods,
    large_templates,
    same_names,
    large_jobs,
)


def hostile_jobs(dice: random.Random) -> Iterator[Json]:
    """All classes, each with a name of its own unless the name is the point."""
    for number, made in enumerate(job for make in CLASSES for job in make(dice)):
        named = made.pop("is-named", False) or len(made["metadata"]["name"]) > 40
        if not named:
            made["metadata"] = {**made["metadata"], "name": f"hostile-{number}"}
        elif made["metadata"]["name"] != "same":
            made["metadata"]["name"] = f"{made['metadata']['name'][:-2]}{number:02}"
        yield made


def hostile_others(dice: random.Random) -> Iterator[Json]:
    """For somebody who may also create config maps and pods: those that look like ours."""
    for number in range(4):
        labels = {MANAGED_BY: "jobyard", REPLICA_RANK: "1" * 60}
        metadata = {
            "name": f"pod-{number}",
            "labels": labels,
            "annotations": {ATTEMPT: _number(dice), PODS_BEFORE: _number(dice)},
        }
        pod = {"containers": [{"name": "main", "image": "i"}], "schedulerName": NOBODY}
        if number == 0:
            pod["containers"][0]["env"] = [{"name": "A", "value": "<" * LARGE_BYTES}]  # type: ignore[index]
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
    for number, depth in enumerate((1100, 3000, dice.randrange(400, 9000))):
        metadata = {
            "name": f"deep-{number}",
            "labels": {MANAGED_BY: "jobyard"},
            "managedFields": [_deep_entry(depth, "v1")],
        }
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
