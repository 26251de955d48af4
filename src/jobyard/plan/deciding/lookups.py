"""What a pass has to ask for besides what it watches, and when to look again for want of an event.

Called by `decide` once the rest of a plan is there. `controller.lookups` asks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobyard.plan.facts.decision import Observed, Plan, earliest
from jobyard.plan.facts.slow_starts import ASK_AGAIN_SECONDS, slow_to_start
from jobyard.plan.facts.standing import Standing, State
from jobyard.plan.reporting.status import unscheduled_at

_ASK_SOON_SECONDS = 1


def with_lookups(plan: Plan, seen: Observed, standings: tuple[Standing, ...], now: float) -> Plan:
    """What has to be asked for, and when to look again for want of an event."""
    page_due, slow = _page_due(seen, standings, now), slow_to_start(standings, now)
    return msgspec.structs.replace(
        plan,
        pods_to_ask=slow.uids,
        asks_for_job_url=page_due is not None,
        look_again_at=earliest(
            plan.look_again_at,
            slow.look_again_at,
            unscheduled_at(standings, now),
            page_due,
        ),
    )


def _page_due(seen: Observed, standings: Sequence[Standing], now: float) -> float | None:
    """When to ask for the program's page again, from when it runs until its cluster knows it.

    Most programs are known within seconds, and a short one ends soon after; one that its
    cluster never hears of is not worth many questions.
    """
    page = seen.description.page
    if page is None or page.is_known(seen.job_url):
        return None
    ages = [
        now - standing.pod.created_at
        for standing in standings
        if standing.role.waits_for_others and standing.state is State.RUNNING and standing.pod
    ]
    if not ages:
        return None
    return now + min(max(_ASK_SOON_SECONDS, max(ages) / 10), ASK_AGAIN_SECONDS)
