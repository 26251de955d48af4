"""What is written into a log of what an API server said: enough to go by, and nobody's values.

A refusal quotes the object it is about, or what a webhook chose to say of it: commands and
environments, of any length. Its author reads all of it in the job's events. Whoever runs the
controller is told which fields are wrong and how, and what the server said around its quotes.
"""

from __future__ import annotations

import re
from typing import Final

from jobyard.client.errors import ClientError, RefusedError
from jobyard.client.request import Problem

LENGTH_MAX: Final = 300
CAUSES_MAX: Final = 5
HIDDEN: Final = "…"
_FIELD_LENGTH_MAX: Final = 100
# Looked at before anything is replaced: the rest of a message of megabytes isn't worth the time.
_LOOKED_AT: Final = 4 * LENGTH_MAX
# A text in quotes as Go writes it; one without an end was cut off.
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?$)', re.DOTALL)
# A value that isn't a text stands there bare; and how our own decoder writes one.
_VALUE: Final = re.compile(r"\b([Vv]alue)(?:: .*| '.*')", re.DOTALL)


def brief(said: Problem | ClientError) -> str:
    """A refusal or a failure, as it may stand in a log."""
    problem = said.problem if isinstance(said, RefusedError) else said
    if isinstance(problem, ClientError):
        return without_values(str(problem))
    return _cut(f"{problem.code} {problem.reason}: {_told(problem)}")


def without_values(text: str) -> str:
    """The text without what is quoted in it, and not all of it."""
    hidden = _QUOTED.sub(f'"{HIDDEN}"', text[:_LOOKED_AT])
    return _cut(_VALUE.sub(rf"\1 {HIDDEN}", hidden))


def _told(problem: Problem) -> str:
    if not problem.causes:
        return without_values(problem.message)
    told = [
        f"{cause.field[:_FIELD_LENGTH_MAX] or 'the object'} ({cause.reason})"
        for cause in problem.causes[:CAUSES_MAX]
    ]
    more = len(problem.causes) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")


def _cut(text: str) -> str:
    return text if len(text) <= LENGTH_MAX else f"{text[: LENGTH_MAX - 1]}…"
