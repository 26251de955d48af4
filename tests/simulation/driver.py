"""One run: at each step something happens, whatever the dice say, and all of it is replayable.

What can happen: a cache hears of the next change or loses its watch, a pass begins or gets one of
its calls answered (or not), the controller dies, time passes, pods live, people meddle. Each
run has its own likelihoods, so that runs differ in what they are mostly about.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import deque
from collections.abc import Callable
from itertools import accumulate

import msgspec

from jobyard.client.request import Answer
from jobyard.plan.lowering.description import Role
from jobyard.plan.lowering.names import REPLICA_TYPE, TASK_ROLE, TASKSET_UID
from simulation.controller import Controller, Pass, pick
from simulation.invariants import Invariants
from simulation.kubelet import Kubelet
from simulation.server import JSON, Server
from simulation.users import Users
from simulation.violation import ViolationError

START = 1_800_000_000.0
TRACE_LENGTH = 400
# What can be left out of a run, to find out what it takes to fail.
FAULTS = (
    "crash",
    "relist",
    "duplicate",
    "refusal",
    "lost answer",
    "retry",
    "node",
    "clock",
    "clocks of nodes",
    "edit",
    "delete",
    "stranger",
    "cruelty",
    "rival",
    "quota",
)
_ERROR = Answer(500, b'{"kind":"Status","code":500,"reason":"InternalError","message":"etcd"}')
_BUSY = Answer(429, b'{"kind":"Status","code":429,"reason":"TooManyRequests","message":"busy"}')


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run depends on."""

    seed: int
    steps: int = 1200
    without: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()


