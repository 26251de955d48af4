"""Which waiting members of a gang are placed at once so that it may start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobyard.schedule.groups import Gang
from jobyard.schedule.reasons import Why, not_enough_members
from jobyard.schedule.snapshot import Candidate


def age(pod: Candidate) -> tuple[float, int, str]:
    """The older first; of equal ones the lower number, as names have it at their end."""
    return (pod.created_at, len(pod.name), pod.name)


def starting(gang: Gang, barred: Mapping[str, Why]) -> tuple[list[Candidate], Why | None]:
    """The members that bring it to its least number, or why it can't get there.

    Those that something of their own keeps away don't count; if the gang lacks nothing but them,
    their reason is the gang's.
    """
    chosen, lacking = lacked(gang, barred)
    is_whole = not lacking and gang.alive + len(chosen) >= gang.needed
    # Who starts anew without those that have ended has to have somebody at least.
    counted = gang.alive + gang.excused + len(chosen)
    if is_whole or (chosen and gang.excused and counted >= gang.needed):
        return chosen, None
    if gang.alive + len(gang.waiting) >= gang.needed and _first(gang.waiting, barred):
        return [], _first(gang.waiting, barred)
    usable = len(gang.waiting) - sum(pod.uid in barred for pod in gang.waiting)
    return [], not_enough_members(gang.alive + usable, gang.needed, lacking)


def lacked(
    gang: Gang, barred: Mapping[str, Why]
) -> tuple[list[Candidate], list[tuple[str, int, int]]]:
    """The members that it lacks: as many of each role as the role needs, then the oldest.

    And of each role that stays short its name, how many there would be, and how many it needs.
    """
    usable = sorted((pod for pod in gang.waiting if pod.uid not in barred), key=age)
    chosen: list[Candidate] = []
    lacking: list[tuple[str, int, int]] = []
    for role, least in gang.roles:
        alive = gang.alive_of(role)
        found = [pod for pod in usable if pod.role == role][: max(0, least - alive)]
        chosen += found
        if alive + len(found) < least:
            lacking.append((role, alive + len(found), least))
    taken = {pod.uid for pod in chosen}
    rest = [pod for pod in usable if pod.uid not in taken]
    chosen += rest[: max(0, gang.needed - gang.alive - len(chosen))]
    return chosen, lacking


def _first(pods: Sequence[Candidate], barred: Mapping[str, Why]) -> Why | None:
    return next((barred[pod.uid] for pod in sorted(pods, key=age) if pod.uid in barred), None)


def surplus(gang: Gang) -> list[Candidate]:
    """Members on the machine that it could do without, those that go first at the front."""
    spare = gang.alive - gang.needed
    counts = {role: gang.alive_of(role) - least for role, least in gang.roles}
    out: list[Candidate] = []
    for pod in sorted(gang.here, key=age, reverse=True):
        if len(out) >= spare:
            break
        if counts.get(pod.role, 1) <= 0:
            continue
        if pod.role in counts:
            counts[pod.role] -= 1
        out.append(pod)
    return out
