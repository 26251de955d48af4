"""Following a job's logs to their end: what is waited for when the job is over, and what isn't."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from jobyard.client.errors import ClientError
from jobyard.client.request import Answer, Request
from jobyard.jobs.log_lines import LINE_BYTES_MAX, Line, LogFollower, Wanted, split_lines
from jobyard.jobs.log_place import Lines, LogPlace

WANTED = Wanted(kind="MPIJob", namespace="default", name="walk", uid="uid-of-walk")
FOR_EVER_SECONDS = 1000.0
TEST_SECONDS = 30.0


def pod(name: str, state: str, job_uid: str = WANTED.uid) -> dict[str, Any]:
    owners = [{"uid": job_uid, "controller": True}]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "ownerReferences": owners,
        },
        "spec": {"containers": [{"name": "main"}]},
        "status": {"containerStatuses": [{"name": "main", "state": {state: {}}}]},
    }


class Server:
    """Answers as an API server does; the logs of pods go on until the test ends them."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = pods
        self.ends = {each["metadata"]["name"]: asyncio.Event() for each in pods}
        self.asked, self.answers = asyncio.Event(), asyncio.Event()
        self.answers.set()

    async def send(self, request: Request) -> Answer:
        assert request.path.endswith("/pods"), request
        self.asked.set()
        await self.answers.wait()
        listed = {"metadata": {"resourceVersion": "1"}, "items": self.pods}
        return Answer(200, msgspec.json.encode(listed))

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        await asyncio.Event().wait()
        yield b"never"

    async def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        yield b"first\n"
        await self.ends[request.path.split("/")[-2]].wait()
        yield b"last\n"


def untroubled(problem: ClientError, failures: int) -> None:
    raise AssertionError(f"{problem} after {failures}")


async def drained(server: Server, running: tuple[str, ...], ending: str) -> list[str]:
    """What was shown when `drained` returned, after the log of `ending` had ended meanwhile."""
    shown: list[str] = []
    begun = asyncio.Event()

    def show(line: Line) -> None:
        shown.append(f"{line.replica} {line.text.decode()}")
        if len(shown) == len(server.pods):
            begun.set()

    follower = LogFollower(server, WANTED, show, lambda _pod: None, untroubled)
    task = asyncio.ensure_future(follower.run())
    async with asyncio.timeout(TEST_SECONDS):
        await begun.wait()
        draining = asyncio.ensure_future(follower.drained(FOR_EVER_SECONDS, running))
        server.ends[ending].set()
        await draining
    task.cancel()
    await asyncio.wait((task,))
    return shown


def test_a_pod_that_outlives_its_job_is_not_waited_for() -> None:
    async def talk() -> list[str]:
        server = Server(pod("launcher", "terminated"), pod("worker-0", "running"))
        return await drained(server, ("worker-0",), ending="launcher")

    assert sorted(asyncio.run(talk())) == ["launcher first", "launcher last", "worker-0 first"]


def test_an_end_of_which_the_job_knows_first_is_waited_for() -> None:
    """The watch still has the launcher as running; the job's status has it as ended."""

    async def talk() -> list[str]:
        server = Server(pod("launcher", "running"), pod("worker-0", "running"))
        return await drained(server, ("worker-0",), ending="launcher")

    assert "launcher last" in asyncio.run(talk())


def test_an_end_of_which_the_pod_knows_first_is_waited_for() -> None:
    async def talk() -> list[str]:
        server = Server(pod("launcher", "terminated"), pod("worker-0", "terminated"))
        server.ends["launcher"].set()
        return await drained(server, ("worker-0",), ending="worker-0")

    assert "worker-0 last" in asyncio.run(talk())


async def ended_job(server: Server, meanwhile: Callable[[], None]) -> list[str]:
    """What was shown of a job whose end is known before anything of its pods is."""
    shown: list[str] = []
    follower = LogFollower(
        server, WANTED, lambda line: shown.append(line.text.decode()), lambda _pod: None, untroubled
    )
    async with asyncio.timeout(TEST_SECONDS), asyncio.TaskGroup() as group:
        running = group.create_task(follower.run())
        draining = group.create_task(follower.drained(FOR_EVER_SECONDS))
        await server.asked.wait()
        meanwhile()
        await draining
        running.cancel()
    return shown


def test_logs_are_read_also_if_the_jobs_end_is_known_before_its_pods() -> None:
    async def talk() -> list[str]:
        server = Server(pod("launcher", "terminated"))
        server.ends["launcher"].set()
        server.answers.clear()
        return await ended_job(server, server.answers.set)

    assert asyncio.run(talk()) == ["first", "last"]


