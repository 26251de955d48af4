"""The end of a hub, when no pod of its data folder runs any more, and of what it had made."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from jobyard.node.hub.client import HubClient
from jobyard.node.hub.outside import KEEPER_NAME
from jobyard.node.isolation import cgroups
from jobyard.node.isolation.rootfs.mount_points import LIST_NAME, clear_made_folders
from jobyard.node.shared import polling
from jobyard.node.shared.folders import pod_folders
from jobyard.node.shared.process_end import has_ended
from jobyard.node.shared.runtime import RuntimeFailedError
from jobyard.numerals import whole_number

_STOP_SECONDS: Final = 10.0
# Short: another engine may use the same folders, and removes them when it is done.
_LAST_USE_SECONDS: Final = 1.0


async def clear(hub: HubClient, data: Path) -> None:
    """Returns when the hub is gone, and the way outside, and the groups and folders of its pods."""
    pid = 0
    with contextlib.suppress(ConnectionError, RuntimeFailedError):
        pid = (await hub.ask(do="status"))[0]["pid"]
    await hub.quit()
    await has_ended(pid, _STOP_SECONDS)
    keeper = data / KEEPER_NAME
    if keeper.exists():
        # It has noticed the hub's end, and ends what it started.
        text = keeper.read_text(errors="replace").strip()
        await has_ended(whole_number(text) or 0, _STOP_SECONDS)
        keeper.unlink()
    # What lived below a supervisor that was killed may be ending only now.
    await asyncio.to_thread(
        polling.until,
        lambda: clear_made_folders(data),
        seconds=_LAST_USE_SECONDS,
        interval_seconds=0.01,
    )
    (data / LIST_NAME).unlink(missing_ok=True)
    for folder in pod_folders(data):
        await asyncio.to_thread(cgroups.clear, folder.path)
