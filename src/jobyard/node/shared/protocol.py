"""The number of what engine, hub and supervisors say to one another, orders and states included.

A hub and supervisors live on while Jobyard is upgraded under them, or taken back to an older
release. Each tells its number first: the hub in its status, a supervisor with every state. What
follows from another number:

* A hub is replaced, whatever runs: its supervisors hold the network that the next one takes over.
* A supervisor goes on to the end of its pod. What it doesn't know is not sent to it but refused,
  in words (`since` at each command); fields that it doesn't know it passes over.
* A supervisor that says what can't be read is let be, and only its end is waited for.

The number grows when a word, a field or the meaning of one is added; `tests/golden/wire.json` has
the shapes that it stands for. 0 is what told no number.
"""

from __future__ import annotations

from typing import Final

PROTOCOL: Final = 1
# A supervisor ends a process that was started inside when nobody waits for it any more.
ENDS_WITH_WHO_ASKED: Final = 1


def told(number: int) -> str:
    """How somebody with another number is called."""
    age = "an older" if number < PROTOCOL else "a newer"
    return f"{age} Jobyard (protocol {number}; this one has {PROTOCOL})"
