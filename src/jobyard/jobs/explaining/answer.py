"""The answer to why a job stands as it does, as a value. `-o json` prints it as it is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobyard.jobs.explaining.ranges import named
from jobyard.jobs.explaining.reasons import Reason
from jobyard.jobs.explaining.seen import Event


class Remedy(msgspec.Struct, frozen=True):
    """What would help; the command that does it, where there is one."""

    text: str
    command: str = ""


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas of which the same is to be said."""

    replicas: tuple[str, ...]
    phase: str
    # Absent where nothing is wrong with them.
    reason: Reason | None = None
    message: str = ""
    restarts: int = 0

    @property
    def names(self) -> str:
        several = f" ({len(self.replicas)})" if len(self.replicas) > 2 else ""
        return f"{named(self.replicas)}{several}"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job stands as it does: the cause, what would help, and what it was seen from."""

    kind: str
    namespace: str
    name: str
    phase: str
    reason: Reason
    # One or two sentences, with numbers.
    cause: str
    # Empty where the job has none.
    queue: str = ""
    remedies: tuple[Remedy, ...] = ()
    replicas: tuple[Together, ...] = ()
    events: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Verdict(msgspec.Struct, frozen=True):
    """What was found to be the cause, before what would help is looked for."""

    reason: Reason
    cause: str
    # The replicas that it is about; none: the job as a whole.
    replicas: tuple[str, ...] = ()


def sentence(words: str) -> str:
    """With a capital letter and a full stop, whoever wrote it; names stay as they are."""
    words = words.strip()
    if not words:
        return ""
    is_word = words.partition(" ")[0].isalpha()
    start = words[0].upper() if is_word else words[0]
    return f"{start}{words[1:]}" + ("" if words[-1] in ".!?…" else ".")


def sentences(*parts: str) -> str:
    return " ".join(filter(None, map(sentence, parts)))


def counted(number: int, noun: str) -> str:
    """`1 pod`, `3 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def idle(names: Sequence[str], total: int, running: int) -> str:
    """Who doesn't run, and how many do."""
    if len(names) == total:
        return f"{names[0]} doesn't run" if total == 1 else f"none of {total} replicas runs"
    verb = "doesn't" if len(names) == 1 else "don't"
    return f"{named(names)} {verb} run, {running} of {total} replicas do"
