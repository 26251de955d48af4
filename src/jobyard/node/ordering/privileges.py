"""What a container's securityContext lets it do, as container engines read it.

One difference: without a word about it, a process can't gain privileges (`no_new_privs`). On a
cluster that has to be asked for; here the machine is somebody's own.
"""

from __future__ import annotations

from typing import Final

from jobyard.node.objects.pod_object import Container, PodObject
from jobyard.node.ordering.problems import NeverError
from jobyard.node.shared.capabilities import CAPABILITIES, DEFAULT_CAPABILITIES
from jobyard.node.shared.order import Privileges

_ALL: Final = "ALL"
_PREFIX: Final = "CAP_"
_UNCONFINED: Final = "Unconfined"


def privileges_of(pod: PodObject, container: Container) -> Privileges:
    """Raises NeverError for a capability that there isn't."""
    own, shared = container.security_context, pod.spec.security_context
    if own.privileged:
        return Privileges(
            capabilities=CAPABILITIES,
            no_new_privileges=False,
            is_filtered=False,
            is_privileged=True,
        )
    wanted = own.capabilities
    added = _known(container, wanted.add, "add")
    dropped = _known(container, wanted.drop, "drop")
    kept = set() if _ALL in dropped else set(DEFAULT_CAPABILITIES) - dropped
    # What is asked for by name is had, whatever is said of all.
    kept |= (set(CAPABILITIES) - dropped) if _ALL in added else added
    profile = own.seccomp_profile or shared.seccomp_profile
    return Privileges(
        capabilities=tuple(sorted(kept)),
        no_new_privileges=own.allow_privilege_escalation is not True and "SYS_ADMIN" not in kept,
        is_filtered=profile is None or profile.type != _UNCONFINED,
    )


def _known(container: Container, names: tuple[str, ...], verb: str) -> set[str]:
    plain = {name.upper().removeprefix(_PREFIX) for name in names}
    for name in sorted(plain - {_ALL, *CAPABILITIES}):
        raise NeverError(
            f"securityContext: unknown capability {name!r} to {verb}", container=container.name
        )
    return plain
