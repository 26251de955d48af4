"""What is kept on the disk, as `status` tells of it: lines for people, numbers for programs."""

from __future__ import annotations

from pathlib import Path

from jobyard.engine.disk.use import HomeUse, disk_use, home_use
from jobyard.engine.homes import DataFolder, Presence
from jobyard.node.agent.disk_use import DISK_BYTES_DEFAULT, Measure, Use, spelled


def engine_line(folder: DataFolder, presence: Presence, measure: Measure) -> str:
    use = disk_use(folder, measure)
    budget = spelled(presence.disk_bytes or DISK_BYTES_DEFAULT)
    return (
        f"store {use.store}, logs {use.logs} (of those that are over {budget} at most),"
        f" scratch {use.scratch}"
    )


def engine_disk(folder: DataFolder, presence: Presence, measure: Measure) -> dict[str, object]:
    use = disk_use(folder, measure)
    return {
        "storeBytes": use.store.bytes,
        "logsBytes": use.logs.bytes,
        "scratchBytes": use.scratch.bytes,
        "budgetBytes": presence.disk_bytes or DISK_BYTES_DEFAULT,
        "isWhole": (use.store + use.logs + use.scratch).is_whole,
    }


def _shared(place: Path, measure: Measure, *, is_home: bool) -> HomeUse:
    if is_home:
        return home_use(place, measure)
    # An engine with a folder of its own has its claims there, and no runs.
    return HomeUse(claims=measure.of(place / "claims"))


def home_line(place: Path, measure: Measure, *, is_home: bool) -> str:
    """Empty if nothing is kept beyond what engines that run have."""
    use = _shared(place, measure, is_home=is_home)
    parts = []
    if use.claims != Use():
        parts.append(f"claims {use.claims}")
    if use.ended_count:
        runs = "run that has" if use.ended_count == 1 else "runs that have"
        parts.append(f"{use.ended_count} {runs} ended {use.ended_runs}")
    return f"kept     {', '.join(parts)}; `jobyard clean` shows and removes" if parts else ""


def home_disk(place: Path, measure: Measure, *, is_home: bool) -> dict[str, object]:
    use = _shared(place, measure, is_home=is_home)
    return {
        "claimsBytes": use.claims.bytes,
        "claimsAreWhole": use.claims.is_whole,
        "endedRuns": use.ended_count,
        "endedRunsBytes": use.ended_runs.bytes,
    }
