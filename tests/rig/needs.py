"""Programs that tests need of the system, and the words in which a test says that it lacks one.

A reason that ends with "; get it with: COMMAND" is something that the machine could have had:
`rig.skipping` lists them, and lets none of them pass in CI. `rig.users` has the one for what needs
root.
"""

from __future__ import annotations

import os
import shutil

import pytest

GET_IT = "; get it with: "
AS_ROOT = f"{GET_IT}sudo make test"
# Of the system's administration; not on every user's PATH.
_MORE_FOLDERS = "/usr/sbin:/sbin"


def lacks(program: str) -> bool:
    return not _found(program)


def needed(program: str, package: str = "") -> str:
    """Where a program of the system is; the test is skipped if it is not there."""
    path = _found(program)
    if not path:
        pytest.skip(missing(program, package))
    return path


def missing(program: str, package: str = "") -> str:
    """The reason to skip what needs it; `package` is Debian's, if it has another name."""
    return f"there is no {program}{GET_IT}apt-get install {package or program}"


def _found(program: str) -> str:
    return shutil.which(program, path=f"{os.environ['PATH']}:{_MORE_FOLDERS}") or ""
