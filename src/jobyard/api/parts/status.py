"""The status that all T9k job kinds share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from jobyard.api.parts.tensorboard import TensorboardStatus
from jobyard.api.parts.value import REPLICAS_MAX, Count, Timestamp, Value
from jobyard.schema.derive import described

CONDITIONS_MAX = 8
# A launcher has a row of its own beside the types of the spec.
TASKS_MAX = 17
MESSAGE_LENGTH_MAX = 256


class Phase(StrEnum):
    """Where a job is in its life."""

    PENDING = "Pending"
    RUNNING = "Running"
    PAUSED = "Paused"
    RESUMING = "Resuming"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class ConditionType(StrEnum):
    """The six conditions of a job, always all of them, in this order."""

    INITIALIZED = "Initialized"
    RUNNING = "Running"
    REPLICA_FAILURE = "ReplicaFailure"
    COMPLETED = "Completed"
    FAILED = "Failed"
    PAUSED = "Paused"


class Truth(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ReplicaPhase(StrEnum):
    """A replica's phase: its pod's, or Creating before that, or Deleted after it."""

    CREATING = "Creating"
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    DELETED = "Deleted"


class ContainerState(StrEnum):
    """What a container is doing."""

    WAITING = "Waiting"
    RUNNING = "Running"
    TERMINATED = "Terminated"


class Observation(Value, omit_defaults=False):
    """Whether something holds, why, and since when."""

    status: Annotated[Truth, described("Whether it holds.")]
    reason: Annotated[str, described("One word for why, or a dash.")] = "-"
    message: Annotated[str, described("The same in a sentence.")] = ""
    last_transition_time: Annotated[
        Timestamp | None, described("When the status last changed.")
    ] = None


class Condition(Observation):
    """One observation about the job."""

    type: Annotated[ConditionType, described("What is observed.")]


class ContainerStatus(Value):
    """What is known of one container of a replica."""

    name: Annotated[str, described("The container's name.")]
    state: Annotated[ContainerState, described("What the container is doing.")]
    exit_code: Annotated[int | None, described("Its exit code, once it has ended.")] = None
    reason: Annotated[str, described("Why it waits or how it ended.")] = ""


class Failure(Value):
    """How a replica failed the last time."""

    attempt: Annotated[Count, described("Which attempt of the replica it was, from 0.")]
    exit_code: Annotated[int | None, described("The main container's exit code.")] = None
    reason: Annotated[str, described("One word, such as OOMKilled.")] = ""
    message: Annotated[
        str, described("The line of its log that names the error.", max_length=MESSAGE_LENGTH_MAX)
    ] = ""
    time: Annotated[Timestamp | None, described("When it ended.")] = None
    follows: Annotated[
        str, described("The replica that failed or was lost first, if this one failed after it.")
    ] = ""


class ReplicaStatus(Value):
    """One replica; its row stays when its pod is gone."""

    name: Annotated[str, described("The pod's name.")]
    uid: Annotated[str, described("The pod's uid.")] = ""
    phase: Annotated[ReplicaPhase, described("Where the replica is in its life.")]
    reason: Annotated[str, described("One word for why it doesn't run, where that is known.")] = ""
    containers: Annotated[
        tuple[ContainerStatus, ...], described("Its containers, once something is known of them.")
    ] = ()
    attempt: Annotated[Count, described("Which attempt this row speaks of, from 0.")] = 0
    restart_count: Annotated[Count, described("How often the replica was restarted.")] = 0
    pods_before: Annotated[
        Count, described("How many pods it had before, whether their ends counted or not.")
    ] = 0
    failures_in_a_row: Annotated[
        Count, described("Short attempts one after the other; each doubles the delay.")
    ] = 0
    restart_time: Annotated[
        Timestamp | None, described("When it starts again, or when that is decided.")
    ] = None
    last_failure: Annotated[Failure | None, described("How it failed the last time.")] = None


class Recovery(Value):
    """What broke a job whose replicas work together, until all of them run again."""

    replica: Annotated[str, described("The replica that failed or was lost first.")]
    lost: Annotated[
        bool, described("The cluster took it away: what follows from that uses up no restarts.")
    ] = False
    time: Annotated[Timestamp, described("When that was.")]


class TaskStatus(Value, omit_defaults=False):
    """All replicas of one type."""

    type: Annotated[str, described("The replica type.")]
    restart_count: Annotated[Count, described("Restarts of all its replicas together.")] = 0
    status: Annotated[
        tuple[ReplicaStatus, ...],
        described("The replicas, in order of rank.", max_length=REPLICAS_MAX),
    ] = ()


class Aggregate(Value, omit_defaults=False):
    """How many replicas are in each phase."""

    creating: Annotated[Count, described("Pods about to be made or not yet scheduled.")] = 0
    pending: Annotated[Count, described("Scheduled, not yet started.")] = 0
    running: Annotated[Count, described("Running.")] = 0
    succeeded: Annotated[Count, described("Ended with exit code 0.")] = 0
    failed: Annotated[Count, described("Ended otherwise.")] = 0
    unknown: Annotated[Count, described("On a node that can't be reached.")] = 0
    deleted: Annotated[Count, described("Once there, now gone.")] = 0


class ReplicaSummary(Value):
    """The part of a status that every job kind has."""

    observed_generation: Annotated[
        Annotated[int, described(ge=0)] | None,
        described("The spec's generation that this status speaks of."),
    ] = None
    start_time: Annotated[Timestamp | None, described("When the first main container started.")] = (
        None
    )
    completion_time: Annotated[Timestamp | None, described("When the job ended.")] = None
    replicas: Annotated[Count | None, described("How many replicas are wanted.")] = None
    ready_replicas: Annotated[Count | None, described("How many of them are ready.")] = None
    ready: Annotated[str, described("Both as one word, such as 2/4.")] = ""
    restarts: Annotated[
        Count | None,
        described("Restarts used up; failures that follow from one another count as one."),
    ] = None
    attempt: Annotated[
        Count | None, described("How often the job was broken by a failure or a loss.")
    ] = None
    recovery: Annotated[
        Recovery | None, described("What the job recovers from, until all replicas run again.")
    ] = None
    selector: Annotated[str, described("The labels of the job's pods, as a selector.")] = ""
    tasks: Annotated[
        tuple[TaskStatus, ...],
        described("The replicas by type, a launcher first.", max_length=TASKS_MAX),
    ] = ()
    aggregate: Annotated[Aggregate | None, described("How many replicas are in each phase.")] = None


class JobStatus(ReplicaSummary):
    """What is observed of a job."""

    phase: Annotated[Phase | None, described("Where the job is in its life.")] = None
    active_seconds: Annotated[
        Annotated[int, described(ge=0)] | None,
        described("Seconds run before the current stretch; pauses don't count."),
    ] = None
    pause_count: Annotated[
        Count | None, described("How often the job was paused; above 0, resumeSpecs apply.")
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        described(
            "The six conditions, always in the same order.",
            max_length=CONDITIONS_MAX,
            listed_by="type",
        ),
    ] = ()


class TrainingStatus(JobStatus):
    """What is observed of a training job."""

    backoff_count: Annotated[
        Count | None, described("How much of runPolicy.backoffLimit is used up.")
    ] = None


class TensorboardTrainingStatus(TrainingStatus):
    """What is observed of a training job that may have a TensorBoard."""

    tensorboard: Annotated[
        TensorboardStatus | None, described("What is known of the job's TensorBoard.")
    ] = None
