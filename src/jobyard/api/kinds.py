"""The one table of kinds. CRDs, columns, docs, `explain` and `validate` follow from a row.

Adding a kind is one file beside this one, one in `plan/lowering/kinds/`, a row here and one in
`plan/lowering/table.py`. `plan/table.py` has a row only for a kind that is decided about, or has a
status, in a way of its own.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any

import msgspec

from jobyard.api.beamjob import BeamJob, BeamPhase
from jobyard.api.colossalaijob import ColossalAIJob
from jobyard.api.deepspeedjob import DeepSpeedJob
from jobyard.api.genericjob import GenericJob
from jobyard.api.mpijob import MPIJob
from jobyard.api.parts.run_mode import Mode
from jobyard.api.parts.status import Phase
from jobyard.api.parts.taskset_status import TaskSetState
from jobyard.api.parts.value import Value
from jobyard.api.podgroup import PodGroup
from jobyard.api.pytorchtrainingjob import PyTorchTrainingJob
from jobyard.api.queue import Queue
from jobyard.api.taskset import TaskSet
from jobyard.api.tensorflowtrainingjob import TensorFlowTrainingJob
from jobyard.api.xgboosttrainingjob import XGBoostTrainingJob
from jobyard.schema.derive import summary


class Group(StrEnum):
    """The API groups."""

    BATCH = "batch.tensorstack.dev"
    OCTOPUS = "octopus.openi.pcl.cn"
    SCHEDULER = "scheduler.tensorstack.dev"


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"


class Scale(msgspec.Struct, frozen=True):
    """Where `kubectl scale` reads and writes the number of replicas."""

    spec_path: str = ".spec.elastic.expectedReplicas"
    status_path: str = ".status.replicas"
    selector_path: str = ".status.selector"


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_JOB_COLUMNS = (
    Column("Phase", ".status.phase"),
    Column("Ready", ".status.ready"),
    Column("Restarts", ".status.restarts", "integer"),
    _AGE,
)
_TASKSET_COLUMNS = (
    Column("State", ".status.state"),
    Column("Phase", ".status.phase"),
    Column("Retries", ".status.totalRetriedCount", "integer"),
    _AGE,
)
_QUEUE_COLUMNS = (
    Column("Priority", ".spec.priority", "integer"),
    Column("Closed", ".spec.closed", "boolean"),
    Column("Running", ".status.pods.running", "integer"),
    Column("Pending", ".status.pods.pending", "integer"),
    _AGE,
)
_PODGROUP_COLUMNS = (
    Column("Queue", ".spec.queue"),
    Column("Priority", ".spec.priority", "integer"),
    Column("Min", ".spec.minMember", "integer"),
    Column("Running", ".status.running", "integer"),
    _AGE,
)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    type: type[Value]
    group: Group
    version: str
    short_name: str
    # Those of the originals, where ours is another.
    other_short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...]
    modes: frozenset[Mode] = frozenset()
    scale: Scale | None = None
    namespaced: bool = True
    # Other spellings in use, which the tools accept with a warning: of the kind, and a text for
    # these lists.
    aliases: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    # What its status may say about where a job is.
    phases: tuple[StrEnum, ...] = tuple(Phase)
    # The field that must be enabled for `elastic` to have an effect.
    elastic_by: str = ""
    # Whether its replicas wait for logins, or serve a program that is submitted: they never end.
    serves: bool = False

    @property
    def name(self) -> str:
        return self.type.__name__

    @property
    def short_names(self) -> tuple[str, ...]:
        return (self.short_name, *self.other_short_names)

    @property
    def singular(self) -> str:
        return self.name.lower()

    @property
    def plural(self) -> str:
        return self.singular + "s"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def is_octopus(self) -> bool:
        """Whether labels, names and status are those of Octopus' API, and not those of T9k's."""
        return self.group is Group.OCTOPUS

    @property
    def summary(self) -> str:
        return summary(self.type)


def _job(type_: type[Value], short_names: str, *modes: Mode, **more: Any) -> Kind:
    short_name, *others = short_names.split()
    return Kind(
        type=type_,
        group=Group.BATCH,
        version="v1beta1",
        short_name=short_name,
        other_short_names=tuple(others),
        columns=_JOB_COLUMNS,
        modes=frozenset(modes),
        scale=Scale() if Mode.ELASTIC in modes else None,
        **more,
    )


KINDS: tuple[Kind, ...] = (
    _job(GenericJob, "gj", Mode.DEBUG, Mode.PAUSE),
    _job(MPIJob, "mj", Mode.DEBUG, Mode.PAUSE, serves=True),
    _job(
        PyTorchTrainingJob,
        "ptj pj",
        *(Mode.DEBUG, Mode.PAUSE, Mode.ELASTIC),
        elastic_by="torchrunConfig",
    ),
    _job(TensorFlowTrainingJob, "tftj tj", Mode.DEBUG, Mode.PAUSE, aliases=("TensorFlowJob",)),
    _job(XGBoostTrainingJob, "xgbj xj", Mode.DEBUG, Mode.PAUSE),
    _job(
        DeepSpeedJob,
        "dj",
        *(Mode.DEBUG, Mode.PAUSE, Mode.ELASTIC),
        aliases=("DeepspeedJob",),
        lists=tuple(f"config.run.{way}" for way in ("python", "module", "exec")),
        serves=True,
    ),
    _job(ColossalAIJob, "caj caij", Mode.DEBUG, Mode.PAUSE, serves=True),
    _job(BeamJob, "bj", phases=tuple(BeamPhase), serves=True),
    Kind(
        type=TaskSet,
        group=Group.OCTOPUS,
        version="v1alpha1",
        short_name="ts",
        columns=_TASKSET_COLUMNS,
        phases=tuple(TaskSetState),
    ),
    Kind(
        type=Queue,
        group=Group.SCHEDULER,
        version="v1beta1",
        short_name="q",
        columns=_QUEUE_COLUMNS,
        namespaced=False,
    ),
    Kind(
        type=PodGroup,
        group=Group.SCHEDULER,
        version="v1beta1",
        short_name="pg",
        columns=_PODGROUP_COLUMNS,
    ),
)


@cache
def kind_of(api_version: str, kind: str) -> Kind | None:
    """The row for a manifest's apiVersion and kind, under any accepted spelling."""
    for row in KINDS:
        if api_version == row.api_version and kind in (row.name, *row.aliases):
            return row
    return None


@cache
def kind_named(word: str) -> Kind | None:
    """The row a person means: kind, plural or short name, in any case."""
    wanted = word.lower()
    for row in KINDS:
        if wanted in (row.singular, row.plural, *row.short_names):
            return row
    return None
