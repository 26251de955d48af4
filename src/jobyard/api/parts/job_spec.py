"""What the specs of the T9k job kinds have in common."""

from __future__ import annotations

from typing import Annotated

from jobyard.api.parts.run_mode import Elastic, RunMode
from jobyard.api.parts.run_policy import RunPolicy
from jobyard.api.parts.scheduling import Scheduler
from jobyard.api.parts.value import Value
from jobyard.schema.derive import described


class JobSpec(Value):
    """How a job runs and who places it; what it runs, each kind says itself."""

    run_mode: Annotated[RunMode | None, described("How the job runs; absent, it runs at once.")] = (
        None
    )
    scheduler: Annotated[Scheduler | None, described("Which scheduler places the pods.")] = None


# Known to the kinds that lack the mode as well: an API server would drop it in silence.
RefusedElastic = Annotated[
    Elastic | None, described("Not a mode of this kind: refused when enabled, else without effect.")
]


class RigidJobSpec(JobSpec):
    """A job whose number of replicas is fixed."""

    elastic: RefusedElastic = None


class TrainingSpec(JobSpec):
    """A training job has limits of its own."""

    run_policy: Annotated[RunPolicy, described("Limits, and what is cleaned up.")] = RunPolicy()


class RigidTrainingSpec(TrainingSpec):
    """A training job whose number of replicas is fixed."""

    elastic: RefusedElastic = None