class Simulation:
    """The parts of a run, and its steps."""

    def __init__(self, settings: Settings, *, trace_length: int = TRACE_LENGTH) -> None:
        self.settings = settings
        self.dice = random.Random(settings.seed)
        self.now = START + self.dice.random()
        self.trace: deque[str] = deque(maxlen=trace_length)
        self.steps = 0
        self.invariants = Invariants(self.clock)
        self.server = Server(self.dice, self.clock)
        self.kubelet = Kubelet(self.server, self.dice, self.clock, self._role_of)
        self.invariants.kubelet = self.kubelet
        self.server.audit = self.invariants.audit
        self.users = Users(self.server, self.dice, self.invariants)
        self.users.kinds = settings.kinds
        self.controllers = [Controller(self.server, self.clock, "c0")]
        self._count = 0
        self._choose_likelihoods()

    def clock(self) -> float:
        return self.now

    def _role_of(self, pod: JSON) -> Role | None:
        (owner,) = pod["metadata"].get("ownerReferences") or ({},)
        notes, labels = pod["metadata"].get("annotations", {}), pod["metadata"].get("labels", {})
        job = self.invariants.jobs.get(notes.get(TASKSET_UID, owner.get("uid", "")))
        type_ = labels.get(REPLICA_TYPE) or labels.get(TASK_ROLE)
        roles = job.description.roles if job is not None else ()
        return next((role for role in roles if role.type == type_), None)

    def _choose_likelihoods(self) -> None:
        dice, without = self.dice, self.settings.without

        def some(name: str, *chances: float) -> float:
            chance = dice.choice(chances)
            return 0.0 if name in without else chance

        self._refused = some("refusal", 0, 0, 0.03, 0.2)
        self._lost = some("lost answer", 0, 0, 0.03, 0.2)
        self._retried = some("retry", 0, 0.03, 0.2)
        self.kubelet.cruelty = some("cruelty", 0, 0.02, 0.1, 0.3)
        if some("clocks of nodes", 0, 0, 1):
            self.kubelet.set_clocks()
        self.users.may_edit = some("edit", 0, 1) > 0
        self.users.may_delete = some("delete", 0, 1) > 0
        self.users.may_be_strange = some("stranger", 0, 0, 1) > 0
        may_rival = some("rival", 0, 0, 0, 0, 0, 1)
        weights: dict[Callable[[], str], float] = {
            self._deliver: dice.choice((5, 20, 60)),
            self._begin: dice.choice((5, 20)),
            self._call: dice.choice((15, 40)),
            self.kubelet.step: dice.choice((3, 10, 30)),
            self._pass_time: dice.choice((1, 4, 10)),
            self._collect: 2,
            self._bookmark: 0.5,
            self.users.step: dice.choice((0.1, 0.5, 2)),
            self.users.create: 0.5,
            self._crash: some("crash", 0, 0.2, 2),
            self._relist: some("relist", 0, 0.3, 2),
            self._duplicate: some("duplicate", 0, 0.5),
            self.kubelet.node_step: some("node", 0, 0, 0.1),
            self._rival: may_rival * 0.3,
            self._quota: some("quota", 0, 0, 0.2),
        }
        self._actions = list(weights)
        self._edges = list(accumulate(weights.values()))

    # Running.

    def run(self) -> None:
        """The random part; `settling` comes after it."""
        while self.steps < self.settings.steps:
            self.step()

    def step(self) -> None:
        roll = self.dice.random() * self._edges[-1]
        action = self._actions[bisect(self._edges, roll)]
        what = action()
        if what:
            self.steps += 1
            self.now += self.dice.random() * 0.1
            self.trace.append(what)

    def _controller(self) -> Controller:
        if len(self.controllers) == 1:
            return self.controllers[0]
        controller: Controller = pick(self.dice, self.controllers)
        return controller

    def _deliver(self) -> str:
        controller = self._controller()
        behind = controller.behind()
        if not behind:
            return ""
        stream = pick(self.dice, behind)
        controller.deliver(stream)
        many = self.dice.random() < 0.3
        while many and stream.has_news:
            controller.deliver(stream)
        return f"{controller} hears of {stream.plural}, now at {stream.place}"

    def _begin(self) -> str:
        controller = self._controller()
        ready = controller.ready()
        if not ready:
            return ""
        key = pick(self.dice, ready)
        with self._faultless(f"{controller} passes over {key}"):
            controller.begin(key)
        return f"{controller} begins a pass over {key}"

    def _call(self) -> str:
        controller = self._controller()
        if not controller.busy:
            return ""
        each: Pass = pick(self.dice, list(controller.busy.values()))
        assert each.batch is not None
        if not each.batch.waiting:
            self.advance(controller, each)
            return f"{controller} goes on with {each.key}"
        what = self._answer(controller, each)
        if not each.batch.waiting and self.dice.random() < 0.7:
            self.advance(controller, each)
        return what

    def advance(self, controller: Controller, each: Pass) -> None:
        with self._faultless(f"{controller} goes on with {each.key}"):
            controller.advance(each)

    def _faultless(self, what: str) -> _Faultless:
        return _Faultless(what)

    def _answer(self, controller: Controller, each: Pass) -> str:
        batch = each.batch
        assert batch is not None
        index = batch.waiting.pop(int(self.dice.random() * len(batch.waiting)))
        request = batch.requests[index]
        answer, how = self._carried_out(controller, each, index)
        if request.method == "PATCH" and (answer is None or answer.status >= 500):
            controller.unanswered.add((each.key.namespace, each.key.name))
        batch.outcomes[index] = answer
        is_bad = answer is None or (not answer.is_ok and answer.status != 409)
        if is_bad and request.method == "POST" and self.dice.random() < 0.3:
            # A slow start: the rest is not even sent.
            batch.waiting.clear()
        status = answer.status if answer is not None else "no answer"
        return f"{controller} {request}{how}: {status}"

    def _carried_out(
        self, controller: Controller, each: Pass, index: int
    ) -> tuple[Answer | None, str]:
        roll = self.dice.random()
        if roll < self._refused:
            return (_ERROR if roll < self._refused / 2 else _BUSY), ""
        roll -= self._refused
        if roll < self._lost / 2:
            return None, " (never sent)"
        answer = self.handle(controller, each, index)
        if roll < self._lost:
            return None, f" (answer {answer.status} lost)"
        roll -= self._lost
        if roll < self._retried:
            return self.handle(controller, each, index), f" (sent again after {answer.status})"
        return answer, ""

    def handle(self, controller: Controller, each: Pass, index: int) -> Answer:
        assert each.batch is not None
        controller.current = each
        try:
            return self.server.handle(each.batch.requests[index], controller)
        finally:
            controller.current = None

    def _pass_time(self) -> str:
        chance = self.dice.random()
        due = min((d for c in self.controllers if (d := c.next_due()) is not None), default=None)
        if chance < 0.5 and due is not None:
            self.now = max(self.now, due)
        elif chance < 0.97 or "clock" in self.settings.without:
            self.now += self.dice.choice((0.2, 0.9, 3, 31, 70))
        else:
            self.now += self.dice.choice((700, 4000))
        return f"it is {self.now - START:.1f}"

    def _collect(self) -> str:
        return collect(self)

    def _bookmark(self) -> str:
        controller = self._controller()
        stream = pick(self.dice, controller.streams)
        if not stream.shelf.is_synced:
            return ""
        log = stream.log
        version = log[stream.place].version - 1 if stream.place < len(log) else self.server.version
        stream.shelf.reached(str(version))
        return f"{controller} gets a bookmark of {stream.plural}"

    def _relist(self) -> str:
        controller = self._controller()
        stream = pick(self.dice, controller.behind() or controller.streams)
        # The first list is as fresh as the server; a later one never goes back.
        first = stream.place if stream.shelf.is_synced else len(stream.log)
        controller.relist(stream, self.dice.randint(first, len(stream.log)))
        return f"{controller} lists {stream.plural}, now at {stream.place}"

    def _duplicate(self) -> str:
        controller = self._controller()
        stream = pick(self.dice, controller.streams)
        if not stream.place or not stream.shelf.is_synced:
            return ""
        for event in stream.log[max(0, stream.place - self.dice.randint(1, 3)) : stream.place]:
            stream.tell(event)
        return f"{controller} hears once more of {stream.plural}"

    def _crash(self) -> str:
        controller = self._controller()
        for each in controller.busy.values():
            assert each.batch is not None
            for index in each.batch.waiting:
                if self.dice.random() < 0.2:
                    # It was on its way already.
                    self.handle(controller, each, index)
        controller.kill()
        self.controllers.remove(controller)
        self._count += 1
        self.controllers.append(Controller(self.server, self.clock, f"c{self._count}"))
        return f"{controller} dies"

    def _quota(self) -> str:
        """The namespace is full, or has room again."""
        if self.server.pods_max is not None:
            self.server.pods_max = None
            return "there is room again"
        self.server.pods_max = len(self.server.objects.get("pods", {})) + self.dice.randint(0, 3)
        return f"there is room for {self.server.pods_max} pods"

    def _rival(self) -> str:
        if len(self.controllers) > 1:
            self.controllers.pop(self.dice.randrange(2)).kill()
            return "one of two controllers ends"
        self.invariants.has_rivals = True
        self._count += 1
        self.controllers.append(Controller(self.server, self.clock, f"c{self._count}"))
        return "a second controller begins"


