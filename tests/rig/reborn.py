"""Runs a command of Jobyard that goes on for ever, and starts it anew whenever it is killed.

A program, not a module of tests: `python -m rig.reborn controller|up <its arguments>`. All
imports are done once, so that a life of the command begins within milliseconds. Prints a line
with the pid for each life; ends when a life ends by itself, with its exit code. What the command
itself prints goes to standard error.
"""

import importlib
import os
import sys

# What makes a new life cheap: the command with all that it would import when it runs.
MODULES = {
    "controller": ("jobyard.cli.commands.controller",),
    "up": ("jobyard.cli.commands.up", "jobyard.engine.engine", "jobyard.engine.service"),
}


def main(name: str, arguments: list[str]) -> int:
    modules = [importlib.import_module(each) for each in MODULES[name]]
    command = modules[0].command
    while True:
        pid = os.fork()
        if pid == 0:
            # Dies with us: nothing outlives a test.
            import ctypes

            ctypes.CDLL(None).prctl(1, 9)
            os.dup2(2, 1)
            command(arguments, prog_name=f"jobyard {name}")
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
