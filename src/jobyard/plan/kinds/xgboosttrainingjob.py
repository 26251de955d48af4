"""XGBoostTrainingJob: a master with the tracker, and workers."""

from __future__ import annotations

from jobyard.api.xgboosttrainingjob import XGBoostTrainingJobSpec
from jobyard.plan.description import Description, Naming
from jobyard.plan.gangs import gang_of
from jobyard.plan.listing import listed_roles


def lower(spec: XGBoostTrainingJobSpec) -> Description:
    roles = listed_roles(spec.replica_specs, "xgboost")
    return Description(roles=roles, naming=Naming.JOB, gang=gang_of(spec.scheduler, roles))
