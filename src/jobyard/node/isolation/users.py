"""User namespaces: how an ordinary user gets to mount and to have a network, and stays itself.

The hub maps the user to root; that is what may mount. Each container maps back, so that the
command sees its own user and files keep their owner.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from jobyard.node.isolation import kernel


class RealUser(msgspec.Struct, frozen=True, kw_only=True):
    """Who started the engine, when that isn't somebody who may do everything."""

    uid: int
    gid: int


def enter_new_user_namespace(*, inner: RealUser, outer: RealUser) -> None:
    """This process alone moves; its `outer` ids of before are called `inner` from now on."""
    kernel.unshare(kernel.CLONE_NEWUSER)
    with contextlib.suppress(FileNotFoundError):
        # Kernels demand it before a group may be mapped by who is not root.
        Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{inner.uid} {outer.uid} 1")
    Path("/proc/self/gid_map").write_text(f"{inner.gid} {outer.gid} 1")
