"""Decides what a pod does next: which container starts, which is told to end, what is checked.

Pure: order, facts and now give new facts, actions in their order, and when to look again. It
is called after everything that happens and again until it wants nothing more. Kubelet's rules:
init containers one after the other, sidecars before and after the others, delays that double.
"""

from __future__ import annotations

import signal
from typing import Final

import msgspec
from msgspec.structs import replace

from jobyard.node.shared.order import ContainerOrder, PodOrder, RestartPolicy
from jobyard.node.shared.state import Note, Stage
from jobyard.node.supervisor.facts import (
    ContainerFacts,
    Facts,
    HookKind,
    HookStage,
    sent_away,
    stop_asked,
    with_note,
    within,
)
from jobyard.node.supervisor.probing import ProbeKind, asked, is_active, is_good, probe_of

DEADLINE_REASON: Final = "DeadlineExceeded"
DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"


class Start(msgspec.Struct, frozen=True):
    """Run the container's command; answered by `begun`, or by `begun` and `ended`."""

    container: str


class Send(msgspec.Struct, frozen=True):
    """A signal to a running container."""

    container: str
    number: int


class RunHook(msgspec.Struct, frozen=True):
    """Answered by `hook_ended`, unless the container ends before."""

    container: str
    kind: HookKind


class CutHook(msgspec.Struct, frozen=True):
    """There is no more time for a hook; nothing is answered."""

    container: str
    kind: HookKind


class RunProbe(msgspec.Struct, frozen=True):
    """Answered by `probed`, unless the container ends before."""

    container: str
    kind: ProbeKind


Action = Start | Send | RunHook | CutHook | RunProbe


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """The next step. `wake_at`: when there is something to decide even if nothing happens."""

    facts: Facts
    actions: tuple[Action, ...] = ()
    wake_at: float | None = None


def is_over(facts: Facts) -> bool:
    """Nothing of the pod runs, nor will."""
    return facts.stop is not None and not any(
        container.stage is Stage.RUNNING for container in facts.containers.values()
    )


def has_started(facts: ContainerFacts) -> bool:
    """Running, past its postStart hook and its startup probe."""
    return (
        facts.stage is Stage.RUNNING
        and facts.post_start is HookStage.OVER
        and is_good(facts.counts, ProbeKind.STARTUP)
    )


def is_to_run_again(order: PodOrder, container: ContainerOrder, facts: ContainerFacts) -> bool:
    """Whether the restart policy wants another run of a container that ended."""
    assert facts.end is not None
    if container.is_sidecar:
        return True
    if container in order.init_containers or order.restart_policy is RestartPolicy.ON_FAILURE:
        return facts.end.exit_code != 0 and order.restart_policy is not RestartPolicy.NEVER
    return order.restart_policy is RestartPolicy.ALWAYS


def advance(order: PodOrder, facts: Facts, now: float, at: float) -> Advance:
    """What to do now."""
    step = _Step(order, facts, now, at)
    step.decide_the_end()
    if step.facts.stop is None:
        step.start()
    for container in (*order.init_containers, *order.containers):
        if step.of(container).stage is Stage.RUNNING:
            step.attend(container)
    return Advance(
        facts=step.facts, actions=tuple(step.actions), wake_at=min(step.wakes, default=None)
    )


