"""What a queue may have: what is used of its quota, kept for somebody, and its dominant share."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from jobyard.schedule.amounts import PODS, Amounts
from jobyard.schedule.reasons import Why, Wish, never_fits_quota, quota_exceeded, quota_reserved
from jobyard.schedule.snapshot import QueueFacts


class Account(msgspec.Struct, kw_only=True):
    """Of one queue in one look; changed while that goes on."""

    facts: QueueFacts
    used: Amounts
    # What the first in line that waits will need of the quota, and who that is.
    reserved: Amounts = Amounts()
    holder: str = ""

    def share(self, capacity: Amounts) -> Decimal:
        """The largest part, over resources, that the queue has of its quota, else of the machine.

        How many pods there are says nothing of how large a part somebody has, unless a quota does.
        """
        quota = self.facts.quota.by_name if self.facts.quota is not None else {}
        limits = {**capacity.by_name, **quota}
        if PODS not in quota:
            limits.pop(PODS, None)
        return self.used.largest_part(Amounts(limits))

    def refuses(self, wish: Wish) -> Why | None:
        """Why the queue's quota doesn't let this pass now."""
        quota = self.facts.quota
        if quota is None:
            return None
        need = wish.need.only(quota.by_name)
        if not need.fits(quota):
            return never_fits_quota(self.facts.name, wish, quota)
        # A quota may be lowered below what is used; who asks for nothing of it doesn't mind.
        if not need.fits((quota - self.used).or_nothing()):
            return quota_exceeded(self.facts.name, wish, quota, self.used)
        if not need.fits((quota - self.used - self.reserved).or_nothing()):
            return quota_reserved(self.facts.name, self.holder)
        return None

    def reserve(self, need: Amounts, holder: str) -> None:
        """Keeps so much for who waits first; whoever comes later has to do with the rest."""
        quota = self.facts.quota
        if quota is not None and not self.holder:
            self.reserved, self.holder = need.only(quota.by_name), holder

    def take(self, need: Amounts) -> None:
        self.used = self.used + need