def test_a_pod_that_the_watch_has_not_told_of_is_looked_for_at_the_end() -> None:
    """The first list came before the pod ran; the watch is late."""

    class Late(Server):
        lists = 0

        async def send(self, request: Request) -> Answer:
            self.lists += 1
            if self.lists == 1:
                self.asked.set()
                return Answer(200, b'{"metadata": {"resourceVersion": "1"}, "items": []}')
            return await super().send(request)

    async def talk() -> list[str]:
        server = Late(pod("launcher", "terminated"))
        server.ends["launcher"].set()
        return await ended_job(server, lambda: None)

    assert asyncio.run(talk()) == ["first", "last"]


def test_the_first_list_is_waited_for_also_if_there_is_no_second() -> None:
    class Busy(Server):
        lists = 0

        async def send(self, request: Request) -> Answer:
            self.lists += 1
            return await super().send(request) if self.lists == 1 else Answer(503, b"busy")

    async def talk() -> list[str]:
        server = Busy(pod("launcher", "terminated"))
        server.ends["launcher"].set()
        server.answers.clear()
        return await ended_job(server, server.answers.set)

    assert asyncio.run(talk()) == ["first", "last"]


def test_pods_of_an_earlier_job_of_the_same_name_are_not_read() -> None:
    async def talk() -> list[str]:
        earlier = pod("launcher", "terminated", job_uid="uid-of-an-earlier-walk")
        return await ended_job(Server(earlier), lambda: None)

    assert asyncio.run(talk()) == []


async def split(*chunks: bytes) -> tuple[list[bytes], list[bytes]]:
    """The lines, and what was held back after each chunk."""

    async def come() -> AsyncGenerator[bytes, None]:
        for chunk in chunks:
            yield chunk

    held: list[bytes] = []
    return [line async for line, _ in split_lines(come(), held.append)], held


def test_what_has_no_end_yet_is_told_until_it_has() -> None:
    lines, held = asyncio.run(split(b"one\nload", b"ing", b" done\n", b"x"))
    assert lines == [b"one", b"loading done", b"x"]
    assert held == [b"load", b"loading", b"", b"x", b""]


def test_a_bar_that_goes_on_for_hours_is_one_line() -> None:
    states = [b"\r%d%%|%s" % (n, b"#" * 90) for n in range(3 * LINE_BYTES_MAX // 90)]
    lines, held = asyncio.run(split(*states, b"\rdone\n", b"y" * (LINE_BYTES_MAX + 1)))
    assert [line.rpartition(b"\r")[2] for line in lines[:1]] == [b"done"]
    assert lines[1:] == [b"y" * LINE_BYTES_MAX, b"y"], "what isn't written over comes in pieces"
    assert max(map(len, held)) <= LINE_BYTES_MAX


def missing(count: int) -> bytes:
    """As the node's reader of logs says it."""
    return b"jobyard: %d lines are missing here, up to 2026-01-01T00:00:00Z: no room" % count


def reading(*lines: bytes) -> Lines:
    async def come() -> AsyncGenerator[bytes, None]:
        yield b"".join(line + b"\n" for line in lines)

    return split_lines(come())


async def shown(*readings: Lines) -> list[list[bytes]]:
    """What is shown of each reading of one log, from its beginning on."""
    place = LogPlace()
    return [[text async for text, _ in place.after(each)] for each in readings]


def test_a_log_that_is_read_again_goes_on_where_it_was_cut() -> None:
    first, again, more = asyncio.run(
        shown(reading(b"1", b"2"), reading(b"1", b"2", b"3"), reading(b"1", b"2", b"3"))
    )
    assert (first, again, more) == ([b"1", b"2"], [b"3"], [])


def test_lines_that_have_gone_meanwhile_are_counted_when_a_log_is_read_on() -> None:
    first, gone, further = asyncio.run(
        shown(
            reading(b"1", b"2", b"3"),
            # Of what was shown two lines have gone, and one was not.
            reading(missing(2), b"3", b"4"),
            # More has gone than was shown.
            reading(missing(6), b"7"),
        )
    )
    assert first == [b"1", b"2", b"3"]
    assert gone == [b"4"]
    assert further == [missing(6), b"7"]


def test_lines_that_are_missing_in_the_middle_count_as_read() -> None:
    first, again = asyncio.run(
        shown(reading(b"1", missing(3), b"5"), reading(missing(4), b"5", b"6"))
    )
    assert first == [b"1", missing(3), b"5"]
    assert again == [b"6"]


def test_a_long_line_that_was_shown_is_not_shown_again() -> None:
    long = b"x" * (LINE_BYTES_MAX + 1)
    first, again = asyncio.run(shown(reading(long, b"2"), reading(long, b"2", b"3")))
    assert b"".join(first) == long + b"2"
    assert again == [b"3"]
