"""A stage for tests of the running controller: a real API server, a fake kubelet, and eyes.

A `Stage` follows everything in its namespace by watches, so a test sees every version of
every status, also those that lasted only a moment. Its `until` awaits a condition with a
deadline and tells what was there when it came too late. When the stage is left, every version
that was seen has to have kept the promises that hold for all statuses.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import aiohttp
import yaml
from rig.kube.api import ApiCaller
from rig.kube.jobyard_controller import ControllerProcess, running_controller
from rig.kube.kubectl import Kubectl
from rig.kube.kubelet import FakeKubelet
from rig.kube.plane import ControlPlane
from rig.manifests import documents
from rig.places import TESTS

from jobyard.api.kinds import Kind, kind_of
from jobyard.client.backoff import wait_seconds

Json = dict[str, Any]
T = TypeVar("T")

DEADLINE_SECONDS = 60
WATCH_SECONDS = 300
LOOK_SECONDS = 0.1
# The collector of garbage looks for kinds that are new to it only twice a minute.
COLLECTED_SECONDS = 120
TOO_MANY_REQUESTS = 429
CONDITIONS = ("Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused")
OVER = ("Succeeded", "Failed")
CHILDREN = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "PodGroup": "/apis/scheduler.tensorstack.dev/v1beta1/namespaces/{}/podgroups",
}
EVENTS = "/api/v1/namespaces/{}/events"
GOLDEN = TESTS / "golden" / "status"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ADDRESS = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")
MADE = re.compile(r"Created \d+ pods?: (.*)\.")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Told(NamedTuple):
    """An event about a job, without its time."""

    type: str
    reason: str
    message: str


@dataclass
class Followed:
    """All that a watch has said of one resource."""

    objects: dict[str, Json] = field(default_factory=dict)
    versions: list[Json] = field(default_factory=list)

    def see(self, event: Json) -> None:
        found = event["object"]
        name = found["metadata"]["name"]
        if event["type"] == "DELETED":
            self.objects.pop(name, None)
            return
        self.objects[name] = found
        self.versions.append(found)


@dataclass
class Stage:
    """One namespace with a controller and a kubelet in it."""

    plane: ControlPlane
    namespace: str
    api: ApiCaller
    kubelet: FakeKubelet
    controller: ControllerProcess
    _kubectl: Kubectl
    _tasks: asyncio.TaskGroup
    _seen: dict[str, Followed] = field(default_factory=dict)
    _watches: list[asyncio.Task[None]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    # Where each job lives, by its name.
    _kinds: dict[str, Kind] = field(default_factory=dict)

    # What is done

    async def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """What the real kubectl says; refusals are in it too, with `check=False`."""
        done = await asyncio.to_thread(partial(self._kubectl, *arguments, stdin=stdin, check=check))
        return done.stdout if check else done.stdout + done.stderr

    async def apply(self, *manifests: Json | Path) -> list[str]:
        """`kubectl apply` of manifests or files; the names of the jobs among them."""
        items: list[Json] = []
        for each in manifests:
            items += [d.value for d in documents(each)] if isinstance(each, Path) else [each]
        # The kinds of other schedulers aren't installed here.
        items = [i for i in items if not i["apiVersion"].startswith("scheduling.incubator")]
        jobs = [item for item in items if self._knows(item)]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        await self.kubectl("apply", "-f", "-", stdin=text)
        return [job["metadata"]["name"] for job in jobs]

    async def create(self, manifest: Json) -> None:
        """A job that is too large for `kubectl apply`, which keeps a copy in an annotation."""
        assert self._knows(manifest)
        kind = self._kinds[manifest["metadata"]["name"]]
        answer = await self.api.request("POST", self._path(kind), body=manifest)
        assert answer.status == 201, answer.text

    def _knows(self, manifest: Json) -> bool:
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        if kind is None or kind.name in ("PodGroup", "Queue"):
            return False
        self._kinds[manifest["metadata"]["name"]] = kind
        self.follow(self._path(kind))
        return True

    async def patch(self, job: str, spec: Json) -> None:
        """`kubectl patch` of a job's spec."""
        kind = self._kinds[job]
        patch = json.dumps({"spec": spec})
        await self.kubectl(
            "patch", f"{kind.plural}.{kind.group}", job, "--type=merge", f"--patch={patch}"
        )

    async def pause(self, job: str, enabled: bool = True) -> None:
        await self.patch(job, {"runMode": {"pause": {"enabled": enabled}}})

    async def make(self, kind: str, manifest: Json) -> Json:
        """Create an object that isn't the controller's."""
        path = CHILDREN[kind].format(self.namespace)
        answer = await self.api.request("POST", path, body=manifest)
        assert answer.status == 201, answer.text
        return answer.body

    async def remove(self, kind: str, name: str) -> None:
        path = f"{CHILDREN[kind].format(self.namespace)}/{name}"
        answer = await self.api.request("DELETE", path)
        assert answer.status in (200, 202), answer.text

    async def all_at_once(self, *works: Coroutine[Any, Any, None]) -> None:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)

    # What is seen

    def job(self, name: str) -> Json | None:
        return self._followed(name).objects.get(name)

    def status(self, name: str) -> Json:
        """The latest status; empty before there is one, or once the job is gone."""
        return (self.job(name) or {}).get("status") or {}

    def statuses(self, name: str) -> list[Json]:
        """Every status that the job ever had, oldest first."""
        found = self._followed(name).versions
        return [v["status"] for v in found if v["metadata"]["name"] == name and v.get("status")]

    def children(self, kind: str, job: str) -> dict[str, Json]:
        """What belongs to the job, by name; a TaskSet's pods belong to its control units."""
        owner = self.job(job)
        uids = {owner["metadata"]["uid"]} if owner else set()
        if self._kinds[job].name == "TaskSet" and kind == "Pod":
            uids = {u["metadata"]["uid"] for u in self.children("ConfigMap", job).values()}
        return {
            name: found
            for name, found in self.all_of(kind).items()
            if any(r["uid"] in uids for r in found["metadata"].get("ownerReferences", ()))
        }

    def pods(self, job: str) -> dict[str, Json]:
        return self.children("Pod", job)

    def uids(self, job: str) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods(job).items()}

    def all_of(self, kind: str) -> dict[str, Json]:
        return self._seen[CHILDREN[kind].format(self.namespace)].objects

    def events(self, job: str) -> list[Told]:
        """What was told about the job, in order."""
        found = [
            event
            for event in self._seen[EVENTS.format(self.namespace)].objects.values()
            if event["involvedObject"]["name"] == job
            and event["involvedObject"]["kind"] == self._kinds[job].name
        ]
        found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [Told(event["type"], event["reason"], event["message"]) for event in found]

    def reasons(self, job: str) -> list[str]:
        return [event.reason for event in self.events(job)]

    # What is awaited

    async def until(
        self, what: str, holds: Callable[[], T], deadline_seconds: float = DEADLINE_SECONDS
    ) -> T:
        """The first true answer, asked again at each change."""
        try:
            async with asyncio.timeout(deadline_seconds):
                while True:
                    found = holds()
                    if found:
                        return found
                    await self._news.wait()
        except TimeoutError:
            self.fail(f"{what}: not within {deadline_seconds} seconds")

    async def until_phase(self, job: str, phase: str) -> Json:
        """The first status with that phase after the latest that was seen."""
        await self.until(f"{job} is {phase}", lambda: self.status(job).get("phase") == phase)
        return self.status(job)

    async def until_told(self, job: str, reason: str, text: str = "") -> Told:
        def told() -> Told | None:
            found = (e for e in self.events(job) if e.reason == reason and text in e.message)
            return next(found, None)

        found = await self.until(f"event {reason} of {job} with {text!r}", told)
        assert found is not None
        return found

    async def until_condition(self, job: str, type_: str, status: str, reason: str = "") -> Json:
        def holds() -> Json | None:
            found = condition(self.status(job), type_)
            fits = found.get("status") == status and (not reason or found["reason"] == reason)
            return found if fits else None

        found = await self.until(f"{job}: {type_} is {status} {reason}", holds)
        assert found is not None
        return found

    async def until_pods(self, job: str, *names: str) -> None:
        """The job has these pods, by what follows the job's name, and no others."""
        wanted = {f"{job}-{name}" for name in names}
        await self.until(f"the pods of {job} are {names}", lambda: set(self.pods(job)) == wanted)

    async def until_running(self, job: str, count: int) -> Json:
        """So many replicas run, and theirs are the pods that were seen.

        Jobs and pods have watches of their own, and each may be behind the other.
        """

        def runs() -> bool:
            status = self.status(job)
            rows = [row for task in status.get("tasks", ()) for row in task["status"]]
            running = {row.get("uid") for row in rows if row["phase"] == "Running"}
            is_told = status.get("phase") == "Running" and len(running) == count
            return is_told and running <= set(self.uids(job).values())

        await self.until(f"{count} replicas of {job} run", runs)
        return self.status(job)

    def fail(self, why: str) -> NoReturn:
        parts = [why]
        for name in self._kinds:
            parts += [f"--- {name}", yaml.safe_dump(self.status(name), sort_keys=False, width=200)]
            parts += [str(tuple(event)) for event in self.events(name)]
            parts += [f"pods: {_pods_line(self.pods(name))}"]
        parts += [str(line) for line in self.controller.lines[-10:]]
        raise AssertionError("\n".join(parts))

    # How it sees

    def follow(self, path: str) -> None:
        if path not in self._seen:
            self._seen[path] = Followed()
            self._watches.append(self._tasks.create_task(self._watch(path)))

    async def _watch(self, path: str) -> None:
        while True:
            try:
                return await self._see_all(path)
            except aiohttp.ClientResponseError as refused:
                # Of a kind that is new a server refuses watches until it knows its objects.
                if refused.status != TOO_MANY_REQUESTS:
                    raise
            await wait_seconds(LOOK_SECONDS)

    async def _see_all(self, path: str) -> None:
        async with aclosing(self.api.watch(path, deadline_seconds=WATCH_SECONDS)) as events:
            async for event in events:
                self._seen[path].see(event)
                self._news.set()
                self._news = asyncio.Event()

    def _path(self, kind: Kind) -> str:
        return f"/apis/{kind.api_version}/namespaces/{self.namespace}/{kind.plural}"

    def _followed(self, job: str) -> Followed:
        return self._seen[self._path(self._kinds[job])]

    def end(self) -> None:
        for watch in self._watches:
            watch.cancel()

    def broken_promises(self) -> Iterator[str]:
        """What no status of any job may do, found in all that were seen."""
        for name, kind in self._kinds.items():
            if kind.name not in ("BeamJob", "TaskSet"):
                for before, after in zip([{}, *self.statuses(name)], self.statuses(name)):  # noqa: B905
                    yield from (f"{name}: {text}" for text in _broken(before, after))
        for line in self.controller.lines:
            if line.get("level") in ("error", "critical") or "Traceback" in str(line):
                yield f"the controller logged {line}"


