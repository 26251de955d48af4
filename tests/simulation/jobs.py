"""Random small jobs of every kind, as an API server would store them.

Each goes through the real admission, so defaults and refusals are the real ones; what was
admitted once is kept, since a run needs many jobs and the rules take their time. Knows what
a user may write, nothing of what becomes of it.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from jobyard.api.crd import schema_node
from jobyard.api.kinds import kind_of
from jobyard.schema.admission import admitted

JSON = dict[str, Any]
KINDS = (
    "GenericJob",
    "GenericJob",
    "PyTorchTrainingJob",
    "TensorFlowTrainingJob",
    "XGBoostTrainingJob",
    "MPIJob",
    "ColossalAIJob",
    "DeepSpeedJob",
    "BeamJob",
    "TaskSet",
    "TaskSet",
)
_VARIANTS_MAX = 40
_stored: dict[tuple[str, int], JSON] = {}


def random_job(dice: random.Random, name: str, kinds: tuple[str, ...] = KINDS) -> JSON:
    """One of a limited number of variants of a kind, under this name."""
    kind = dice.choice(kinds)
    variant = dice.randrange(_VARIANTS_MAX)
    found = _stored.get((kind, variant))
    if found is None:
        found = _stored[kind, variant] = _admitted(kind, variant)
    job = copy.deepcopy(found)
    job["metadata"] = {"name": name, "namespace": "default"}
    return job


def _admitted(kind: str, variant: int) -> JSON:
    """The first spec of the variant's own dice that is admitted."""
    dice = random.Random(f"{kind}/{variant}")
    for _ in range(50):
        manifest = _manifest(kind, _SPECS[kind](dice))
        row = kind_of(manifest["apiVersion"], kind)
        assert row is not None
        verdict = admitted(copy.deepcopy(manifest), schema_node(row))
        if not verdict.errors:
            assert not verdict.unknown, verdict.unknown
            return verdict.value
    raise AssertionError(f"no {kind} is admitted: {verdict.errors}")


def _manifest(kind: str, spec: JSON) -> JSON:
    group = (
        "octopus.openi.pcl.cn/v1alpha1" if kind == "TaskSet" else "batch.tensorstack.dev/v1beta1"
    )
    metadata = {"name": "job", "namespace": "default"}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec}


def _template(dice: random.Random, container: str = "main") -> JSON:
    containers: list[JSON] = [{"name": container, "image": "i", "command": ["c"]}]
    if dice.random() < 0.03:
        del containers[0]["image"]
    if dice.random() < 0.25:
        containers.append({"name": "sidecar", "image": "i"})
    spec: JSON = {"containers": containers}
    if dice.random() < 0.2:
        spec["initContainers"] = [{"name": "init", "image": "i"}]
    return {"spec": spec}


def _mode(dice: random.Random) -> JSON:
    chance = dice.random()
    if chance < 0.1:
        return {"runMode": {"pause": {"enabled" if chance < 0.07 else "enable": True}}}
    if chance < 0.15:
        return {"runMode": {"debug": {"enabled" if chance < 0.13 else "enable": True}}}
    if chance < 0.2:
        return {"runMode": {"pause": {"enable": False}, "debug": {"enable": False}}}
    if chance < 0.5:
        return {"runMode": {"pause": {"enabled": False}, "debug": {"enabled": False}}}
    return {}


def _gang(dice: random.Random) -> JSON:
    return {"scheduler": {"t9kScheduler": {"queue": "q"}}} if dice.random() < 0.15 else {}


def _ttl(dice: random.Random) -> JSON:
    return {"ttlSecondsAfterFinished": dice.choice((0, 5, 100))} if dice.random() < 0.25 else {}


def _run_policy(dice: random.Random) -> JSON:
    policy: JSON = {"backoffLimit": dice.choice((0, 1, 2, 3, 6)), **_ttl(dice)}
    if dice.random() < 0.5:
        policy["cleanUpPolicy"] = dice.choice(("None", "All", "Unfinished"))
    if dice.random() < 0.2:
        policy["activeDeadlineSeconds"] = dice.choice((3, 30, 600))
    return {"runPolicy": policy}


def _generic(dice: random.Random) -> JSON:
    types = dice.sample(("worker", "master", "ps"), dice.choice((1, 1, 2)))
    specs: list[JSON] = []
    for type_ in types:
        spec: JSON = {"type": type_, "replicas": dice.randint(1, 3), "template": _template(dice)}
        if dice.random() < 0.7:
            policy: JSON = {"policy": dice.choice(("Never", "OnFailure", "OnFailure", "Always"))}
            if dice.random() < 0.8:
                policy["limit"] = dice.choice((0, 1, 2, 3))
            spec["restartPolicy"] = policy
        specs.append(spec)
    out: JSON = {"replicaSpecs": specs, **_mode(dice), **_gang(dice), **_ttl(dice)}
    if dice.random() < 0.6:
        out["cleanUpPolicy"] = dice.choice(("None", "All", "Unfinished"))
    if dice.random() < 0.3:
        out["service"] = {"ports": [{"port": 80}]}
    for rules in ("successRules", "failureRules"):
        if dice.random() < 0.3:
            chosen = dice.sample(specs, dice.randint(1, len(specs)))
            out[rules] = [
                {s["type"]: dice.sample(range(s["replicas"]), dice.randint(1, s["replicas"]))}
                for s in chosen
            ]
    return out


