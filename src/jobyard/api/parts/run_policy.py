"""What ends a job early, how often replicas restart, and what is cleaned up after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from jobyard.api.parts.value import INT32_MAX, Count, Value
from jobyard.schema.derive import Spelled, described

TimeToLive = Annotated[
    Count | None,
    described("Deletes the job this many seconds after it has finished; absent, it stays."),
]


class CleanUpPolicy(Spelled):
    """Which pods go once the job has ended."""

    NONE = "None"
    ALL = "All"
    UNFINISHED = "Unfinished"

    @classmethod
    def other_spellings(cls) -> Mapping[str, Self]:
        # Some pages of the originals' reference have them in lower case.
        return {"": cls.NONE, **{str(word).lower(): word for word in cls}}


class RunPolicy(Value):
    """Limits of a training job, and what is cleaned up after it."""

    active_deadline_seconds: Annotated[
        Annotated[int, described(ge=1, le=INT32_MAX)] | None,
        described("Fails the job after running this long; paused time doesn't count."),
    ] = None
    backoff_limit: Annotated[
        Count, described("How many restarts all replicas together may use up.")
    ] = 3
    clean_up_policy: Annotated[
        CleanUpPolicy,
        described(
            "Which pods are deleted at the end: none, all, or those that haven't ended; in lower"
            " case it is the same."
        ),
    ] = CleanUpPolicy.NONE
    ttl_seconds_after_finished: TimeToLive = None


class LauncherRunPolicy(Value):
    """What is cleaned up after a job that a launcher drives."""

    clean_up_workers: Annotated[
        bool,
        described("Deletes the workers at the end; the launcher stays for its log."),
    ] = False
    ttl_seconds_after_finished: TimeToLive = None
