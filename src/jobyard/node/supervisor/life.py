"""The life of one pod, from the lock to the last state: the loop around `progress`.

Called in a process of its own, which does nothing else. Everything that happens becomes facts,
`advance` says what follows, and what comes of that is stored before anybody hears of it. It
knows processes only through the cage, and the agent only as one who may be connected.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from functools import partial
from typing import Final

from msgspec.structs import replace

from jobyard.node.isolation.cage import Cage, CannotRunError, NotNowError
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.keeping import take_lock, was_started, write_state
from jobyard.node.shared.order import Check, ContainerOrder, PodOrder
from jobyard.node.shared.state import PodState
from jobyard.node.supervisor import facts as fact
from jobyard.node.supervisor.checks import ENDLESS_SECONDS, Cancellable, Checker, Done
from jobyard.node.supervisor.control_socket import Client, Desk
from jobyard.node.supervisor.facts import Ending, HookKind
from jobyard.node.supervisor.guests import Guests
from jobyard.node.supervisor.loop import Loop, Timer
from jobyard.node.supervisor.messages import (
    Answer,
    AttachTo,
    Command,
    ConnectTo,
    ForwardPorts,
    SignalInside,
    StartInside,
    StopPod,
)
from jobyard.node.supervisor.probing import ProbeKind, probe_of
from jobyard.node.supervisor.progress import (
    Action,
    CutHook,
    RunHook,
    RunProbe,
    Send,
    Start,
    advance,
    is_over,
)
from jobyard.node.supervisor.reporting import pod_state
from jobyard.node.supervisor.running import Run, Surroundings

_RETRY_SECONDS: Final = 1.0
_LAST_TRIES_MAX: Final = 30


def supervise(folder: PodFolder, order: PodOrder, cage: Cage) -> None:
    """Runs the pod to its end; returns at once if it runs, or ran, already."""
    lock = take_lock(folder)
    if lock is None:
        return
    if was_started(folder):
        os.close(lock)
        return
    with contextlib.suppress(PermissionError):
        os.setsid()
    life = Life(folder, order, cage)
    try:
        life.live()
    finally:
        life.close()
        os.close(lock)


class Life:
    """One pod. What it keeps itself is only what has no place in the facts."""

    def __init__(self, folder: PodFolder, order: PodOrder, cage: Cage) -> None:
        self._folder = folder
        self._order = order
        self._cage = cage
        self._loop = Loop()
        self._facts = fact.first_facts(order, self._loop.now(), time.time())
        self._every = {c.name: c for c in (*order.init_containers, *order.containers)}
        self._runs: dict[str, Run] = {}
        self._hooks: dict[tuple[str, HookKind], Cancellable] = {}
        self._around = Surroundings(folder, order, cage, self._loop)
        self._checker = Checker(self._loop, cage, order)
        self._guests = Guests(self._loop, cage, order)
        self._desk = Desk(self._loop, folder.control, self._take)
        self._stored = PodState(uid=order.uid)
        self._settled = self._facts
        self._wake: Timer | None = None
        self._is_woken = False
        self._tries = 0
        self._is_done = False
        _let_go_when_forked(self._desk, self._loop)

    def live(self) -> None:
        """Until nothing of the pod runs, nor will."""
        state = pod_state(self._order, self._facts, supervisor_pid=os.getpid())
        self._stored = replace(state, revision=1)
        # If this fails the pod does not start: nobody would know that it ever had.
        write_state(self._folder, self._stored)
        self._desk.open(self._stored)
        try:
            self._cage.open()
        except (CannotRunError, OSError) as error:
            self._refuse(error)
        self._settle()
        while not self._is_done:
            self._loop.turn()
            # Most turns only carry output.
            if self._is_woken or self._facts is not self._settled:
                self._settle()

    def close(self) -> None:
        """Also after a fault of our own: then nothing must be left running."""
        for run in self._runs.values():
            run.signal(signal.SIGKILL)
        self._desk.close()
        self._cage.close()
        self._loop.close()

    def _refuse(self, error: Exception) -> None:
        """There is no place to run the pod in."""
        reason = error.reason if isinstance(error, CannotRunError) else "FailedCreatePodSandBox"
        ending = Ending(exit_code=128, reason="ContainerCannotRun", message=str(error))
        facts = replace(self._facts, reason=reason, message=str(error))
        now, at = self._loop.now(), time.time()
        for container in self._order.init_containers[:1] or self._order.containers:
            facts = fact.begun(facts, self._order, container, 0, now=now, at=at)
            facts = fact.ended(facts, container.name, ending, now=now, at=at)
        self._facts = fact.stop_asked(facts, 0, now)

    def _settle(self) -> None:
        """Does what follows from the facts, until nothing does; then stores how it stands."""
        while True:
            step = advance(self._order, self._facts, self._loop.now(), time.time())
            self._facts = step.facts
            if not step.actions:
                break
            for action in step.actions:
                self._act(action)
        self._settled = self._facts
        self._is_woken = False
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if step.wake_at is not None:
            self._wake = self._loop.at(step.wake_at, self._look_again)
        if is_over(self._facts) and self._loop.has_children():
            # Hooks, probes, guests: killed with their container, and about to be gone.
            self._loop.when_childless(self._look_again)
            return
        self._store()

    def _look_again(self) -> None:
        self._is_woken = True

    def _store(self) -> None:
        state = pod_state(self._order, self._facts, supervisor_pid=os.getpid())
        if replace(state, revision=self._stored.revision) != self._stored:
            state = replace(state, revision=self._stored.revision + 1)
            try:
                write_state(self._folder, state)
            except OSError:
                self._tries += 1
                if not state.is_over or self._tries < _LAST_TRIES_MAX:
                    self._loop.after(_RETRY_SECONDS, self._look_again)
                    return
            self._tries = 0
            self._stored = state
            self._desk.tell(state)
        self._is_done = self._stored.is_over

    def _act(self, action: Action) -> None:
        match action:
            case Start(name):
                self._start(self._every[name])
            case Send(name, number):
                self._runs[name].signal(number)
            case RunHook(name, kind):
                self._run_hook(name, kind)
            case CutHook(name, kind):
                hook = self._hooks.pop((name, kind), None)
                if hook is not None:
                    hook.cancel()
            case RunProbe(name, kind):
                probe = probe_of(self._every[name].probes, kind)
                done = partial(self._probed, name, kind)
                self._check(name, probe.check, probe.timeout_seconds, done)

    def _start(self, container: ContainerOrder) -> None:
        name = container.name
        before = self._facts.containers[name]
        number = before.run + 1 if before.end is not None else before.run
        refusal: Ending | None = None
        pid = 0
        try:
            run = Run(self._around, container, number, partial(self._ended, name))
            self._runs[name] = run
            pid = run.pid
        except NotNowError as error:
            self._facts = fact.put_off(
                self._facts, name, str(error), now=self._loop.now(), at=time.time()
            )
            return
        except CannotRunError as error:
            refusal = Ending(exit_code=error.exit_code, reason=error.reason, message=str(error))
        except OSError as error:
            refusal = Ending(exit_code=128, reason="StartError", message=str(error))
        now, at = self._loop.now(), time.time()
        facts = fact.begun(self._facts, self._order, container, pid, now=now, at=at)
        if refusal is not None:
            facts = fact.ended(facts, name, refusal, now=now, at=at)
        self._facts = facts

    def _ended(self, name: str, ending: Ending) -> None:
        self._guests.end_in(name)
        for kind in HookKind:
            self._hooks.pop((name, kind), None)
        del self._runs[name]
        now, at = self._loop.now(), time.time()
        self._facts = fact.ended(self._facts, name, ending, now=now, at=at)

    def _run_hook(self, name: str, kind: HookKind) -> None:
        container = self._every[name]
        check = container.post_start if kind is HookKind.POST_START else container.pre_stop
        assert check is not None
        done = partial(self._hook_ended, name, kind)
        self._hooks[name, kind] = self._check(name, check, ENDLESS_SECONDS, done)

    def _check(self, name: str, check: Check, seconds: float, done: Done) -> Cancellable:
        run = self._runs[name]
        if not run.is_alive:
            return _Nothing()
        begun: list[Cancellable] = []

        def settled(problem: str) -> None:
            run.checks.discard(begun[0])
            done(problem)

        begun.append(self._checker.begin(run.container, run.pid, check, seconds, settled))
        run.checks.add(begun[0])
        return begun[0]

    def _hook_ended(self, name: str, kind: HookKind, problem: str) -> None:
        self._hooks.pop((name, kind), None)
        if problem:
            problem = f"{kind[0].upper()}{kind[1:]}Hook failed: {problem}"
        self._facts = fact.hook_ended(self._facts, name, kind, problem, time.time())

    def _probed(self, name: str, kind: ProbeKind, problem: str) -> None:
        self._facts = fact.probed(self._facts, self._every[name], kind, problem, time.time())

    def _take(self, client: Client, command: Command) -> None:
        """Does what a client asks."""
        match command:
            case StopPod():
                grace = max(command.grace_seconds, 0)
                now = self._loop.now()
                # One that has just come to its end, or is on its way there, is left its own.
                step = advance(self._order, self._facts, now, time.time())
                if command.is_shutdown and step.facts.stop is None:
                    self._facts = fact.taken_away(self._facts)
                self._facts = fact.stop_asked(self._facts, grace, now)
                client.answer(Answer(number=command.number))
            case SignalInside():
                self._guests.signal(client, command)
            case ConnectTo():
                self._guests.connect(client, command)
            case ForwardPorts():
                self._forward(client, command)
            case StartInside() | AttachTo():
                run = self._runs.get(command.container)
                if run is None or not run.is_alive:
                    text = f"container {command.container} is not running"
                    client.answer(Answer(number=command.number, problem=text))
                elif isinstance(command, StartInside):
                    self._guests.start(client, command, run.container, run.pid)
                else:
                    self._attach(client, command, run)

    def _forward(self, client: Client, command: ForwardPorts) -> None:
        problem = ""
        try:
            self._cage.forward(command.redirects)
        except OSError as error:
            problem = str(error)
        client.answer(Answer(number=command.number, problem=problem))

    def _attach(self, client: Client, command: AttachTo, run: Run) -> None:
        if run.stdin < 0:
            client.answer(Answer(number=command.number))
            return
        answer = Answer(number=command.number, streams=("stdin",))
        client.answer(answer, (run.lend_input(),))


class _Nothing:
    """Stands for a check of a command that has just ended: it will never be answered."""

    def cancel(self) -> None:
        pass


def _let_go_when_forked(desk: Desk, loop: Loop) -> None:
    """What a cage forks must not hold the control socket open: agents watch for its end."""
    is_done: list[bool] = []

    def forked() -> None:
        # Not in children of a child as well, where the same numbers mean other files.
        if not is_done:
            is_done.append(True)
            signal.set_wakeup_fd(-1)
            desk.let_go()
            loop.let_go()

    os.register_at_fork(after_in_child=forked)