class _Faultless:
    """What a pass raises is a violation too."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, type_: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ViolationError):
            raise ViolationError("exception", f"{self._what}: {error!r}") from error


def collect(simulation: Simulation) -> str:
    """The garbage collector takes one owner that is gone, or a job that goes in the foreground."""
    server, users = simulation.server, simulation.users
    for uid in sorted(users.foreground):
        job = simulation.invariants.jobs[uid]
        if job.is_gone:
            users.foreground.discard(uid)
        elif not server.owned.get(uid):
            users.foreground.discard(uid)
            server.remove(job.plural, job.obj, "collector")
            return f"{job} is gone"
        elif _collect_owned(server, uid):
            return f"what {job} owns is deleted"
    for uid in list(server.orphaned):
        del server.orphaned[uid]
        if _collect_owned(server, uid):
            return f"what {uid} owned is deleted"
    return ""


def _collect_owned(server: Server, owner: str) -> int:
    count = 0
    for uid in sorted(server.owned.get(owner, ())):
        plural, key = server.by_uid[uid]
        obj = server.objects[plural][key]
        if obj["metadata"].get("annotations", {}).get("stranger"):
            continue
        if "deletionTimestamp" not in obj["metadata"]:
            server.delete(plural, obj, "collector")
            count += 1
    return count
