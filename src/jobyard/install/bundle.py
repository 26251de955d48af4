"""All objects of an installation, in the order in which a cluster can take them.

`jobyard install` prints what comes out. The same settings give the same objects, so that
applying them a second time changes nothing.
"""

from __future__ import annotations

from typing import Any

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS
from jobyard.install.rbac import access
from jobyard.install.settings import LABELS, Settings
from jobyard.install.workload import workload

_POD_SECURITY = {
    f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
}


def bundle(settings: Settings) -> tuple[dict[str, Any], ...]:
    # The CRDs stay as `jobyard crds` prints them: the two commands must not undo one another.
    crds = [crd(kind) for kind in KINDS] if settings.crds else []
    return (_namespace(settings), *crds, *access(settings), *workload(settings))


def _namespace(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": settings.namespace, "labels": {**LABELS, **_POD_SECURITY}},
    }
