"""How a process ended, in the words of the error channel."""

from __future__ import annotations

from typing import Final

import msgspec

from jobyard.server.resource import Object

SUCCESS: Final[Object] = {"metadata": {}, "status": "Success"}


def outcome(exit_code: int) -> Object:
    """The Status that a client is told, which finds the exit code among its causes."""
    if exit_code == 0:
        return SUCCESS
    text = f"command terminated with exit code {exit_code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {text}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def fault(problem: Exception) -> Object:
    """The Status of a process of which nothing more can be known."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: error executing command in container: {problem}",
        "reason": "InternalError",
        "details": {"causes": [{"message": f"error executing command in container: {problem}"}]},
        "code": 500,
    }


def told(status: Object, *, as_object: bool) -> bytes:
    """The bytes on the channel; older versions have a text there, and nothing for success."""
    if as_object:
        return msgspec.json.encode(status)
    return str(status.get("message", "")).encode()
