"""Commands that are an sshd and nothing else, as debug and resume commands often are.

Written as a path or a name, with or without options, or as the one command of a shell. What it
says is read as sshd would; who calls this decides what becomes of it.
"""

from __future__ import annotations

import getopt
import re
import shlex

import msgspec

_OPTIONS = "46DGTVdeiqtC:E:b:c:f:g:h:k:o:p:u:"
# In the foreground, with its log on stderr: as we run it anyway.
_USUAL = frozenset({"-D", "-e", "-q"})
# Ends by itself, or after the first connection.
_ENDING = frozenset({"-C", "-G", "-T", "-V", "-d", "-i", "-t"})
_SHELLS = frozenset({"sh", "bash", "dash", "ash"})
# Letters after a dash of which the last is c: -c, -lc, -exc.
_RUNS_TEXT = re.compile(r"-[a-z]*c")
# What a shell would do something about.
_MEANINGFUL = re.compile(r"[;&|<>()$`*?\[\]{}~#\n]")


class Sshd(msgspec.Struct, frozen=True):
    """An sshd: where it is, and the options it is given."""

    path: str
    given: tuple[tuple[str, str], ...] = ()

    @property
    def serves(self) -> bool:
        return not any(option in _ENDING for option, _ in self.given)

    @property
    def is_configured(self) -> bool:
        return any(option == "-f" for option, _ in self.given)

    @property
    def is_in_foreground(self) -> bool:
        return not self.serves or any(option == "-D" for option, _ in self.given)

    def options(self, *, beside: int) -> tuple[str, ...]:
        """Those that say more than that it serves, with this port beside any others."""
        kept = [each for each in self.given if each[0] not in _USUAL]
        others = [each for each in kept if each[0] == "-p" and each[1] != str(beside)]
        rest = [each for each in kept if each[0] != "-p"]
        ports = [("-p", str(beside)), *others] if others else []
        return tuple(word for each in (*ports, *rest) for word in each if word)


def sshd_in(command: tuple[str, ...]) -> Sshd | None:
    """None of any other command, and of options that no sshd has."""
    words = _unwrapped(command)
    if not words or words[0].rpartition("/")[2] != "sshd":
        return None
    try:
        given, rest = getopt.getopt(list(words[1:]), _OPTIONS)
    except getopt.GetoptError:
        return None
    return None if rest else Sshd(words[0], tuple(given))


def in_foreground(command: tuple[str, ...]) -> tuple[str, ...]:
    """A bare sshd would go into the background, and the container would end: it gets -D."""
    sshd = sshd_in(command)
    if sshd is None or sshd.is_in_foreground:
        return command
    return (*_unwrapped(command), "-D")


def _unwrapped(command: tuple[str, ...]) -> tuple[str, ...]:
    """The words that a shell is given, where it would run just these."""
    if len(command) != 3 or command[0].rpartition("/")[2] not in _SHELLS:
        return command
    if not _RUNS_TEXT.fullmatch(command[1]) or _MEANINGFUL.search(command[2]):
        return command
    try:
        words = shlex.split(command[2])
    except ValueError:
        return command
    return tuple(words[1:] if words[:1] == ["exec"] else words)