class _Step:
    """One call of `advance`: facts that change while it goes through the pod."""

    def __init__(self, order: PodOrder, facts: Facts, now: float, at: float) -> None:
        self.order = order
        self.facts = facts
        self.now = now
        self.at = at
        self.actions: list[Action] = []
        self.wakes: list[float] = []

    def of(self, container: ContainerOrder) -> ContainerFacts:
        return self.facts.containers[container.name]

    def put(self, container: ContainerOrder, after: ContainerFacts) -> None:
        containers = {**self.facts.containers, container.name: after}
        self.facts = replace(self.facts, containers=containers)

    def note(
        self, container: ContainerOrder, reason: str, message: str, *, is_warning: bool
    ) -> None:
        note = Note(
            number=0,
            at=self.at,
            container=container.name,
            reason=reason,
            message=message,
            is_warning=is_warning,
        )
        self.facts = with_note(self.facts, note)

    def decide_the_end(self) -> None:
        """The pod ends by itself: its time is up, its work is done, or it can't begin."""
        if self.facts.stop is not None:
            return
        if self.order.deadline_seconds:
            deadline = self.facts.started + self.order.deadline_seconds
            if self.now >= deadline:
                self.facts = replace(self.facts, reason=DEADLINE_REASON, message=DEADLINE_MESSAGE)
                self.end()
                return
            self.wakes.append(deadline)
        is_lost = any(
            self.of(c).stage is Stage.ENDED
            and not self.of(c).is_passed
            and not is_to_run_again(self.order, c, self.of(c))
            for c in self.order.init_containers
            if not self.has_succeeded(c)
        )
        is_done = all(
            self.of(c).stage is Stage.ENDED and not is_to_run_again(self.order, c, self.of(c))
            for c in self.order.containers
        )
        if is_lost or is_done:
            self.end()

    def end(self) -> None:
        self.facts = stop_asked(self.facts, self.order.grace_seconds, self.now)

    def has_succeeded(self, container: ContainerOrder) -> bool:
        end = self.of(container).end
        return end is not None and end.exit_code == 0

    def start(self) -> None:
        """Starts one container at most; the next look starts the next one."""
        # As kubelet, which some meshes count on: nothing starts while a postStart hook runs.
        if any(
            facts.stage is Stage.RUNNING
            and facts.post_start in (HookStage.AHEAD, HookStage.RUNNING)
            for facts in self.facts.containers.values()
        ):
            return
        for container in self.order.init_containers:
            facts = self.of(container)
            is_far_enough = (
                has_started(facts) if container.is_sidecar else self.has_succeeded(container)
            )
            if is_far_enough and not facts.is_passed:
                self.put(container, replace(facts, is_passed=True))
            is_passed = facts.is_passed or is_far_enough
            if (container.is_sidecar or not is_passed) and self.start_if_due(container):
                return
            if not is_passed and not self.facts.is_initialized:
                return
        if not self.facts.is_initialized:
            self.facts = replace(self.facts, is_initialized=True)
        for container in self.order.containers:
            if self.start_if_due(container):
                return

    def start_if_due(self, container: ContainerOrder) -> bool:
        facts = self.of(container)
        if facts.stage is Stage.RUNNING:
            return False
        if facts.stage is Stage.ENDED:
            if not is_to_run_again(self.order, container, facts):
                return False
            due = facts.ended + facts.delay_seconds
            if self.now < due:
                self.wakes.append(due)
                text = (
                    f"Back-off restarting failed container {container.name} in pod "
                    f"{self.order.name}_{self.order.namespace}({self.order.uid})"
                )
                self.note(container, "BackOff", text, is_warning=True)
                return False
        if self.now < facts.put_off_until:
            self.wakes.append(facts.put_off_until)
            return False
        self.actions.append(Start(container.name))
        return True

    def attend(self, container: ContainerOrder) -> None:
        """Looks after a running container: hooks, probes, its end."""
        stop = self.facts.stop
        if stop is not None:
            facts = self.of(container)
            if facts.leaving is None:
                text = f"Stopping container {container.name}"
                self.note(container, "Killing", text, is_warning=False)
            self.put(container, sent_away(container, facts, stop))
        elif self.of(container).leaving is None:
            self.condemn(container)
        if self.of(container).leaving is not None:
            self.see_off(container)
        elif self.of(container).post_start is HookStage.AHEAD:
            self.put(container, replace(self.of(container), post_start=HookStage.RUNNING))
            self.actions.append(RunHook(container.name, HookKind.POST_START))
        self.probe(container)

    def condemn(self, container: ContainerOrder) -> None:
        """A postStart hook or a probe that failed for good ends the run."""
        facts = self.of(container)
        if facts.post_start is HookStage.FAILED:
            text = f"Container {container.name} failed its postStart hook"
            self.note(container, "Killing", text, is_warning=False)
            stop = within(self.order.grace_seconds, self.now)
            self.put(container, sent_away(container, facts, stop))
            return
        for count in facts.counts:
            if count.is_fatal:
                grace = probe_of(container.probes, count.kind).grace_seconds
                grace = self.order.grace_seconds if grace is None else grace
                text = f"Container {container.name} failed {count.kind} probe, will be restarted"
                self.note(container, "Killing", text, is_warning=False)
                self.put(container, sent_away(container, facts, within(grace, self.now)))
                return

    def see_off(self, container: ContainerOrder) -> None:
        """Hook, SIGTERM, SIGKILL, as far as the time allows."""
        facts = self.of(container)
        leaving = facts.leaving
        assert leaving is not None
        if leaving.is_killed:
            return
        is_late = self.now >= leaving.kill_by
        if not is_late and leaving.asked_at is None:
            self.wakes.append(leaving.kill_by)
            if leaving.pre_stop is HookStage.AHEAD:
                leaving = replace(leaving, pre_stop=HookStage.RUNNING)
                self.put(container, replace(facts, leaving=leaving))
                self.actions.append(RunHook(container.name, HookKind.PRE_STOP))
            if leaving.pre_stop is HookStage.RUNNING or not self.has_its_turn(container):
                return
        if leaving.pre_stop is HookStage.RUNNING:
            self.actions.append(CutHook(container.name, HookKind.PRE_STOP))
            leaving = replace(leaving, pre_stop=HookStage.OVER)
        if leaving.asked_at is None and leaving.last_words_seconds > 0:
            leaving = replace(leaving, asked_at=self.now)
            self.actions.append(Send(container.name, signal.SIGTERM))
        asked_at = self.now if leaving.asked_at is None else leaving.asked_at
        kill_at = max(leaving.kill_by, asked_at + leaving.last_words_seconds)
        if self.now >= kill_at:
            leaving = replace(leaving, is_killed=True)
            self.actions.append(Send(container.name, signal.SIGKILL))
        else:
            self.wakes.append(kill_at)
        self.put(container, replace(facts, leaving=leaving))

    def has_its_turn(self, container: ContainerOrder) -> bool:
        """When the pod ends, a sidecar waits for the containers and for the sidecars after it."""
        if self.facts.stop is None or not container.is_sidecar:
            return True
        every = (*self.order.init_containers, *self.order.containers)
        later = every[every.index(container) + 1 :]
        return not any(self.of(other).stage is Stage.RUNNING for other in later)

    def probe(self, container: ContainerOrder) -> None:
        facts = self.of(container)
        if facts.post_start is not HookStage.OVER:
            return
        is_leaving = facts.leaving is not None
        counts = list(facts.counts)
        for n, count in enumerate(counts):
            if not is_active(count, facts.counts, is_leaving=is_leaving):
                continue
            if self.now < count.next_at:
                self.wakes.append(count.next_at)
                continue
            counts[n] = asked(count, container.probes, self.now)
            self.actions.append(RunProbe(container.name, count.kind))
        self.put(container, replace(facts, counts=tuple(counts)))