def _training(dice: random.Random, container: str, types: dict[str, int]) -> JSON:
    specs = [
        {"type": type_, "replicas": count, "template": _template(dice, container)}
        | (
            {"restartPolicy": dice.choice(("Never", "OnFailure", "Always", "ExitCode"))}
            if dice.random() < 0.8
            else {}
        )
        for type_, count in types.items()
    ]
    out: JSON = {"replicaSpecs": specs, **_mode(dice), **_gang(dice), **_run_policy(dice)}
    return out


def _tensorboard(dice: random.Random) -> JSON:
    if dice.random() < 0.75:
        return {}
    return {"tensorboardSpec": {"image": "i", "trainingLogFilesets": ["t9k://pvc/logs/a"]}}


def _elastic(dice: random.Random) -> JSON:
    most = dice.randint(2, 4)
    least = dice.randint(1, most)
    wanted = dice.randint(least, most)
    return {
        "enabled": True,
        "minReplicas": least,
        "maxReplicas": most,
        "expectedReplicas": wanted,
    }


def _pytorch(dice: random.Random) -> JSON:
    if dice.random() < 0.35:
        out = _training(dice, "pytorch", {"worker": 1})
        out["torchrunConfig"] = {"enabled": True, "maxRestarts": 3}
        out["elastic"] = _elastic(dice)
    else:
        out = _training(dice, "pytorch", {"master": 1, "worker": dice.randint(1, 3)})
    return {**out, **_tensorboard(dice)}


def _tensorflow(dice: random.Random) -> JSON:
    types = {"worker": dice.randint(1, 3)}
    for extra in ("chief", "ps", "evaluator"):
        if dice.random() < 0.35:
            types[extra] = 1
    return {**_training(dice, "tensorflow", types), **_tensorboard(dice)}


def _xgboost(dice: random.Random) -> JSON:
    return _training(dice, "xgboost", {"master": 1, "worker": dice.randint(1, 3)})


def _launched(dice: random.Random) -> JSON:
    policy = {"cleanUpWorkers": dice.random() < 0.5, **_ttl(dice)}
    return {"runPolicy": policy, **_mode(dice), **_gang(dice)}


def _mpi(dice: random.Random) -> JSON:
    template = _template(dice, "mpi-worker")
    return {
        "worker": {"replicas": dice.randint(1, 3), "template": template, "cmd": ["p"]},
        **_launched(dice),
    }


def _colossalai(dice: random.Random) -> JSON:
    worker = {
        "replicas": dice.randint(1, 3),
        "template": _template(dice, "worker"),
        "command": ["p.py"],
    }
    return {"launcher": {"image": "i"}, "worker": worker, **_launched(dice)}


def _deepspeed(dice: random.Random) -> JSON:
    worker: JSON = {"replicas": dice.randint(1, 3), "template": _template(dice, "worker")}
    if dice.random() < 0.7:
        worker["restartPolicy"] = dice.choice(("Never", "OnFailure", "Always", "ExitCode"))
    out: JSON = {"worker": worker, "config": {"run": {"python": ["t.py"]}}}
    if dice.random() < 0.4:
        out["elastic"] = _elastic(dice)
    return {**out, **_mode(dice), **_gang(dice), **_run_policy(dice)}


def _beam(dice: random.Random) -> JSON:
    pod = _template(dice, "submit")
    pod["spec"]["restartPolicy"] = "Never"
    job: JSON = {"template": pod, "backoffLimit": dice.choice((0, 1, 2))}
    if dice.random() < 0.2:
        job["activeDeadlineSeconds"] = dice.choice((30, 600))
    cluster = {
        "flinkVersion": "1.19",
        "image": {"name": "flink:1.19"},
        "jobManager": {"replicas": 1},
        "taskManager": {"replicas": dice.randint(1, 2)},
    }
    policy = {"cleanUpCluster": dice.random() < 0.5, **_ttl(dice)}
    return {
        "flinkClusterTemplate": {"spec": cluster},
        "jobTemplate": {"spec": job},
        "runPolicy": policy,
    }


def _retry(dice: random.Random, counts: tuple[int, ...]) -> JSON:
    if dice.random() < 0.4:
        return {}
    policy = {"retry": dice.random() < 0.9, "maxRetryCount": dice.choice(counts)}
    if dice.random() < 0.5:
        policy["delay"] = dice.choice((0, 1, 20))
    return {"retryPolicy": policy}


def _taskset(dice: random.Random) -> JSON:
    roles: list[JSON] = []
    for name in dice.sample(("a", "b", "c"), dice.choice((1, 1, 2))):
        replicas = dice.randint(1, 3)
        role: JSON = {"name": name, "replicas": replicas, "template": _template(dice)}
        role |= _retry(dice, (0, 1, 2))
        if dice.random() < 0.5:
            role["completionPolicy"] = {
                "minSucceeded": dice.randint(1, replicas),
                "maxFailed": dice.randint(1, replicas + 1),
            }
        events = dice.sample(("RoleFailed", "RoleSucceeded", "RoleCompleted"), dice.randint(0, 2))
        actions = ("TaskSetFailed", "TaskSetSucceeded", "TaskSetCompleted", "NoAction")
        if events:
            role["eventPolicy"] = [{"event": e, "action": dice.choice(actions)} for e in events]
        roles.append(role)
    return {"roles": roles, **_retry(dice, (0, 1, 2))}


_SPECS: dict[str, Callable[[random.Random], JSON]] = {
    "GenericJob": _generic,
    "PyTorchTrainingJob": _pytorch,
    "TensorFlowTrainingJob": _tensorflow,
    "XGBoostTrainingJob": _xgboost,
    "MPIJob": _mpi,
    "ColossalAIJob": _colossalai,
    "DeepSpeedJob": _deepspeed,
    "BeamJob": _beam,
    "TaskSet": _taskset,
}
