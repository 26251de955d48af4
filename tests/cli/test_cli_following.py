"""What commands that wait do when the server says less than they hoped: gaps, refusals, silence."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

import click
import msgspec
import pytest

from jobyard.api.kinds import kind_named
from jobyard.cli.ending import Ends, until_ended
from jobyard.cli.output.rows import Timed, last_lines
from jobyard.cli.output.screen import Screen
from jobyard.cli.output.showing import Show
from jobyard.cli.output.style import Palette
from jobyard.client.errors import ConnectionFailedError, RefusedError
from jobyard.client.request import Answer, Problem, Request, resource_of
from jobyard.engine.runs.birth import EngineFailedError
from jobyard.jobs.following import Following
from jobyard.jobs.happenings import CUT_DOWN, Happenings
from jobyard.jobs.one_object import DELETED, Reference, until_gone, until_job
from jobyard.jobs.pods import JobPod
from jobyard.jobs.troubles import Troubles
from jobyard.jobs.view import JobView, ReplicaView, stopped

T = TypeVar("T")
JSON = dict[str, Any]
TEST_SECONDS = 30.0
KIND = kind_named("gj")
assert KIND is not None
JOBS = resource_of(KIND)
TRAIN = Reference(JOBS, "default", "train", "uid-of-train")
PHASES = ("succeeded", "running")
FORBIDDEN = Problem(403, "Forbidden", 'User "me" cannot list resource "genericjobs"')


def job(phase: str = "Running", uid: str = TRAIN.uid) -> JSON:
    metadata = {"name": "train", "namespace": "default", "uid": uid, "resourceVersion": "1"}
    return {"metadata": metadata, "status": {"phase": phase}}


def pod(name: str, job_uid: str = TRAIN.uid, uid: str = "", grace_seconds: int = 30) -> JSON:
    owner = {"uid": job_uid, "controller": True, "kind": "GenericJob", "name": "train"}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-of-{name}",
            "ownerReferences": [owner],
        },
        "spec": {
            "containers": [{"name": "main"}],
            "terminationGracePeriodSeconds": grace_seconds,
        },
    }


class Server:
    """Answers lists one after the other, the last for ever; in between the watch loses its place.

    A list may be a problem instead. `deletion` is the answer to a DELETE.
    """

    def __init__(
        self,
        *jobs: list[JSON] | Problem,
        pods: list[JSON] | None = None,
        deletion: Answer | Exception | None = None,
    ) -> None:
        self.jobs = jobs
        self.lists = 0
        self.pods = pods or []
        self.deletion = deletion or Answer(200, b"{}")
        self.deletions: list[JSON] = []

    async def send(self, request: Request) -> Answer:
        if request.method == "DELETE":
            self.deletions.append(json.loads(request.body or b""))
            if isinstance(self.deletion, Exception):
                raise self.deletion
            return self.deletion
        plural = request.path.rpartition("/")[2]
        found: list[JSON] | Problem = self.pods if plural == "pods" else []
        if plural == JOBS.plural:
            found = self.jobs[min(self.lists, len(self.jobs) - 1)]
            self.lists += 1
        if isinstance(found, Problem):
            return refusal(found)
        listed = {"metadata": {"resourceVersion": "1"}, "items": found}
        return Answer(200, msgspec.json.encode(listed))

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        if request.path.endswith(JOBS.plural) and self.lists < len(self.jobs):
            raise RefusedError(str(request), Problem(410, "Expired", "too old"))
        await asyncio.Event().wait()
        yield b"never"

    async def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        raise AssertionError(f"{request}: no container runs here")
        yield b""


def refusal(problem: Problem) -> Answer:
    status = {"kind": "Status", "code": problem.code, "reason": problem.reason}
    return Answer(problem.code, msgspec.json.encode({**status, "message": problem.message}))


class Watcher(Show):
    """Says when a pod has been seen."""

    def __init__(self, out: io.StringIO) -> None:
        screen = Screen(out, is_live=False, clock=lambda: 0.0)
        super().__init__(screen, Palette(is_coloured=False), is_quiet=False)
        self.saw_pod = asyncio.Event()

    def pods_of(self, job: str) -> Callable[[JobPod], None]:
        return lambda _pod: self.saw_pod.set()


def showing(out: io.StringIO | None = None) -> Watcher:
    return Watcher(out or io.StringIO())


def in_time(talk: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(TEST_SECONDS):
            return await talk

    return asyncio.run(bounded())


def untroubled(problem: object, failures: int) -> None:
    raise AssertionError(f"{problem} after {failures}")


@pytest.mark.parametrize(
    "later", [[], [job(uid="another")]], ids=["it is gone", "another has its name"]
)
def test_a_job_deleted_in_a_gap_of_the_watch_is_over(later: list[JSON]) -> None:
    async def talk() -> list[JobView]:
        ran = job()
        rows = [{"name": f"train-{name}", "phase": name.capitalize()} for name in PHASES]
        ran["status"]["tasks"] = [{"type": "worker", "status": rows}]
        following = Following(Server([ran], later), [TRAIN], showing())
        await following.until_over()
        return following.views()

    (view,) = in_time(talk())
    assert (view.phase, view.message) == ("Failed", "The job was deleted.")
    # What had ended stays as it was; the rest went with the job.
    assert [row.phase for row in view.replicas] == ["Succeeded", "Stopped"]


@pytest.mark.parametrize(
    "later", [[], [job("Succeeded", uid="another")]], ids=["it is gone", "another has its name"]
)
def test_who_waits_for_a_job_hears_of_a_deletion_in_a_gap(later: list[JSON]) -> None:
    view = in_time(until_job(Server([job()], later), TRAIN, lambda view: view.is_over, untroubled))
    assert (view.phase, str(view)) == (DELETED, "GenericJob/train")
    in_time(until_gone(Server([job()], later), TRAIN, untroubled))


def test_a_job_that_cannot_be_deleted_is_told_and_not_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def talk(server: Server) -> set[str]:
        following = Following(server, [TRAIN], showing())
        return set(await following.stop_jobs(asyncio.Event()))

    server = Server([job()], deletion=refusal(FORBIDDEN))
    assert in_time(talk(server)) == {TRAIN.uid}
    assert server.deletions[0]["preconditions"] == {"uid": TRAIN.uid}
    assert capsys.readouterr().err == (
        f"GenericJob/train goes on, it can't be deleted: {FORBIDDEN.message}\n"
    )
    dead = ConnectionFailedError("https://there", "connection refused", "check that it runs")
    assert in_time(talk(Server([job()], deletion=dead))) == {TRAIN.uid}
    assert "GenericJob/train may still be running: API server" in capsys.readouterr().err
    gone = refusal(Problem(404, "NotFound", "not found"))
    assert in_time(talk(Server([job()], deletion=gone))) == set()
    assert capsys.readouterr().err == ""


def test_a_job_that_is_held_is_waited_for_as_long_as_its_pods_may_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A finalizer that nobody takes away: the job stays on every list."""

    async def talk() -> None:
        server = Server([job()], pods=[pod("train-worker-0", grace_seconds=0)])
        show = showing()
        following = Following(server, [TRAIN], show, stop_margin_seconds=0.2)
        work = asyncio.ensure_future(following.until_over())
        await show.saw_pod.wait()
        await following.stop_jobs(asyncio.Event())
        work.cancel()
        await asyncio.wait((work,))

    in_time(talk())
    assert "GenericJob/train: not gone after 0.2 s" in capsys.readouterr().err


