"""Where the embedded server is known to answer otherwise, with the reason; meant to get shorter.

A case that is listed must fail there: once it doesn't, the line has to go. Nothing is excused on
the real server.
"""

from __future__ import annotations

# By the sentence of the case.
KNOWN: dict[str, str] = {
    "a rule that costs too much": "the cost of a rule isn't estimated",
}
