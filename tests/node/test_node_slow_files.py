"""File systems that don't answer: a pod waits for them, and nobody else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# In a mount namespace of its own: a file system whose server never says a word.
SCRIPT = """
import asyncio, os, sys, time
from functools import partial
from pathlib import Path
from jobyard.node.shared.folders import PodFolder
from jobyard.node.isolation import kernel
from jobyard.node.objects.surroundings import Found, Setup
from jobyard.node.objects.pod_object import pod_from
from jobyard.node.volumes.claims import ClaimFolders
from jobyard.node.volumes.contents import About, VolumeError
from jobyard.node.volumes.patience import PATIENCE_SECONDS, Patience
from jobyard.node.volumes.placing import Site, place_all

data = Path(sys.argv[1])
remote = data / "remote"
remote.mkdir()
server = os.open("/dev/fuse", os.O_RDWR)
kernel.mount("slow", str(remote), "fuse", 0, f"fd={server},rootmode=40000,user_id=0,group_id=0")


def placing(uid, path):
    volumes = [
        {"name": "near", "emptyDir": {}},
        {"name": "far", "hostPath": {"path": str(path), "type": "Directory"}},
    ]
    metadata = {"name": uid, "namespace": "a", "uid": uid}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    pod = pod_from({"metadata": metadata, "spec": spec})
    site = Site(PodFolder(data, uid), ClaimFolders(data, {}))
    return partial(place_all, About(pod, Setup(node_name="n"), Found()), site)


async def main():
    patience = Patience()
    # More than there are threads that all share.
    slow = [asyncio.create_task(patience.do(f"a{n}", placing(f"a{n}", remote))) for n in range(40)]
    await asyncio.sleep(0)
    begun = time.monotonic()
    placed = await patience.do("b", placing("b", data))
    assert placed["far"].source == str(data)
    await asyncio.to_thread(os.getpid)
    assert time.monotonic() - begun < PATIENCE_SECONDS, "somebody else had to wait"
    assert not any(one.done() for one in slow)
    for problem in await asyncio.gather(*slow, return_exceptions=True):
        assert isinstance(problem, VolumeError) and problem.may_pass, problem
        assert problem.volume == "far" and "don't answer" in str(problem)
    # Who comes again is told at once.
    begun = time.monotonic()
    for _ in range(100):
        try:
            await patience.do("a0", placing("a0", remote))
        except VolumeError as problem:
            assert problem.volume == "far"
        else:
            raise AssertionError("placed")
    assert time.monotonic() - begun < PATIENCE_SECONDS
    # The server is gone for good: the threads end, and each pod is tried anew.
    os.close(server)
    async with asyncio.timeout(30):
        while patience._hanging:
            await asyncio.sleep(0.01)
    assert (await patience.do("a0", placing("a0", data)))["far"].source == str(data)


asyncio.run(main())
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK),
    reason="only root can mount what never answers",
)
def test_files_that_dont_answer_cost_only_their_pod(tmp_path: Path) -> None:
    command = ["unshare", "--mount", "--propagation", "private"]
    command += [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