def test_a_watch_that_is_refused_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    async def talk() -> JobView:
        server = Server(FORBIDDEN, FORBIDDEN, [job("Succeeded")])
        troubles = Troubles(lambda text: click.echo(text, err=True))
        return await until_job(server, TRAIN, lambda view: view.is_over, troubles)

    assert in_time(talk()).has_succeeded
    assert capsys.readouterr().err == f"{FORBIDDEN.message} (trying again; Ctrl-C ends it)\n"


def test_a_server_that_does_not_answer_is_told_at_the_second_try() -> None:
    told: list[str] = []
    troubles = Troubles(told.append)
    dead = ConnectionFailedError("https://there", "connection refused", "check that it runs")
    troubles(dead, 1)
    assert told == [], "long connections are cut now and then"
    for failures in (2, 3, 4):
        troubles(dead, failures)
    assert told == [f"{dead} (trying again; Ctrl-C ends it)"]


# Whose events are told.


def warning(name: str, uid: str, message: str, reason: str = "Failed") -> JSON:
    about = {"kind": "Pod", "name": name, "uid": uid}
    return {"type": "Warning", "reason": reason, "message": message, "involvedObject": about}


def decoded(value: JSON) -> JobPod:
    return msgspec.convert(value, JobPod)


def test_only_the_jobs_own_pods_have_warnings_that_are_told() -> None:
    out = io.StringIO()
    view = JobView(kind="GenericJob", namespace="default", name="train", uid=TRAIN.uid)
    happenings = Happenings({view.uid: view}, showing(out))
    happenings.saw_pod(decoded(pod("train-worker-0")), TRAIN.uid)
    happenings.saw_pod(decoded(pod("train-eval-worker-0")), "uid-of-train-eval")
    happenings.saw_event(warning("train-worker-0", "uid-of-train-worker-0", "ours"))
    happenings.saw_event(warning("train-eval-worker-0", "uid-of-train-eval-worker-0", "theirs"))
    happenings.saw_event(warning("train-worker-0", "uid-of-an-earlier-run", "of an earlier run"))
    assert out.getvalue() == "Pod/train-worker-0: ours\n"


