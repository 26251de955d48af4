"""What a pod does next, as tables: no process runs here and no time passes.

A `Rehearsal` does what a supervisor does with what `advance` wants, and keeps a diary.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobyard.node.shared.order import Check, ContainerOrder, PodOrder, Probe, Probes, RestartPolicy
from jobyard.node.shared.state import ContainerState, Stage
from jobyard.node.supervisor import facts as fact
from jobyard.node.supervisor.facts import Ending, HookKind
from jobyard.node.supervisor.probing import ProbeKind
from jobyard.node.supervisor.progress import (
    CutHook,
    RunHook,
    RunProbe,
    Send,
    Start,
    advance,
    is_over,
)
from jobyard.node.supervisor.reporting import pod_state
from node.supervised import pod, shell

CHECK = Check(tcp_port=1)
ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER


class Rehearsal:
    """A pod on a clock of its own. The diary has (time, what) of everything that was wanted."""

    def __init__(self, order: PodOrder) -> None:
        self.order = order
        self.now = 0.0
        self.facts = fact.first_facts(order, 0, 0)
        self.diary: list[tuple[float, str]] = []
        self.wake_at: float | None = None
        self._pids = iter(range(1, 10**6))
        self.settle()

    @property
    def every(self) -> dict[str, ContainerOrder]:
        return {c.name: c for c in (*self.order.init_containers, *self.order.containers)}

    def settle(self) -> None:
        for _ in range(1000):
            step = advance(self.order, self.facts, self.now, self.now)
            self.facts = step.facts
            self.wake_at = step.wake_at
            if not step.actions:
                return
            for action in step.actions:
                self._do(action)
        raise AssertionError(f"never content: {self.diary[-5:]}")

    def _do(self, action: Any) -> None:
        match action:
            case Start(name):
                self.note(f"start {name}")
                self.facts = fact.begun(
                    self.facts,
                    self.order,
                    self.every[name],
                    next(self._pids),
                    now=self.now,
                    at=self.now,
                )
            case Send(name, number):
                self.note(f"{signal.Signals(number).name[3:]} {name}")
            case RunHook(name, kind):
                self.note(f"{kind} {name}")
            case CutHook(name, kind):
                self.note(f"cut {kind} {name}")
            case RunProbe(name, kind):
                self.note(f"{kind} {name}")

    def note(self, text: str) -> None:
        self.diary.append((self.now, text))

    def end(self, name: str, code: int = 0) -> None:
        reason = "Error" if code else "Completed"
        ending = Ending(exit_code=code, reason=reason)
        self.facts = fact.ended(self.facts, name, ending, now=self.now, at=self.now)
        self.settle()

    def hook(self, name: str, kind: HookKind, problem: str = "") -> None:
        self.facts = fact.hook_ended(self.facts, name, kind, problem, self.now)
        self.settle()

    def probed(self, name: str, kind: ProbeKind, problem: str = "") -> None:
        self.facts = fact.probed(self.facts, self.every[name], kind, problem, self.now)
        self.settle()

    def stop(self, grace: float) -> None:
        self.facts = fact.stop_asked(self.facts, grace, self.now)
        self.settle()

    def pass_time(self, seconds: float) -> None:
        """Goes from one time that matters to the next."""
        end = self.now + seconds
        while self.wake_at is not None and self.wake_at <= end:
            assert self.wake_at > self.now or not self.now, "woken for nothing"
            self.now = self.wake_at
            self.settle()
        self.now = end
        self.settle()

    def written(self) -> list[str]:
        """The diary since the last look, as `time what`."""
        told = [f"{at:g} {what}" for at, what in self.diary]
        self.diary.clear()
        return told

    def state(self, name: str) -> ContainerState:
        state = pod_state(self.order, self.facts, supervisor_pid=1)
        return next(c for c in (*state.init_containers, *state.containers) if c.name == name)

    @property
    def is_over(self) -> bool:
        return is_over(self.facts)


def sidecar(name: str, **fields: Any) -> ContainerOrder:
    return shell("", name, is_sidecar=True, **fields)


def probing(kind: ProbeKind, name: str = "a", **fields: Any) -> ContainerOrder:
    return shell("", name, probes=Probes(**{str(kind): Probe(check=CHECK, **fields)}))


def test_init_containers_run_one_after_the_other_and_then_all_others() -> None:
    inits = (shell("", "i"), shell("", "j"))
    it = Rehearsal(pod(shell("", "a"), shell("", "b"), init_containers=inits))
    assert it.written() == ["0 start i"]
    assert it.state("a").reason == "PodInitializing"
    it.end("i")
    assert it.written() == ["0 start j"]
    assert it.state("i").is_ready
    it.end("j")
    assert it.written() == ["0 start a", "0 start b"]
    it.end("a")
    assert not it.is_over
    it.end("b")
    assert it.is_over
    assert not it.written()


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        (ALWAYS, 0, True),
        (ALWAYS, 1, True),
        (ON_FAILURE, 0, False),
        (ON_FAILURE, 1, True),
        (NEVER, 0, False),
        (NEVER, 1, False),
    ],
)
def test_the_policy_decides_whether_a_container_runs_again(
    policy: RestartPolicy, code: int, again: bool
) -> None:
    it = Rehearsal(pod(shell("", "a"), restart_policy=policy))
    it.written()
    it.end("a", code)
    assert it.written() == (["0 start a"] if again else [])
    assert it.is_over is not again


@pytest.mark.parametrize(
    ("policy", "code", "then"),
    [
        (ALWAYS, 0, "0 start a"),
        (ALWAYS, 1, "0 start i"),
        (ON_FAILURE, 1, "0 start i"),
        (NEVER, 0, "0 start a"),
        (NEVER, 1, ""),
    ],
)
def test_an_init_container_that_ends_is_followed_by(
    policy: RestartPolicy, code: int, then: str
) -> None:
    it = Rehearsal(pod(shell("", "a"), init_containers=(shell("", "i"),), restart_policy=policy))
    it.written()
    it.end("i", code)
    assert it.written() == ([then] if then else [])
    assert it.is_over is not bool(then)
    if not then:
        assert it.state("a").stage is Stage.WAITING


def test_delays_double_and_start_over_after_ten_minutes() -> None:
    it = Rehearsal(pod(shell("", "a"), restart_policy=ALWAYS, restart_delay_seconds=10))
    it.written()
    waits = []
    for _ in range(8):
        it.end("a", 1)
        ended = it.now
        if it.wake_at is not None:
            assert it.state("a").reason == "CrashLoopBackOff"
            it.pass_time(it.wake_at - it.now)
        waits.append(it.now - ended)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    assert it.state("a").run == 8
    it.pass_time(601)
    it.end("a", 1)
    assert it.wake_at is None
    assert it.state("a").stage is Stage.RUNNING


def test_a_waiting_container_tells_of_the_run_that_ended() -> None:
    it = Rehearsal(pod(shell("", "a"), restart_policy=ALWAYS, restart_delay_seconds=10))
    it.end("a", 1)
    it.end("a", 2)
    state = it.state("a")
    assert (state.stage, state.run, state.reason) == (Stage.WAITING, 1, "CrashLoopBackOff")
    assert state.message.startswith("back-off 10s restarting failed container=a pod=pod_default(")
    assert state.last_end is not None
    assert state.last_end.exit_code == 2
    assert [note.reason for note in it.facts.notes] == ["BackOff"]
    it.pass_time(10)
    state = it.state("a")
    assert (state.stage, state.run) == (Stage.RUNNING, 2)
    assert state.last_end is not None
    assert state.last_end.exit_code == 2
    it.end("a", 3)
    it.stop(30)
    state = it.state("a")
    assert (state.stage, state.run) == (Stage.ENDED, 2)
    assert it.is_over


def test_a_sidecar_goes_on_beside_the_others_and_ends_last() -> None:
    order = pod(
        shell("", "a"),
        init_containers=(sidecar("s"), shell("", "i"), sidecar("t")),
        grace_seconds=30,
    )
    it = Rehearsal(order)
    assert it.written() == ["0 start s", "0 start i"]
    it.end("s", 1)
    assert it.written() == ["0 start s"], "also where the pod's policy is Never"
    it.end("i")
    assert it.written() == ["0 start t", "0 start a"]
    it.end("a")
    assert it.written() == ["0 TERM t"], "the last one first"
    it.end("t")
    assert it.written() == ["0 TERM s"]
    it.pass_time(30)
    assert it.written() == ["30 KILL s"]
    it.end("s", 137)
    assert it.is_over


def test_a_sidecar_that_crashes_later_does_not_stop_the_others() -> None:
    order = pod(
        shell("", "a"),
        init_containers=(sidecar("s"),),
        restart_policy=ALWAYS,
        restart_delay_seconds=10,
    )
    it = Rehearsal(order)
    it.end("s", 1)
    it.end("s", 1)
    it.written()
    it.end("a", 1)
    assert it.written() == ["0 start a"]


def test_those_after_a_sidecar_wait_for_its_startup_probe() -> None:
    probes = Probes(startup=Probe(check=CHECK, period_seconds=5))
    it = Rehearsal(pod(shell("", "a"), init_containers=(sidecar("s", probes=probes),)))
    assert it.written() == ["0 start s", "0 startup s"]
    it.probed("s", ProbeKind.STARTUP, "no")
    it.pass_time(5)
    assert it.written() == ["5 startup s"]
    it.probed("s", ProbeKind.STARTUP)
    assert it.written() == ["5 start a"]


def test_stopping_asks_waits_and_kills() -> None:
    it = Rehearsal(pod(shell("", "a"), shell("", "b"), restart_policy=ALWAYS))
    it.written()
    it.stop(30)
    assert it.written() == ["0 TERM a", "0 TERM b"]
    it.end("a")
    it.pass_time(29)
    assert not it.written()
    it.pass_time(1)
    assert it.written() == ["30 KILL b"]
    it.end("b", 137)
    assert it.is_over


def test_without_grace_there_is_only_the_kill() -> None:
    hook = shell("", "a", pre_stop=CHECK)
    it = Rehearsal(pod(hook))
    it.written()
    it.stop(0)
    assert it.written() == ["0 KILL a"]


def test_a_second_stop_only_hurries() -> None:
    it = Rehearsal(pod(shell("", "a")))
    it.written()
    it.stop(30)
    it.stop(60)
    it.pass_time(5)
    it.stop(3)
    it.pass_time(2)
    assert it.written() == ["0 TERM a"]
    it.stop(0)
    assert it.written() == ["7 KILL a"]


def test_a_stop_while_init_containers_run_leaves_the_others_waiting() -> None:
    it = Rehearsal(pod(shell("", "a"), init_containers=(shell("", "i"),), restart_policy=ALWAYS))
    it.written()
    it.stop(30)
    assert it.written() == ["0 TERM i"]
    it.end("i", 143)
    assert it.is_over
    assert not it.written()
    assert it.state("a").stage is Stage.WAITING


def test_a_pre_stop_hook_comes_before_the_signal_and_within_the_grace() -> None:
    it = Rehearsal(pod(shell("", "a", pre_stop=CHECK), shell("", "b", pre_stop=CHECK)))
    it.written()
    it.stop(30)
    assert it.written() == ["0 preStop a", "0 preStop b"]
    it.pass_time(10)
    it.hook("a", HookKind.PRE_STOP, "it failed, which changes nothing")
    assert it.written() == ["10 TERM a"]
    it.pass_time(20)
    assert it.written() == ["30 KILL a", "30 cut preStop b", "30 TERM b"]
    it.pass_time(2)
    assert it.written() == ["32 KILL b"], "two seconds for last words, as kubelet"
    assert "FailedPreStopHook" in [note.reason for note in it.facts.notes]


def test_hooks_of_sidecars_run_at_once_but_signals_wait_for_their_turn() -> None:
    it = Rehearsal(
        pod(shell("", "a"), init_containers=(sidecar("s", pre_stop=CHECK), sidecar("t")))
    )
    it.written()
    it.stop(30)
    assert it.written() == ["0 preStop s", "0 TERM a"]
    it.hook("s", HookKind.PRE_STOP)
    it.pass_time(30)
    assert it.written() == ["30 TERM s", "30 TERM t", "30 KILL a"], "no more time for turns"
    it.pass_time(2)
    assert it.written() == ["32 KILL s", "32 KILL t"]


def test_nothing_else_starts_while_a_post_start_hook_runs() -> None:
    it = Rehearsal(pod(shell("", "a", post_start=CHECK), shell("", "b"), grace_seconds=5))
    assert it.written() == ["0 start a", "0 postStart a"]
    assert not it.state("a").has_started
    assert not it.state("a").is_ready
    it.hook("a", HookKind.POST_START)
    assert it.written() == ["0 start b"]
    assert it.state("a").is_ready


def test_a_post_start_hook_that_fails_takes_the_container_with_it() -> None:
    it = Rehearsal(pod(shell("", "a", post_start=CHECK), grace_seconds=5, restart_policy=ALWAYS))
    it.written()
    it.hook("a", HookKind.POST_START, "PostStartHook failed: no")
    assert it.written() == ["0 TERM a"]
    assert not it.state("a").has_started
    it.pass_time(5)
    assert it.written() == ["5 KILL a"]
    it.end("a", 137)
    assert it.written() == ["5 start a", "5 postStart a"]
    assert it.facts.notes[0].reason == "FailedPostStartHook"


def test_a_liveness_probe_kills_after_enough_failures_in_a_row() -> None:
    a = probing(ProbeKind.LIVENESS, initial_delay_seconds=3, period_seconds=10, grace_seconds=1)
    it = Rehearsal(pod(a, restart_policy=ALWAYS))
    assert it.written() == ["0 start a"]
    it.pass_time(3)
    assert it.written() == ["3 liveness a"]
    it.pass_time(20)
    assert not it.written(), "not while the one before has not ended"
    it.probed("a", ProbeKind.LIVENESS, "no")
    it.probed("a", ProbeKind.LIVENESS, "no")
    it.probed("a", ProbeKind.LIVENESS)
    it.probed("a", ProbeKind.LIVENESS, "no")
    it.probed("a", ProbeKind.LIVENESS, "no")
    assert "TERM" not in " ".join(it.written())
    assert it.state("a").is_ready
    it.probed("a", ProbeKind.LIVENESS, "no")
    it.pass_time(1)
    assert it.written() == ["23 TERM a", "24 KILL a"], "with the grace of the probe"
    notes = [note.message for note in it.facts.notes]
    assert notes == [
        "Liveness probe failed: no",
        "Container a failed liveness probe, will be restarted",
    ]
    it.end("a", 137)
    assert it.written() == ["24 start a"]
    it.pass_time(3)
    assert it.written() == ["27 liveness a"]


def test_a_readiness_probe_decides_only_about_readiness() -> None:
    a = probing(ProbeKind.READINESS, period_seconds=1, success_threshold=2, failure_threshold=2)
    it = Rehearsal(pod(a))
    assert it.written() == ["0 start a", "0 readiness a"]
    told = []
    for problem in ("", "", "no", "no", "", ""):
        it.probed("a", ProbeKind.READINESS, problem)
        told.append(it.state("a").is_ready)
        it.pass_time(1)
    assert told == [False, True, True, False, False, True]
    assert it.state("a").has_started
    assert it.written() == [f"{n} readiness a" for n in range(1, 7)]


def test_a_startup_probe_holds_the_others_back_and_ends_for_good() -> None:
    every = Probe(check=CHECK, period_seconds=1, failure_threshold=3)
    a = shell("", "a", probes=Probes(startup=every, liveness=every, readiness=every))
    it = Rehearsal(pod(a))
    assert it.written() == ["0 start a", "0 startup a"]
    it.probed("a", ProbeKind.STARTUP, "no")
    it.pass_time(1)
    assert it.written() == ["1 startup a"]
    assert not it.state("a").has_started
    it.probed("a", ProbeKind.STARTUP)
    assert it.written() == ["1 liveness a", "1 readiness a"]
    assert it.state("a").has_started
    it.pass_time(10)
    assert not it.written()


def test_a_startup_probe_that_never_succeeds_kills() -> None:
    a = probing(ProbeKind.STARTUP, period_seconds=1, failure_threshold=2)
    it = Rehearsal(pod(a, grace_seconds=30))
    for _ in range(2):
        it.probed("a", ProbeKind.STARTUP, "no")
        it.pass_time(1)
    assert "1 TERM a" in it.written()


def test_while_it_ends_a_container_is_only_asked_whether_it_is_ready() -> None:
    every = Probe(check=CHECK, period_seconds=1)
    a = shell("", "a", probes=Probes(liveness=every, readiness=every))
    it = Rehearsal(pod(a))
    it.stop(30)
    it.written()
    it.probed("a", ProbeKind.LIVENESS)
    it.probed("a", ProbeKind.READINESS)
    it.pass_time(1)
    assert it.written() == ["1 readiness a"]


def test_at_its_deadline_a_pod_is_ended() -> None:
    it = Rehearsal(pod(shell("", "a"), deadline_seconds=60, grace_seconds=5, restart_policy=ALWAYS))
    it.written()
    it.pass_time(59)
    assert not it.written()
    it.pass_time(6)
    assert it.written() == ["60 TERM a", "65 KILL a"]
    it.end("a", 137)
    assert it.is_over
    assert it.facts.reason == "DeadlineExceeded"


names = st.sampled_from(["s", "i", "a", "b"])
happenings = st.one_of(
    st.tuples(st.just("end"), names, st.sampled_from([0, 1, 137])),
    st.tuples(st.just("hook"), names, st.sampled_from(["", "no"])),
    st.tuples(st.just("probe"), names, st.sampled_from(["", "no"])),
    st.tuples(st.just("time"), names, st.sampled_from([0.5, 3, 30])),
    st.tuples(st.just("stop"), names, st.sampled_from([0, 1, 30])),
)


@given(
    policy=st.sampled_from(RestartPolicy),
    deadline=st.sampled_from([0, 20]),
    story=st.lists(happenings, max_size=40),
)
@settings(max_examples=300, deadline=None)
def test_whatever_happens(policy: RestartPolicy, deadline: float, story: list[Any]) -> None:
    """Started only what may run, over stays over, and a pod that is stopped comes to its end."""
    probe = Probe(check=CHECK, period_seconds=1, failure_threshold=2)
    every = Probes(startup=probe, liveness=probe, readiness=probe)
    order = pod(
        shell("", "a", post_start=CHECK, pre_stop=CHECK, probes=every),
        shell("", "b", probes=every),
        init_containers=(sidecar("s", probes=every, pre_stop=CHECK), shell("", "i")),
        restart_policy=policy,
        deadline_seconds=deadline,
        restart_delay_seconds=1,
    )
    it = Rehearsal(order)
    ended = 0
    for what, name, value in story:
        known = it.facts.containers[name]
        was_over, was_stopped = it.is_over, it.facts.stop is not None
        if what == "stop":
            it.stop(value)
        elif what == "time":
            it.pass_time(value)
        elif known.stage is Stage.RUNNING:
            if what == "end":
                it.end(name, value)
                ended += 1
            elif what == "hook":
                for kind in HookKind:
                    stage = known.leaving.pre_stop if known.leaving else None
                    if kind is HookKind.POST_START:
                        stage = known.post_start
                    if stage is fact.HookStage.RUNNING:
                        it.hook(name, kind, value)
            else:
                for count in known.counts:
                    if count.is_running:
                        it.probed(name, count.kind, value)
        started = [text for text in it.written() if " start " in text]
        assert not (was_over or was_stopped) or not started
        assert it.is_over or not was_over
        if not it.facts.is_initialized:
            assert it.facts.containers["a"].stage is Stage.WAITING
    it.stop(1)
    it.pass_time(10)
    for name, known in it.facts.containers.items():
        if known.stage is Stage.RUNNING:
            assert known.leaving is not None
            assert known.leaving.is_killed
            it.end(name, 137)
    assert it.is_over
