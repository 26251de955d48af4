"""Runs `jobyard controller` and starts it anew whenever it is killed, as fast as a fork.

A program, not a module of tests: `python -m rig.reborn <arguments of the command>`. All
imports are done once, so that a life of the controller begins within milliseconds. Prints a
line with the pid for each life; ends when a life ends by itself, with its exit code.
"""

import os
import sys


def main(arguments: list[str]) -> int:
    # Imported before the first fork: that is what makes a new life cheap.
    from jobyard.cli.controller import command

    while True:
        pid = os.fork()
        if pid == 0:
            # Dies with us: nothing outlives a test.
            import ctypes

            ctypes.CDLL(None).prctl(1, 9)
            command(arguments, prog_name="jobyard controller")
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