def condition(status: Mapping[str, Any], type_: str) -> Json:
    found = (c for c in status.get("conditions", ()) if c["type"] == type_)
    return next(found, {})


def _broken(before: Json, after: Json) -> Iterator[str]:
    if tuple(c["type"] for c in after["conditions"]) != CONDITIONS:
        yield f"conditions are {after['conditions']}"
    for old, new in zip(before.get("conditions", ()), after["conditions"], strict=False):
        if old["status"] == new["status"] and old != new:
            same = old["lastTransitionTime"] == new["lastTransitionTime"]
            if not same:
                yield f"the time of {new['type']} moved, its status did not"
    rows = [row for task in after["tasks"] for row in task["status"]]
    # Rows of replicas that were scaled away stay until their pods are gone.
    going = sum(row["phase"] == "Deleted" for row in rows)
    too_few, too_many = len(rows) < after["replicas"], len(rows) - going > after["replicas"]
    if sum(after["aggregate"].values()) != len(rows) or too_few or too_many:
        yield f"{len(rows)} rows, {after['replicas']} replicas, but {after['aggregate']}"
    if before.get("phase") in OVER:
        for what in ("phase", "completionTime", "conditions", "restarts"):
            if before.get(what) != after.get(what):
                yield f"{what} changed after the end: {before.get(what)} {after.get(what)}"
    if after.get("restarts", 0) < before.get("restarts", 0):
        yield "restarts went down"


