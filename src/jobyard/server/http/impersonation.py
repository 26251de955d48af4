"""Requests in somebody else's name: refused, because there is nobody else.

A real server lets those impersonate whom a role allows it, and judges the request by whom it names.
Here the owner of the token may do everything and nobody else is known. To do it all the same would
answer `kubectl --as` with what the owner may do, and somebody would take that for a test of their
roles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from jobyard.server.discovery.unserved import PAGE
from jobyard.server.messages.http_messages import plain
from jobyard.server.problem import Details, ProblemError

_PREFIX: Final = "impersonate-"
_OBJECTS: Final = re.compile("/api/[^/]+/.|/apis/[^/]+/[^/]+/.")
_RESOURCES: Final = {
    "impersonate-user": "users",
    "impersonate-group": "groups",
    "impersonate-uid": "uids",
}


def impersonation_refused(path: str, headers: Mapping[str, str]) -> ProblemError | None:
    """The refusal of a request that names somebody; None for all others.

    What the server tells of itself is the same for everybody, and clients ask for it first.
    """
    for name, text in headers.items():
        if name[: len(_PREFIX)].lower() == _PREFIX and _OBJECTS.match(path):
            who = plain(text)
            resource = _RESOURCES.get(name.lower(), "userextras")
            why = (
                f'{resource} "{who}" is forbidden: User "jobyard" cannot impersonate resource'
                f' "{resource}" in API group "" at the cluster scope: the embedded engine knows'
                f" nobody but its owner ({PAGE})"
            )
            return ProblemError(403, "Forbidden", why, Details(name=who, kind=resource))
    return None
