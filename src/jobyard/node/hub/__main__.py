"""`python -m jobyard.node.hub KIND DATA GATEWAY`: starts the hub and returns once it answers.

What is imported before the hub answers is what the user waits for, so the rest comes after.
Exit status 0: a hub answers, be it this one or one that was there before. 1: it can't be, and
standard error says why.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from jobyard.node.hub.starting import start
from jobyard.node.shared.descriptor_limit import raise_limit


def main() -> int:
    kind, data, gateway = sys.argv[1:]
    raise_limit()
    try:
        start(kind, Path(data), gateway)
    except OSError as error:
        print(f"{error.filename or kind}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Nothing is left to tidy up, and the interpreter takes its time to do so.
    os._exit(code)
