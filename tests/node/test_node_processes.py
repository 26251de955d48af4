"""What the kernel tells of processes, whose names may be anything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jobyard.node.isolation.processes import descendants_of, memory_bytes

# In Latin-1, with what closes a name in the kernel's own line, and one that is a number.
NAMES = {
    "no text": b"caf\xe9",
    "parentheses": b"a) R (b",
    "a line's end": b"a\nb",
    "a number": b"7",
}

NAMED = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
print("named", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_process_of_any_name_is_found_and_its_memory_counted(name: bytes) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", NAMED, name.hex()], **pipes) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"named\n"
        assert child.pid in descendants_of(os.getpid())
        assert memory_bytes([child.pid], 0) > 2**20
        assert memory_bytes([child.pid], 1) > 2**19
        child.communicate()