def _pods_line(pods: Mapping[str, Json]) -> str:
    return ", ".join(
        f"{name}: {pod.get('status', {}).get('phase')}"
        + (" (leaving)" if "deletionTimestamp" in pod["metadata"] else "")
        for name, pod in pods.items()
    )


@dataclass(frozen=True)
class Staging:
    """What a test needs to have a stage: the fixture `staging`."""

    plane: ControlPlane
    namespace: str
    kubectl: Kubectl

    def play(
        self, act: Callable[[Stage], Coroutine[Any, Any, None]], *options: str, **kubelet: Any
    ) -> None:
        """Run a test on a stage, the controller with these options.

        The kubelet starts every pod and ends none, unless told so.
        """

        async def play() -> None:
            try:
                async with self.opened(*options, **({"manual": True} | kubelet)) as stage:
                    await act(stage)
            except BaseExceptionGroup as group:
                # Task groups wrap what the test itself raised; a reader wants that bare.
                raise _first(group) from None

        asyncio.run(play())

    @asynccontextmanager
    async def opened(self, *options: str, **kubelet: Any) -> AsyncIterator[Stage]:
        async with AsyncExitStack() as stack:
            api = await stack.enter_async_context(ApiCaller(self.plane))
            fake = FakeKubelet(self.plane, namespace=self.namespace, **kubelet)
            hands = await stack.enter_async_context(fake)
            process = await stack.enter_async_context(
                running_controller(self.plane.kubeconfig, self.namespace, *options)
            )
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            stage = Stage(self.plane, self.namespace, api, hands, process, self.kubectl, tasks)
            stack.callback(stage.end)
            for path in (*CHILDREN.values(), EVENTS):
                stage.follow(path.format(self.namespace))
            yield stage
            broken = list(stage.broken_promises())
            assert not broken, "\n".join(broken)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


