"""Wrong manifests of every kind, one fault each, and what has to be said about it."""

from api.wrong_manifests import (
    beamjob,
    colossalaijob,
    deepspeedjob,
    genericjob,
    mpijob,
    podgroup,
    pytorchtrainingjob,
    queue,
    taskset,
    tensorflowtrainingjob,
    xgboosttrainingjob,
)
from api.wrong_manifests.wrong import Table

TABLES: tuple[Table, ...] = (
    *genericjob.TABLES,
    *mpijob.TABLES,
    *pytorchtrainingjob.TABLES,
    *tensorflowtrainingjob.TABLES,
    *xgboosttrainingjob.TABLES,
    *deepspeedjob.TABLES,
    *colossalaijob.TABLES,
    *beamjob.TABLES,
    *taskset.TABLES,
    *queue.TABLES,
    *podgroup.TABLES,
)
