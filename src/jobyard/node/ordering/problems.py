"""Why a pod can't be ordered: what may pass by itself, and what never will.

The agent shows the former as a waiting container and tries again when something changes; the
latter ends the pod, because waiting would only hide it.
"""

from __future__ import annotations


class OrderingError(Exception):
    """The base of both; `container` is empty where the whole pod is concerned."""

    def __init__(self, message: str, *, container: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.container = container
        self.reason = reason


class NotYetError(OrderingError):
    """Something that the pod refers to isn't there (yet); `reason` is kubelet's word."""

    def __init__(self, message: str, *, container: str = "", reason: str = "") -> None:
        super().__init__(
            message, container=container, reason=reason or "CreateContainerConfigError"
        )


class NeverError(OrderingError):
    """The pod can't run here as it is written."""

    def __init__(self, message: str, *, container: str = "", reason: str = "") -> None:
        super().__init__(message, container=container, reason=reason or "ContainerCannotRun")