def test_an_event_that_comes_before_its_pod_is_told_when_the_pod_is_seen() -> None:
    out = io.StringIO()
    view = JobView(kind="GenericJob", namespace="default", name="train", uid=TRAIN.uid)
    happenings = Happenings({view.uid: view}, showing(out))
    happenings.saw_event(
        warning("train-worker-0", "uid-of-train-worker-0", "gets 1 of 4 CPUs", CUT_DOWN)
    )
    assert out.getvalue() == ""
    happenings.saw_pod(decoded(pod("train-worker-0")), TRAIN.uid)
    assert out.getvalue() == "GenericJob/train: worker: gets 1 of 4 CPUs\n"


# The end of `run`.


def test_a_job_that_could_not_be_stopped_is_not_shown_as_stopped() -> None:
    row = ReplicaView(name="worker-0", phase="Running")
    view = JobView(kind="GenericJob", namespace="default", name="train", replicas=(row,))
    plain = Palette(is_coloured=False)
    left, _, told = last_lines(Timed(view, 5), plain, None)
    assert (left, told.split()[1]) == (
        "GenericJob/train was left after 5.0s, before its end",
        "Running",
    )
    gone, _, told = last_lines(Timed(stopped(view), 5), plain, None)
    assert (gone.split()[2], told.split()[1]) == ("stopped", "Stopped")


class Endless:
    """Jobs that go on; whether anybody still follows them."""

    is_followed = False

    async def until_over(self) -> None:
        self.is_followed = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_followed = False


def test_nothing_is_followed_any_more_when_the_engine_has_failed() -> None:
    async def talk() -> None:
        jobs: Any = Endless()
        ends = Ends()
        asyncio.get_running_loop().call_soon(ends.failed.set)
        with pytest.raises(EngineFailedError, match="the engine has failed"):
            await until_ended(jobs, ends, showing())
        assert not jobs.is_followed
        assert asyncio.all_tasks() == {asyncio.current_task()}

    in_time(talk())
