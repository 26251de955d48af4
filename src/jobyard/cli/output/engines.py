"""An engine as `-o json` tells of it, the same from `up` and from `status`."""

from __future__ import annotations

from jobyard.engine.homes import DataFolder, Presence


def engine_as_json(folder: DataFolder, presence: Presence) -> dict[str, object]:
    return {
        "pid": presence.pid,
        "server": presence.server,
        "runtime": presence.runtime,
        "startedAt": presence.started_at,
        "startedIn": presence.started_in,
        "folder": str(folder.path),
        "kubeconfig": str(folder.kubeconfig),
    }
