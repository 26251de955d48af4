"""Why a job stands as it does, as a pure function: tables of observed objects and answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from rig.places import ROOT

from jobyard.cli.output.style import Palette
from jobyard.cli.output.why_page import why_page
from jobyard.jobs.explaining.answer import Answer, Remedy, sentence
from jobyard.jobs.explaining.moments import span
from jobyard.jobs.explaining.queues import queue_views
from jobyard.jobs.explaining.ranges import named
from jobyard.jobs.explaining.reasons import OF_GANGS, Reason
from jobyard.jobs.explaining.seen import Event, Seen, pod_of
from jobyard.jobs.explaining.why import why
from jobyard.plan.moments import seconds_of
from jobyard.terminal.sequences import finished
from jobyard.terminal.widths import width_of

JSON = dict[str, Any]
CREATED = "2026-03-01T10:00:00Z"
NOW = seconds_of("2026-03-01T10:05:00Z")
UID = "11111111-1111-1111-1111-111111111111"


def job(status: JSON | None = None, *, kind: str = "GenericJob", spec: JSON | None = None) -> JSON:
    metadata = {"name": "train", "namespace": "lab", "uid": UID, "creationTimestamp": CREATED}
    return {"kind": kind, "metadata": metadata, "spec": spec or {}} | (
        {"status": status} if status is not None else {}
    )


def condition(type_: str, status: str, reason: str = "-", message: str = "") -> JSON:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-03-01T10:01:00Z",
    }


def row(n: int, phase: str, **fields: Any) -> JSON:
    return {"name": f"train-worker-{n}", "uid": "", "phase": phase} | fields


def status(phase: str, *rows: JSON, conditions: tuple[JSON, ...] = (), **fields: Any) -> JSON:
    tasks = [{"type": "worker", "status": list(rows)}] if rows else []
    return {"phase": phase, "tasks": tasks, "conditions": list(conditions)} | fields


def pod(n: int = 0, *, node: str = "", labels: JSON | None = None, **state: Any) -> JSON:
    name = f"train-worker-{n}"
    given = {"batch.tensorstack.dev/replica-type": "worker"}
    given["batch.tensorstack.dev/replica-rank"] = str(n)
    owner = {"kind": "GenericJob", "name": "train", "uid": UID, "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": f"pod-{n}",
            "creationTimestamp": "2026-03-01T10:00:02Z",
            "labels": given | (labels or {}),
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "schedulerName": "t9k-scheduler",
            "containers": [{"name": "main", "image": "lab/train:1"}],
        },
        "status": {"phase": "Pending"} | state,
    }


def waiting(reason: str, message: str, n: int = 0) -> JSON:
    unplaced = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return pod(n, conditions=[unplaced])


def held(reason: str, message: str, container: str = "main") -> JSON:
    state = {"waiting": {"reason": reason, "message": message}}
    statuses = [{"name": container, "state": state, "image": "", "imageID": ""}]
    return pod(node="n1", containerStatuses=statuses)


def group(reason: str, message: str, queue: str = "team-a") -> JSON:
    return {
        "metadata": {"name": "train", "uid": "g"},
        "spec": {"queue": queue, "minMember": 1},
        "status": {"conditions": [condition("GroupScheduled", "False", reason, message)]},
    }


def queue(name: str, **spec: Any) -> JSON:
    return {"metadata": {"name": name}, "spec": spec}


def event(reason: str, message: str, *, uid: str = UID, type_: str = "Warning") -> Event:
    return Event(
        time="2026-03-01T10:02:00Z",
        type=type_,
        reason=reason,
        object="genericjob/train",
        message=message,
        uid=uid,
    )


def seen(value: JSON, *pods: JSON, kind: str = "GenericJob", **fields: Any) -> Seen:
    return Seen(kind=kind, job=value, now=NOW, pods=tuple(map(pod_of, pods)), **fields)


CREATING = status("Pending", row(0, "Creating"))
STARTING = status("Pending", row(0, "Pending"))
IN_QUEUE = {"scheduler": {"t9kScheduler": {"queue": "team-a"}}}
PAUSED = {"runMode": {"pause": {"enabled": True}}}
PAUSED_STATUS = status(
    "Paused", row(0, "Deleted"), conditions=(condition("Paused", "True", "-", "paused"),)
)
MANAGED = {
    "manager": "kubectl-edit",
    "time": "2026-03-01T10:01:00Z",
    "fieldsV1": {"f:spec": {"f:runMode": {"f:pause": {"f:enabled": {}}}}},
}
ROOM = "needs 4 x nvidia.com/gpu 8; 24 of 32 are free; 2 gangs are ahead: a/big (since 10:02), b/s"


def initialized(reason: str, message: str) -> JSON:
    return job(status("Pending", conditions=(condition("Initialized", "False", reason, message),)))


def paused_by_hand(**metadata: Any) -> JSON:
    value = job(PAUSED_STATUS, spec=PAUSED)
    return value | {"metadata": value["metadata"] | {"managedFields": [MANAGED]} | metadata}


def deleted() -> JSON:
    value = job(CREATING)
    gone = {"deletionTimestamp": "2026-03-01T10:04:00Z", "finalizers": ["lab.example/keep"]}
    return value | {"metadata": value["metadata"] | gone}


def failing(n: int, time: str, **fields: Any) -> JSON:
    return row(n, "Failed", lastFailure={"attempt": 0, "exitCode": 1, "time": time} | fields)


TABLE: list[tuple[str, Seen, Reason, str]] = [
    (
        "no status after minutes: nobody looks after it",
        seen(job()),
        Reason.NO_CONTROLLER,
        "No controller has taken it up: it has no status 5 min after it was created.",
    ),
    (
        "no status yet of a job that is a moment old",
        msgspec.structs.replace(seen(job()), now=seconds_of(CREATED) + 1),
        Reason.PREPARING,
        "It was created 1 s ago, and has no status yet.",
    ),
    (
        "being deleted, held by a finalizer",
        seen(deleted(), pod()),
        Reason.DELETING,
        "It is being deleted since 2026-03-01 10:04:00 UTC, 1 pod of it left."
        " It stays until lab.example/keep is taken from its finalizers.",
    ),
    (
        "a variable that can't be replaced",
        seen(initialized("BadVariable", "$(HOST): there is no such variable")),
        Reason.BAD_VARIABLE,
        "It has no pods, since a variable can't be replaced: $(HOST): there is no such variable.",
    ),
    (
        "a name that is taken",
        seen(initialized("NameTaken", "Service train belongs to somebody else")),
        Reason.NAME_TAKEN,
        "It has no pods, since a name is taken by an object that isn't the job's:"
        " Service train belongs to somebody else.",
    ),
    (
        "the namespace's quota",
        seen(initialized("QuotaExceeded", "exceeded quota: pods, used: pods=4, limited: pods=4")),
        Reason.NAMESPACE_QUOTA,
        "It has no pods, since the namespace's quota is used up:"
        " exceeded quota: pods, used: pods=4, limited: pods=4.",
    ),
    (
        "the queue is closed, in the group's words",
        seen(
            job(CREATING, spec=IN_QUEUE),
            waiting("QueueClosed", "queue team-a is closed to what hasn't started yet"),
            group=group("QueueClosed", "queue team-a is closed to what hasn't started yet"),
        ),
        Reason.QUEUE_CLOSED,
        "It waits: queue team-a is closed to what hasn't started yet.",
    ),
    (
        "gangs are ahead",
        seen(
            job(CREATING, spec=IN_QUEUE),
            waiting("WaitingForRoom", ROOM),
            group=group("WaitingForRoom", ROOM),
        ),
        Reason.WAITING_FOR_ROOM,
        f"It waits in queue team-a for room: {ROOM}.",
    ),
    (
        "only the group knows, the pod has another scheduler's word",
        seen(
            job(CREATING, spec=IN_QUEUE),
            waiting("Unschedulable", "not in its turn"),
            group=group("QuotaExceeded", "needs cpu 4; 3 of 4 of queue team-a are used"),
        ),
        Reason.QUOTA_EXCEEDED,
        "It waits in queue team-a for a part of the quota:"
        " needs cpu 4; 3 of 4 of queue team-a are used.",
    ),
    (
        "no such queue, and a near one",
        seen(
            job(CREATING, spec={"scheduler": {"t9kScheduler": {"queue": "team-b"}}}),
            waiting("NoSuchQueue", "queue team-b doesn't exist; there are team-a"),
            queues=(queue("team-a"),),
        ),
        Reason.NO_SUCH_QUEUE,
        "It waits: queue team-b doesn't exist; there are team-a. Did you mean team-a?",
    ),
    (
        "a member that waits while the others run",
        seen(
            job(status("Running", row(0, "Running"), row(1, "Creating")), spec=IN_QUEUE),
            pod(
                0,
                node="n1",
                phase="Running",
                containerStatuses=[{"name": "main", "state": {"running": {"startedAt": CREATED}}}],
            ),
            waiting("WaitingForRoom", "needs cpu 1; 0 of 2 are free", 1),
            group={
                "spec": {"queue": "team-a"},
                "status": {
                    "conditions": [condition("GroupScheduled", "True", "PodGroupScheduled")]
                },
            },
        ),
        Reason.WAITING_FOR_ROOM,
        "worker-1 doesn't run, 1 of 2 replicas do."
        " It waits in queue team-a for room: needs cpu 1; 0 of 2 are free.",
    ),
    (
        "another scheduler's own words",
        seen(
            job(CREATING), waiting("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
        ),
        Reason.UNSCHEDULABLE,
        "worker-0 doesn't run: the scheduler finds no node for it:"
        " 0/3 nodes are available: 3 Insufficient cpu.",
    ),
    (
        "a scheduler's word before the message, under Kubernetes' own",
        seen(
            job(CREATING, spec=IN_QUEUE),
            waiting("Unschedulable", f"WaitingForRoom: {ROOM}"),
            group={"spec": {"queue": "team-a"}},
        ),
        Reason.WAITING_FOR_ROOM,
        f"It waits in queue team-a for room: {ROOM}.",
    ),
    (
        "the same of a pod without a gang",
        seen(job(CREATING), waiting("Unschedulable", "NeverFits: needs cpu 9; there are 8")),
        Reason.NEVER_FITS,
        "worker-0 doesn't run: it will never fit as it is: needs cpu 9; there are 8.",
    ),
    (
        "no node has the labels",
        seen(
            job(CREATING),
            waiting(
                "Unschedulable",
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            ),
        ),
        Reason.NODE_SELECTOR_MISMATCH,
        "worker-0 doesn't run: no node is one that it wants: 0/1 nodes are available:"
        " 1 node(s) didn't match Pod's node affinity/selector.",
    ),
    (
        "a claim that isn't there, as a scheduler says it",
        seen(job(CREATING), waiting("Unschedulable", 'persistentvolumeclaim "data" not found')),
        Reason.VOLUME_MISSING,
        "worker-0 doesn't run: a volume can't be had: persistentvolumeclaim \"data\" not found.",
    ),
    (
        "no scheduler has looked at it",
        seen(job(CREATING), pod()),
        Reason.NO_SCHEDULER,
        "worker-0 doesn't run: no scheduler named t9k-scheduler has looked at it for 4 min.",
    ),
    (
        "an image that can't be had",
        seen(job(STARTING), held("ImagePullBackOff", "Back-off pulling image")),
        Reason.IMAGE_UNAVAILABLE,
        "worker-0 doesn't run: an image can't be had: image lab/train:1 of container main:"
        " ImagePullBackOff: Back-off pulling image.",
    ),
    (
        "a secret that isn't there",
        seen(job(STARTING), held("CreateContainerConfigError", 'secret "s" not found')),
        Reason.CONTAINER_CONFIG,
        "worker-0 doesn't run: a container can't be started: container main:"
        ' CreateContainerConfigError: secret "s" not found.',
    ),
    (
        "a volume that only an event tells of",
        seen(
            job(STARTING),
            held("ContainerCreating", ""),
            events=(event("FailedMount", 'secret "keys" not found', uid="pod-0"),),
        ),
        Reason.VOLUME_MISSING,
        "worker-0 doesn't run: a volume can't be had: FailedMount: secret \"keys\" not found.",
    ),
    (
        "what must be mended is told before what waits",
        seen(
            job(status("Pending", row(0, "Pending"), row(1, "Creating"))),
            held("ErrImagePull", "not found"),
            waiting("Unschedulable", "Insufficient cpu", 1),
        ),
        Reason.IMAGE_UNAVAILABLE,
        "worker-0 doesn't run, 0 of 2 replicas do: an image can't be had: image lab/train:1 of"
        " container main: ErrImagePull: not found.",
    ),
    (
        "a restart's delay, with its moment and the limit",
        seen(
            job(
                status(
                    "Running",
                    row(
                        0,
                        "Failed",
                        restartTime="2026-03-01T10:05:30Z",
                        lastFailure={"attempt": 1, "exitCode": 137, "reason": "OOMKilled"},
                    ),
                    restarts=2,
                ),
                spec={"runPolicy": {"backoffLimit": 3}},
            ),
        ),
        Reason.RESTART_DELAY,
        "worker-0 doesn't run: OOMKilled (exit code 137); starts again in 30 s, at 10:05:30 UTC."
        " 2 of 3 restarts are used up.",
    ),
    (
        "paused by a person",
        seen(paused_by_hand()),
        Reason.PAUSED,
        'It is paused, for 4 min. That was asked for by "kubectl-edit" at 2026-03-01 10:01:00 UTC.',
    ),
    (
        "paused within the second of its creation",
        seen(paused_by_hand(creationTimestamp=MANAGED["time"], generation=2)),
        Reason.PAUSED,
        'It is paused, for 4 min. That was asked for by "kubectl-edit" at 2026-03-01 10:01:00 UTC.',
    ),
    (
        "created so",
        seen(paused_by_hand(creationTimestamp=MANAGED["time"], generation=1)),
        Reason.PAUSED,
        'It is paused, for 4 min. It was created so, by "kubectl-edit".',
    ),
    (
        "paused by its queue",
        seen(
            job(PAUSED_STATUS, spec=PAUSED),
            events=(
                event("Resuming", "goes on"),
                event("MaxDurationExceeded", "ran for 2h"),
            ),
        ),
        Reason.PAUSED,
        "It is paused, for 4 min. Its queue's maxDuration has done so: ran for 2h.",
    ),
    (
        "paused by a person after the queue had paused it and it had gone on",
        seen(
            paused_by_hand(),
            events=(event("MaxDurationExceeded", "ran for 2h"), event("Resuming", "goes on")),
        ),
        Reason.PAUSED,
        'It is paused, for 4 min. That was asked for by "kubectl-edit" at 2026-03-01 10:01:00 UTC.',
    ),
    (
        "failed: the rule, and who was first",
        seen(
            job(
                status(
                    "Failed",
                    failing(0, "2026-03-01T10:03:00Z", follows="worker-1"),
                    failing(1, "2026-03-01T10:03:00Z", message="CUDA out of memory"),
                    conditions=(
                        condition(
                            "Failed",
                            "True",
                            "Failed",
                            'The job is failed with rule: { "worker": [0] }',
                        ),
                    ),
                    startTime="2026-03-01T10:01:00Z",
                    completionTime="2026-03-01T10:03:00Z",
                )
            )
        ),
        Reason.FAILED,
        "It has failed at 2026-03-01 10:03:00 UTC, after 2 min. The job is failed with rule:"
        ' { "worker": [0] }. worker-1 failed first: Error (exit code 1): CUDA out of memory;'
        " 1 other failed too.",
    ),
    (
        "failed, and the status itself names the first",
        seen(
            job(
                status(
                    "Failed",
                    failure={
                        "replica": "worker-2",
                        "class": "OutOfMemory",
                        "exitCode": 137,
                        "followers": 3,
                    },
                )
            )
        ),
        Reason.FAILED,
        "It has failed. worker-2 failed first: OutOfMemory (exit code 137); 3 others followed.",
    ),
    (
        "succeeded",
        seen(
            job(
                status(
                    "Succeeded",
                    row(0, "Succeeded"),
                    startTime=CREATED,
                    completionTime="2026-03-01T10:04:00Z",
                )
            )
        ),
        Reason.SUCCEEDED,
        "It has succeeded at 2026-03-01 10:04:00 UTC, after 4 min.",
    ),
    (
        "all is well",
        seen(
            job(status("Running", row(0, "Running"), row(1, "Running"), startTime=CREATED)),
            *(
                pod(
                    n,
                    node="n1",
                    phase="Running",
                    containerStatuses=[{"name": "main", "state": {"running": {}}}],
                )
                for n in (0, 1)
            ),
        ),
        Reason.RUNNING,
        "All 2 replicas run, for 5 min. Nothing is wrong.",
    ),
    (
        "stalled, where a controller says so",
        seen(
            job(
                status(
                    "Running",
                    conditions=(condition("Stalled", "True", "-", "worker-1 at step 120"),),
                )
            )
        ),
        Reason.STALLED,
        "It runs, and makes no progress: worker-1 at step 120.",
    ),
    (
        "a TaskSet that failed",
        seen(
            job(
                {
                    "state": "Failed",
                    "stateMessage": "Role w: 1 of 1 failed.",
                    "roleStatus": [
                        {
                            "name": "w",
                            "replicaStatus": [
                                {
                                    "index": 0,
                                    "phase": "TaskRoleReplicaCompleted",
                                    "podName": "train-w-0-0-0",
                                    "terminatedInfo": {
                                        "exitCode": 2,
                                        "exitMessage": "boom",
                                        "reason": "Error",
                                    },
                                }
                            ],
                        }
                    ],
                },
                kind="TaskSet",
            ),
            kind="TaskSet",
        ),
        Reason.FAILED,
        "It has failed. Role w: 1 of 1 failed. w-0 failed: Error (exit code 2): boom.",
    ),
]


@pytest.mark.parametrize(
    ("observed", "reason", "cause"),
    [row_[1:] for row_ in TABLE],
    ids=[row_[0] for row_ in TABLE],
)
def test_the_cause_is_told(observed: Seen, reason: Reason, cause: str) -> None:
    answer = why(observed)
    assert (answer.reason, answer.cause) == (reason, cause)
    # And everything else is put together from the same.
    assert msgspec.json.encode(answer)
    assert why_page(answer, Palette(), 40, NOW)


def test_the_page_lists_every_reason_in_order() -> None:
    text = (ROOT / "docs" / "why.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert [word for row_ in rows for word in re.findall("`(.+?)`", row_)] == list(Reason)


@pytest.mark.parametrize("reason", sorted(OF_GANGS))
@pytest.mark.parametrize("message", ["", "needs cpu 4; 3 of 4 are used"])
def test_each_word_of_a_scheduler_has_a_sentence_and_a_remedy(reason: Reason, message: str) -> None:
    observed = seen(
        job(CREATING, spec=IN_QUEUE), waiting(reason, message), group=group(reason, message)
    )
    answer = why(observed)
    assert answer.reason is reason
    assert message in answer.cause
    assert answer.queue == "team-a"
    assert answer.remedies


def test_a_command_names_the_same_place() -> None:
    observed = seen(
        job(CREATING, spec=IN_QUEUE),
        waiting("QueueClosed", "closed"),
        options="-n lab --context prod",
    )
    (remedy,) = why(observed).remedies
    assert remedy == Remedy("open the queue", "jobyard queue open team-a -n lab --context prod")


def test_replicas_that_are_alike_are_told_together() -> None:
    rows = [row(n, "Running" if n in (0, 9) else "Creating") for n in range(67)]
    pods = [waiting("WaitingForRoom", "no room", n) for n in range(67) if n not in (0, 9)]
    answer = why(seen(job(status("Pending", *rows), spec=IN_QUEUE), *pods))
    assert [each.names for each in answer.replicas if each.reason is Reason.WAITING_FOR_ROOM] == [
        "worker-1…worker-8, worker-10…worker-66 (65)"
    ]
    assert len(answer.replicas) == 2


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a-0"], "a-0"),
        (["a-0", "a-1"], "a-0, a-1"),
        (["a-0", "a-1", "a-2"], "a-0…a-2"),
        (["launcher", "a-9", "a-10", "a-11"], "launcher, a-9…a-11"),
        (["a-1", "b-2"], "a-1, b-2"),
        ([f"a-{n}" for n in (0, 2, 4, 6, 8, 9)], "a-0, a-2, a-4, a-6 and 2 more"),
        ([f"a-{'9' * 30}", "a-1"], f"a-{'9' * 30}, a-1"),
    ],
)
def test_names_in_a_row(names: list[str], told: str) -> None:
    assert named(names) == told


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (-3, "0 s"),
        (12.4, "12 s"),
        (119, "119 s"),
        (600, "10 min"),
        (7800, "2 h 10 min"),
        (93600, "1 d 2 h"),
        (86400, "1 d"),
    ],
)
def test_spans(length: float, told: str) -> None:
    assert span(length) == told


def test_a_sentence_leaves_names_as_they_are() -> None:
    assert sentence("worker-0 runs") == "worker-0 runs."
    assert sentence("it runs.") == "It runs."
    assert sentence(" ") == ""


HOSTILE = "\x1b]0;owned\x07 \x9b31m训练\u202e 等待 \n\r\t 资源 " * 20


@pytest.mark.parametrize("columns", [None, 1, 20, 33, 80])
def test_hostile_and_wide_texts_fit_and_do_not_act(columns: int | None) -> None:
    observed = seen(
        job(CREATING, spec=IN_QUEUE),
        waiting("WaitingForRoom", HOSTILE),
        group=group("WaitingForRoom", HOSTILE),
        events=(event("Odd", HOSTILE),),
    )
    lines = why_page(why(observed), Palette(), columns, NOW)
    for line in lines:
        shown = finished(line, is_coloured=False)
        assert "\n" not in shown
        assert not set("\x1b\x9b\x07\u202e\r") & set(shown)
        if columns is not None and columns >= 20 and not line.startswith("    jobyard"):
            assert width_of(line) <= columns, line


ODD: list[JSON] = [
    {"status": "x"},
    {"status": {"conditions": {}, "tasks": 3, "phase": 7}},
    {"status": {"conditions": [None, 3, {"type": 4}], "tasks": [{"status": [None, {"name": 3}]}]}},
    {"status": {"phase": "Failed", "failure": {"replica": 3}}},
    {"spec": {"runMode": [], "scheduler": 3}, "status": {"phase": "Paused"}},
]


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("kind", ["GenericJob", "TaskSet", "BeamJob"])
def test_odd_objects_have_an_answer_too(value: JSON, kind: str) -> None:
    base = job(kind=kind)
    odd_pod = {"metadata": {"name": "p", "uid": "u"}, "status": {"conditions": "no", "phase": 3}}
    answer = why(seen(base | value, odd_pod, kind=kind, group={"status": 3}, queues=({},)))
    assert isinstance(answer, Answer)
    assert answer.cause


def test_queues_in_order_with_their_gangs() -> None:
    queues = [
        queue("b", priority=1) | {"status": {"allocated": {"cpu": "1"}}},
        queue("a", priority=1, quota={"requests": {"cpu": "4", "memory": "8Gi"}})
        | {"status": {"allocated": {"cpu": "3", "memory": "2Gi"}, "pods": {"running": 2}}},
        queue("c", priority=9, closed=True, quota={"requests": {"cpu": "odd"}}),
    ]
    groups = [
        _gang("late", 0, "2026-03-01T10:02:00Z", reason="Reserved", message="kept for early"),
        _gang("early", 0, "2026-03-01T10:01:00Z", reason="WaitingForRoom"),
        _gang("first", 7, "2026-03-01T10:03:00Z", reason="WaitingForRoom"),
        _gang("too-large", 9, CREATED, reason="NeverFits"),
        _gang("at-work", 0, CREATED, running=2),
        _gang("over", 0, CREATED, succeeded=2),
    ]
    single = pod(0, labels={"scheduler.tensorstack.dev/queue": "b"})
    nodes = [{"status": {"allocatable": {"cpu": "2"}}}, {"status": {"allocatable": {"cpu": "2"}}}]
    c, a, b = queue_views(queues, groups, [single], nodes)
    assert (c.name, c.closed, c.resources) == ("c", True, {})
    assert [gang.name for gang in a.gangs] == ["at-work", "first", "early", "late", "too-large"]
    assert (a.running_gangs, a.waiting_gangs, a.dominant_share) == (1, 4, 0.75)
    assert (a.resources["memory"].used, a.resources["memory"].quota) == ("2Gi", "8Gi")
    # Without a quota the share is of what the nodes have.
    assert (b.dominant_share, [gang.kind for gang in b.gangs]) == (0.25, ["Pod"])


def test_a_gang_that_was_sent_away_waits_and_one_that_is_paused_is_in_no_line() -> None:
    queues = [{"metadata": {"name": "a"}, "spec": {}}]
    again = _gang("again", 0, CREATED, pending=2)
    again["status"]["conditions"] = [condition("GroupScheduled", "True", "WaitingForRoom", "soon")]
    groups = [again, _gang("paused", 0, CREATED), _gang("at-work", 0, CREATED, running=2)]
    (a,) = queue_views(queues, groups, [], [])
    told = [(gang.name, gang.state, gang.reason, gang.message) for gang in a.gangs]
    assert told == [("at-work", "Running", "", ""), ("again", "Waiting", "WaitingForRoom", "soon")]
    assert (a.running_gangs, a.waiting_gangs) == (1, 1)


def _gang(
    name: str, priority: int, created: str, reason: str = "", message: str = "", **counts: int
) -> JSON:
    told = condition("GroupScheduled", "False" if reason else "True", reason, message)
    return {
        "metadata": {"name": name, "namespace": "lab", "creationTimestamp": created},
        "spec": {"queue": "a", "priority": priority, "minMember": 2},
        "status": {"conditions": [told], **counts},
    }
