"""Everything that an engine left running, stopped, with no engine there."""

from __future__ import annotations

from pathlib import Path

from jobyard.node.hub.starting import supervisor_of
from jobyard.node.runtime.sandbox_runtime import SandboxRuntime
from jobyard.node.shared.folders import pod_folders


async def stop_everything(data: Path) -> int:
    """Ends every pod and the hub of a data folder; how many pods there were."""
    running = [folder for folder in pod_folders(data) if supervisor_of(folder.path)]
    # Either kind of runtime stops what is there, whoever started it.
    await SandboxRuntime(data).close(stop_everything=True)
    return len(running)
