"""The controller as it runs on a cluster: its pods, how they are probed, spread and scraped.

`bundle` calls it. The pods meet the pod-security level 'restricted'. What the arguments
mean is the business of `jobyard controller`; here they are only put down.
"""

from __future__ import annotations

from typing import Any, Final

from jobyard.install.settings import CONTROLLER, LABELS, SELECTOR, Settings

PORT: Final = 8080
PORT_NAME: Final = "http"
METRICS_SERVICE: Final = "jobyard-metrics"
# The numeric user of the image: `runAsNonRoot` can't be checked for one with only a name.
USER: Final = 65532
# Enough for the pass in progress to end and the lease to be given up.
GRACE_SECONDS: Final = 30


def workload(settings: Settings) -> tuple[dict[str, Any], ...]:
    # No PodDisruptionBudget: `kubectl apply` calls one changed every time (its selector is always
    # replaced), and when both controllers are drained at once the jobs only wait for a moment.
    return _deployment(settings), _metrics_service(settings)


def arguments(settings: Settings) -> tuple[str, ...]:
    """The command line of the controller."""
    return (
        "controller",
        "--log-format=json",
        f"--lease={settings.namespace}/{CONTROLLER}",
        f"--listen=0.0.0.0:{PORT}",
        f"--gang-scheduler={settings.gang_scheduler}",
    )


def _metadata(settings: Settings, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": settings.namespace, "labels": dict(LABELS)}


def _deployment(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(settings, CONTROLLER),
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": dict(SELECTOR)},
            # A new one is ready to take the lease before an old one goes.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod(settings)},
        },
    }


def _pod(settings: Settings) -> dict[str, Any]:
    return {
        "serviceAccountName": CONTROLLER,
        "automountServiceAccountToken": True,
        # Otherwise every service of the namespace becomes variables of the environment.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": {"kubernetes.io/os": "linux"},
        # Preferred only: on a cluster of one node the second must still come up.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(SELECTOR)},
            }
        ],
        "containers": [_container(settings)],
    }


def _container(settings: Settings) -> dict[str, Any]:
    return {
        "name": "controller",
        "image": settings.image,
        "args": list(arguments(settings)),
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 20, "failureThreshold": 3},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5, "failureThreshold": 3},
        # A controller that knows 10,000 pods stays below 300 MB.
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "2", "memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _probe(path: str) -> dict[str, Any]:
    # Five seconds: a controller with much to do answers late, and isn't dead.
    return {"httpGet": {"path": path, "port": PORT_NAME}, "timeoutSeconds": 5}


def _metrics_service(settings: Settings) -> dict[str, Any]:
    metadata = _metadata(settings, METRICS_SERVICE)
    metadata["annotations"] = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(PORT),
        "prometheus.io/path": "/metrics",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "selector": dict(SELECTOR),
            "ports": [
                {"name": PORT_NAME, "port": PORT, "targetPort": PORT_NAME, "protocol": "TCP"}
            ],
        },
    }