class Story:
    """A job's status scene by scene, and its events, as a golden file has them.

    A scene is found among all statuses that the job had since the last one, so it may be over
    by the time that it is looked for. Times are hidden, and uids numbered as they come up.
    """

    def __init__(
        self, stage: Stage, job: str, title: str, *, tells_pods_once: bool = False
    ) -> None:
        """`tells_pods_once`: how many pods come in one pass is chance, as is how often they do.

        Two events with the same words in one second are one.
        """
        self._stage = stage
        self._job = job
        self._golden = GOLDEN / f"{title}.yaml"
        self._writes = bool(os.environ.get("JOBYARD_WRITE_GOLDEN"))
        self._tells_pods_once = tells_pods_once
        self._scenes: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        self._position = 0
        text = "" if self._writes else self._golden.read_text()
        self._wanted = dict(_parted(text))

    async def scene(self, title: str, holds: Callable[[Json], bool]) -> Json:
        """Await a status that fits the description and is as in the golden file."""
        try:
            at, status = await self._stage.until(title, lambda: self._found(title, holds))
        except AssertionError as error:
            self._differs(title, holds, error)
        self._uids = self._numbered(status)
        self._scenes[title] = self._text(status, self._uids)
        self._position = at
        return status

    async def told(self, last: str) -> None:
        """The end of the story: all events, up to one of the reason `last`."""

        def all_told() -> str | None:
            events = self._stage.events(self._job)
            if self._tells_pods_once:
                events = [*_with_pods_once(events)]
            if self._writes:
                text: str = yaml.dump(
                    [list(e) for e in events], default_flow_style=None, width=9999
                )
                return text if any(event.reason == last for event in events) else None
            # Those of one pass are sent together, so their order isn't certain.
            wanted = self._wanted.get("events", "")
            is_same = sorted(yaml.safe_load(wanted)) == sorted(map(list, events))
            return wanted if is_same else None

        try:
            found = await self._stage.until("all events", all_told)
        except AssertionError as error:
            raise AssertionError(f"wanted\n{self._wanted.get('events')}\n{error}") from None
        assert found is not None
        self._scenes["events"] = found
        await self._as_kubectl_has_it()
        text = "---\n".join(f"# {title}\n{scene}" for title, scene in self._scenes.items())
        if self._writes:
            self._golden.parent.mkdir(exist_ok=True)
            self._golden.write_text(text)
        assert text == self._golden.read_text()

    async def _as_kubectl_has_it(self) -> None:
        kind = self._stage.job(self._job)
        assert kind is not None
        shown = await self._stage.kubectl("get", kind["kind"], self._job, "-o", "yaml")
        status = yaml.safe_load(shown)["status"]
        *_, last = [scene for title, scene in self._scenes.items() if title != "events"]
        assert self._text(status, self._uids) == last

    def _found(self, title: str, holds: Callable[[Json], bool]) -> tuple[int, Json] | None:
        statuses = self._stage.statuses(self._job)
        for at in range(self._position, len(statuses)):
            status = statuses[at]
            if not holds(status):
                continue
            wanted = self._wanted.get(title)
            if self._writes or self._text(status, self._numbered(status)) == wanted:
                return at, status
        return None

    def _differs(self, title: str, holds: Callable[[Json], bool], error: BaseException) -> NoReturn:
        later = self._stage.statuses(self._job)[self._position :]
        fitting = [status for status in later if holds(status)] or later[-1:]
        found = [self._text(status, self._numbered(status)) for status in fitting[-1:]]
        lines = difflib.unified_diff(
            self._wanted.get(title, "").splitlines(),
            "".join(found).splitlines(),
            f"{self._golden.name}: {title}",
            "found",
            lineterm="",
        )
        raise AssertionError("\n".join([*lines, str(error)])) from None

    def _numbered(self, status: Json) -> dict[str, str]:
        uids = dict(self._uids)
        for uid in UID.findall(json.dumps(status)):
            uids.setdefault(uid, f"<uid {len(uids) + 1}>")
        return uids

    def _text(self, status: Json, uids: Mapping[str, str]) -> str:
        namespace = self._stage.namespace
        conditions = [
            {key: value for key, value in c.items() if key != "lastTransitionTime"}
            for c in status.get("conditions", ())
        ]
        shown = json.dumps(status | ({"conditions": conditions} if conditions else {}))
        shown = TIME.sub("<time>", shown).replace(namespace, "<namespace>")
        shown = ADDRESS.sub("<address>", shown)
        shown = UID.sub(lambda match: uids[match[0]], shown)
        value = json.loads(shown)
        if value.get("pauseCount"):
            value["activeSeconds"] = "<seconds>"
        dumped: str = yaml.dump(value, sort_keys=False, default_flow_style=None, width=10_000)
        return dumped


def _with_pods_once(events: list[Told]) -> Iterator[Told]:
    made: set[str] = set()
    for event in events:
        listed = MADE.fullmatch(event.message)
        if event.reason != "CreatedPods" or listed is None:
            yield event
        else:
            made.update(listed[1].split(", "))
    for name in sorted(made):
        yield Told("Normal", "CreatedPods", name)


def _parted(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split("---\n") if text else ():
        title, _, scene = part.partition("\n")
        yield title.removeprefix("# "), scene
