"""What the controller remembers of a job between passes, and may forget at any time.

Everything here can be found out again: what the API server refused, that it was asked, which
nodes are lost, whether the keys are there. The lowered spec is kept for as long as the spec
stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec

from jobyard.controller.records import JobKey, JobRecord
from jobyard.plan.deciding.supporting import wanted_objects
from jobyard.plan.facts.decision import Child, ChildKey, Obstacle, PodWarning, Wanted
from jobyard.plan.lowering.description import Description
from jobyard.plan.lowering.table import lowered
from jobyard.schema.finding import warning

_NO_GANG = warning(
    ("spec", "scheduler"),
    "makes no gang: the controller was started with --gang-scheduler=none, so queue and priority"
    " have no effect and the pods go to the default scheduler",
)

_NO_QUEUE = warning(
    ("spec", "tensorboardSpec", "scheduler"),
    "has no effect: the controller was started with --gang-scheduler=none",
)


class Lowered(msgspec.Struct, frozen=True):
    """A spec as it is worked with."""

    description: Description
    wanted: Mapping[ChildKey, Wanted]


class Note:
    """What the controller remembers of one job."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.generation = -1
        self.lowered: Lowered | None = None
        self.is_probed = False
        self.obstacles: dict[ChildKey, Obstacle] = {}
        # What a dry run would take, but etcd wouldn't store.
        self.too_large: set[ChildKey] = set()
        # Found by name, not watched: whoever may list secrets may read all of them.
        self.secrets: dict[str, Child] = {}
        self.has_asked_for_secrets = False
        # The version that a status was written on without an answer: it may be another one by now.
        self.unconfirmed_version = ""
        # Pods, by name, that may have been made although nobody said so.
        self.unanswered: set[str] = set()
        self.lost_nodes: frozenset[str] = frozenset()
        # Of pods that don't start: what their events said, and when they were asked for.
        self.pod_warnings: dict[str, PodWarning] = {}
        self.asked_about: dict[str, float] = {}
        self.job_url = ""
        # What was told last of why nothing can be decided; empty when something can.
        self.problem = ""
        # Why the API server refused the last status; empty when it took it.
        self.refusal = ""

    def clear_obstacles(self, present: Set[ChildKey]) -> None:
        for key in self.obstacles.keys() & present:
            del self.obstacles[key]


class Notes:
    """The notes of all jobs."""

    def __init__(self, *, has_gang_scheduler: bool = True) -> None:
        self._has_gang_scheduler = has_gang_scheduler
        self._notes: dict[JobKey, Note] = {}

    def of(self, record: JobRecord) -> Note:
        note = self._notes.get(record.key)
        if note is None or note.uid != record.uid:
            note = self._notes[record.key] = Note(record.uid)
        if note.generation != record.metadata.generation:
            # Another spec: what was refused may be taken now, and the other way round.
            note.generation = record.metadata.generation
            note.lowered = None
            note.is_probed = False
            note.obstacles.clear()
            note.too_large.clear()
        return note

    def lowered(self, record: JobRecord) -> Lowered:
        note = self.of(record)
        if note.lowered is None:
            description = self._described(record)
            # Each attempt makes its own control unit.
            wanted = {} if description.control_unit else wanted_objects(description)
            note.lowered = Lowered(description, wanted)
        return note.lowered

    def __len__(self) -> int:
        return len(self._notes)

    def forget(self, key: JobKey) -> None:
        self._notes.pop(key, None)

    def _described(self, record: JobRecord) -> Description:
        description = lowered(record.kind, record.job)
        return description if self._has_gang_scheduler else _without_queues(description)


def _without_queues(description: Description) -> Description:
    warnings, board = description.warnings, description.tensorboard
    if description.gang is not None:
        warnings = (*warnings, _NO_GANG)
    if board is not None and board.scheduler is not None:
        if board.scheduler.t9k_scheduler is not None:
            warnings = (*warnings, _NO_QUEUE)
        board = msgspec.structs.replace(board, scheduler=None)
    return msgspec.structs.replace(description, gang=None, tensorboard=board, warnings=warnings)
