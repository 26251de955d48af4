"""The embedded API server alone, in a process of its own: python bench/embedded_api.py FOLDER

As the engine opens it, durable and with Jobyard's CRDs, but with no scheduler, node or controller
behind it: what is made on it stays as it was made. Prints the kubeconfig's path when it serves.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from jobyard.engine.own_crds import install_own_crds
from jobyard.server.http.credentials import credentials, write_kubeconfig
from jobyard.server.http.serving import Doorway, HttpServer
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server


async def serve(folder: Path) -> None:
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    known = credentials(folder / "pki", datetime.now(UTC))
    server = open_server(folder / "objects.sqlite", durable=True)
    install_own_crds(server)
    doorway = Doorway(token=known.token, tls=known.tls())
    try:
        async with LiveServer(server) as live, HttpServer(live, doorway) as served:
            write_kubeconfig(folder / "kubeconfig", served.url, known)
            print(folder / "kubeconfig", flush=True)
            await ending.wait()
    finally:
        server.store.journal.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
