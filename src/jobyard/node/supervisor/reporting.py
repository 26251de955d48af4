"""How a pod's facts look from outside: the `PodState` that is stored and told.

Pure. The words for why a container waits are kubelet's.
"""

from __future__ import annotations

from jobyard.node.shared.order import ContainerOrder, PodOrder
from jobyard.node.shared.state import ContainerState, PodState, Stage
from jobyard.node.supervisor.facts import ContainerFacts, Facts
from jobyard.node.supervisor.probing import ProbeKind, is_good
from jobyard.node.supervisor.progress import has_started, is_over, is_to_run_again


def pod_state(order: PodOrder, facts: Facts, *, supervisor_pid: int) -> PodState:
    """The whole of it, without a revision: that counts what was stored."""
    return PodState(
        uid=order.uid,
        supervisor_pid=supervisor_pid,
        started_at=facts.started_at,
        init_containers=tuple(_container(order, c, facts) for c in order.init_containers),
        containers=tuple(_container(order, c, facts) for c in order.containers),
        is_over=is_over(facts),
        reason=facts.reason,
        message=facts.message,
        notes=facts.notes,
    )


def _container(order: PodOrder, container: ContainerOrder, facts: Facts) -> ContainerState:
    known = facts.containers[container.name]
    match known.stage:
        case Stage.WAITING:
            # As kubelet: nothing is being created while init containers are still at it.
            is_early = bool(order.init_containers) and not facts.is_initialized
            reason = "PodInitializing" if is_early else "ContainerCreating"
            return ContainerState(name=container.name, reason=reason, run=known.run)
        case Stage.RUNNING:
            is_started = has_started(known)
            return ContainerState(
                name=container.name,
                stage=Stage.RUNNING,
                reason="",
                run=known.run,
                pid=known.pid,
                started_at=known.started_at,
                is_ready=is_started and is_good(known.counts, ProbeKind.READINESS),
                has_started=is_started,
                last_end=known.last_end,
            )
        case Stage.ENDED:
            if facts.stop is None and is_to_run_again(order, container, known):
                return _waiting_again(order, container, known)
            return _ended(container, known, is_init=container in order.init_containers)


def _waiting_again(
    order: PodOrder, container: ContainerOrder, known: ContainerFacts
) -> ContainerState:
    pod = f"{order.name}_{order.namespace}({order.uid})"
    return ContainerState(
        name=container.name,
        reason="CrashLoopBackOff",
        message=(
            f"back-off {known.delay_seconds:g}s restarting failed "
            f"container={container.name} pod={pod}"
        ),
        run=known.run,
        last_end=known.end,
    )


def _ended(container: ContainerOrder, known: ContainerFacts, *, is_init: bool) -> ContainerState:
    assert known.end is not None
    return ContainerState(
        name=container.name,
        stage=Stage.ENDED,
        reason="",
        run=known.run,
        started_at=known.started_at,
        # An init container that did its work counts as ready.
        is_ready=is_init and known.end.exit_code == 0,
        end=known.end,
        last_end=known.last_end,
    )
