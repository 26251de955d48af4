"""What would help a job out of the state it is in. Called by `why`; pure.

A remedy is one line, with the command that does it where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jobyard.jobs.explaining.answer import Remedy, Verdict
from jobyard.jobs.explaining.reading import text
from jobyard.jobs.explaining.reasons import Reason
from jobyard.jobs.explaining.seen import Seen

_Remedies = Callable[[Seen, Verdict], tuple[Remedy, ...]]


def remedies(seen: Seen, verdict: Verdict) -> tuple[Remedy, ...]:
    found = _TABLE.get(verdict.reason)
    return found(seen, verdict) if found is not None else ()


def _command(seen: Seen, *words: str) -> str:
    return " ".join(filter(None, ("jobyard", *words, seen.options)))


def _job(seen: Seen) -> str:
    return f"{seen.kind.lower()}/{seen.name}"


def _changed(seen: Seen, what: str) -> tuple[Remedy, ...]:
    """How a spec is changed: in a pause, or by another job where there is none."""
    if not seen.can_pause:
        text_ = f"{what}: a {seen.kind} can't change, so delete it and apply the file again"
        return (Remedy(text_, _command(seen, "delete", _job(seen))),)
    return (
        Remedy(
            f"{what}: pause the job, apply the changed file, resume it",
            _command(seen, "pause", _job(seen)),
        ),
    )


def _logs(seen: Seen, verdict: Verdict) -> tuple[Remedy, ...]:
    which = ("--replica", verdict.replicas[0]) if verdict.replicas else ()
    return (Remedy("read what it wrote", _command(seen, "logs", _job(seen), *which)),)


def _failed(seen: Seen, verdict: Verdict) -> tuple[Remedy, ...]:
    again = "a job that has ended doesn't start again: delete it, and apply its file again"
    return (*_logs(seen, verdict), Remedy(again, _command(seen, "delete", _job(seen))))


def _line(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    queue = seen.queue_name or "default"
    return (Remedy("see who has the room, and who is ahead", _command(seen, "queues", queue)),)


def _quota(seen: Seen, verdict: Verdict) -> tuple[Remedy, ...]:
    queue = seen.queue_name or "default"
    return (
        *_line(seen, verdict),
        Remedy(f"raise the quota of queue {queue}, or ask for less"),
    )


def _closed(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    queue = seen.queue_name or "default"
    return (Remedy("open the queue", _command(seen, "queue", "open", queue)),)


def _no_queue(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    return (
        Remedy("see which queues there are", _command(seen, "queues")),
        Remedy(f"create a Queue named {seen.queue_name}, and the job continues by itself"),
        *_changed(seen, "or name another queue"),
    )


def _no_controller(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    if seen.is_embedded:
        return (
            Remedy("see whether the engine is well", "jobyard status"),
            Remedy("start it again; jobs keep running", "jobyard up"),
        )
    return (
        Remedy(
            "see whether the controller runs",
            "kubectl get pods -A -l app.kubernetes.io/name=jobyard",
        ),
        Remedy("install it", "jobyard install | kubectl apply -f -"),
    )


def _paused(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    return (Remedy("resume it", _command(seen, "resume", _job(seen))),)


def _deleting(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    if not text(seen.job, "metadata", "deletionTimestamp"):
        return ()
    return (Remedy("see what is left of it", _command(seen, "get", "pods")),)


def _image(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    if seen.is_embedded:
        hint = "say what the image stands for, with --image PATTERN=ENV or $JOBYARD_IMAGES"
        return (Remedy(hint), *_changed(seen, "or name another image"))
    return _changed(seen, "name an image that can be pulled, or give imagePullSecrets")


def _volume(seen: Seen, verdict: Verdict) -> tuple[Remedy, ...]:
    del verdict
    return (
        Remedy("create what is missing, and it continues by itself"),
        Remedy("see which claims there are", _command(seen, "get", "pvc")),
    )


def _config(seen: Seen, verdict: Verdict) -> tuple[Remedy, ...]:
    which = f"pod/{seen.name}-{verdict.replicas[0]}" if verdict.replicas else "pods"
    if seen.is_taskset:
        which = "pods"
    return (
        Remedy("create what is missing (a secret, a config map), and it continues by itself"),
        Remedy("see the pod", _command(seen, "describe", which)),
    )


def _scheduler(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    del seen
    return (Remedy("start the scheduler that the pods name, or name another"),)


def _room(seen: Seen, _verdict: Verdict) -> tuple[Remedy, ...]:
    return (
        Remedy("see what the nodes have", _command(seen, "describe", "nodes")),
        *_changed(seen, "or ask for less"),
    )


_TABLE: Final[dict[Reason, _Remedies]] = {
    Reason.DELETING: _deleting,
    Reason.NO_CONTROLLER: _no_controller,
    Reason.NOT_UNDERSTOOD: lambda seen, _: (
        Remedy("the controller's log has the whole; what the job says may be at fault"),
        Remedy("see all of it", _command(seen, "describe", _job(seen))),
    ),
    Reason.BAD_VARIABLE: lambda _seen, _: (
        Remedy("put the variable right and apply the file again: it is open to changes now"),
    ),
    Reason.NAME_TAKEN: lambda _seen, _: (
        Remedy("delete the object of that name, or rename the job; it continues by itself"),
    ),
    Reason.INVALID_TEMPLATE: lambda _seen, _: (
        Remedy("put the field right and apply the file again: it is open to changes now"),
    ),
    Reason.NAMESPACE_QUOTA: lambda seen, _: (
        Remedy(f"raise the ResourceQuota of namespace {seen.namespace}, or free some of it"),
    ),
    Reason.IMAGE_UNAVAILABLE: _image,
    Reason.VOLUME_MISSING: _volume,
    Reason.CONTAINER_CONFIG: _config,
    Reason.NODE_UNREACHABLE: lambda seen, _: (
        Remedy("see how the nodes are", _command(seen, "get", "nodes")),
    ),
    Reason.NO_SUCH_QUEUE: _no_queue,
    Reason.NO_SUCH_GROUP: lambda _seen, _: (
        Remedy("apply the PodGroup that the pods name, and it continues by itself"),
    ),
    Reason.NEVER_FITS: lambda seen, _: _changed(seen, "ask for less, or for fewer replicas"),
    Reason.REQUEST_MISSING: lambda seen, _: _changed(
        seen, "say resources.requests in every container"
    ),
    Reason.NAMESPACE_NOT_ALLOWED: lambda seen, _: (
        Remedy(f"label namespace {seen.namespace} as the queue's namespaceSelector wants it"),
        *_changed(seen, "or name another queue"),
    ),
    Reason.NODE_SELECTOR_MISMATCH: lambda seen, _: (
        Remedy("see the labels of nodes", _command(seen, "get", "nodes", "-o", "yaml")),
        *_changed(seen, "or want another node"),
    ),
    Reason.QUEUE_CLOSED: _closed,
    Reason.NOT_ENOUGH_MEMBERS: lambda seen, _: (
        Remedy("see which pods are missing", _command(seen, "describe", _job(seen))),
    ),
    Reason.QUOTA_EXCEEDED: _quota,
    Reason.RESERVED: _line,
    Reason.WAITING_FOR_PREEMPTION: _line,
    Reason.WAITING_FOR_ROOM: _line,
    Reason.SCHEDULING_GATED: lambda _seen, _: (
        Remedy("whoever put the scheduling gates into the template has to take them out"),
    ),
    Reason.UNSCHEDULABLE: _room,
    Reason.NO_SCHEDULER: _scheduler,
    Reason.STALLED: _logs,
    Reason.RESTART_DELAY: _logs,
    Reason.REPLICA_FAILED: _logs,
    Reason.PAUSED: _paused,
    Reason.PAUSING: _paused,
    Reason.DEBUG: lambda seen, _: (
        Remedy("start its program", _command(seen, "debug", _job(seen), "--off")),
    ),
    Reason.FAILED: _failed,
}
