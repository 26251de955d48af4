"""What the engines of a home have on the disk, part by part, for `status` and `clean`.

Looks at files alone, whether an engine is there or not, and for a moment at most. What may be
removed is decided in `cleaning`; what goes by itself, in `node.disk_keeper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from jobyard.engine.homes import DataFolder, claims_of, standing
from jobyard.engine.runs.runs import Run, State, runs_of
from jobyard.node.agent.disk_use import Measure, Use
from jobyard.node.shared.folders import pod_folders


class DiskUse(msgspec.Struct, frozen=True, kw_only=True):
    """One engine's folder."""

    # The objects, the engine's own logs and all else that is its own.
    store: Use = Use()
    # Of replicas, those of earlier attempts included.
    logs: Use = Use()
    # Volumes that go with their pods, and the layers that containers write to.
    scratch: Use = Use()


def disk_use(folder: DataFolder, measure: Measure) -> DiskUse:
    data = folder.path
    pods = pod_folders(data)
    logs = [data / "kept", *(pod.logs for pod in pods)]
    scratch = [path for pod in pods for path in (pod.volumes, pod.path / "scratch")]
    aside = {"kept", "pods", "claims"}
    try:
        rest = [path for path in data.iterdir() if path.name not in aside]
    except OSError:
        rest = []
    return DiskUse(store=measure.of(*rest), logs=measure.of(*logs), scratch=measure.of(*scratch))


class HomeUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a home holds beyond its engines' folders."""

    claims: Use = Use()
    # Of runs that have ended, or never began, and are still there.
    ended_runs: Use = Use()
    ended_count: int = 0


def home_use(home: Path, measure: Measure) -> HomeUse:
    ended = ended_runs(home)
    # Claims last: they may have millions of files.
    runs = measure.of(*(run.folder.path for run in ended))
    claims = measure.of(claims_of(home), standing(home).path / "claims")
    return HomeUse(ended_runs=runs, ended_count=len(ended), claims=claims)


def ended_runs(home: Path) -> Sequence[Run]:
    """Those of which nothing runs."""
    return [run for run in runs_of(home) if run.state is State.ENDED]
