"""Addresses rewritten for pods that share the machine's network: names become loopback.

Without namespaces a name of a pod leads nowhere and two replicas can't listen on one port. So
in variables and commands every name that pods know becomes 127.0.0.1, and a port that stands
with a name becomes the number that is granted for it. A port that stands alone is taken for
one only where something says so: a variable called `…PORT` beside one with the host, or a
number that the pod's own service or container declares. Files are not looked at, and a program
that listens on a port nobody told it can't be helped. It only finds what to rewrite: names are
`host_names`', numbers are `host_ports`'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from jobyard.node.ordering.host_names import HostNames
from jobyard.node.shared.order import Check, ContainerOrder, Probe, Probes
from jobyard.numerals import port_number, whole_number

LOOPBACK: Final = "127.0.0.1"
# A host, and a port behind a colon or after a space.
_PLACE: Final = re.compile(
    r"(?<![\w.-])(?P<host>[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)"
    r"(?:(?P<gap>:|[ \t]+)(?P<port>[0-9]{2,5})(?![\w.-]))?(?![\w-])(?!\.\w)"
)
_PORT_WORD: Final = re.compile(r"(?:^|_)PORT(?=_|$)")
_HOST_ENDINGS: Final = ("ADDR", "ADDRS", "ADDRESS", "ADDRESSES", "HOST", "HOSTS", "URI", "IP")
# Variables that tell who somebody is, not where.
_NAMING: Final = re.compile(r"(?:^|_)(?:NAME|JOB|ROLE|TYPE|ID|HOSTNAME)$|^JOBYARD_(?!HOST)")
# A number after a space may be anything; below this it is more likely a count.
_LONE_PORT_MIN: Final = 1024
_REPLICA: Final = re.compile(r".*-[0-9]+")
_OPTION: Final = re.compile(r"(-{1,2}[\w.-]+)=(.*)", re.DOTALL)


class Ports(msgspec.Struct, frozen=True):
    """Numbers for ports: of somebody by owner, and of the pod itself."""

    of: Callable[[str, int], int]
    own: Callable[[int], int]
    # Those that the pod's services and containers say it has.
    declared: frozenset[int]
    # By which owners the pod itself is meant.
    names: frozenset[str]


class Rewriting:
    """One pod's containers, one after another; it remembers which own ports were told."""

    def __init__(self, names: HostNames, ports: Ports) -> None:
        self._names = names
        self._ports = ports
        self._told_own: dict[int, int] = {}

    def container(self, order: ContainerOrder, untouched: Collection[str]) -> ContainerOrder:
        """The container with its addresses rewritten; variables in `untouched` stay."""
        given = {name: value for name, value in order.env.items() if name not in untouched}
        env = {name: self._variable(name, given) for name in given}
        return msgspec.structs.replace(
            order, env={**order.env, **env}, argv=self._words(order.argv)
        )

    def checks(self, order: ContainerOrder) -> ContainerOrder:
        """Probes and hooks with the ports that the pod was told; after all containers."""
        probes = order.probes
        return msgspec.structs.replace(
            order,
            probes=Probes(
                startup=self._probe(probes.startup),
                liveness=self._probe(probes.liveness),
                readiness=self._probe(probes.readiness),
            ),
            post_start=self._check(order.post_start),
            pre_stop=self._check(order.pre_stop),
        )

    # Variables.

    def _variable(self, name: str, given: Mapping[str, str]) -> str:
        value = given[name]
        if whole_number(value) is not None:
            owners = self._owners_beside(name, given)
            return self._lone_port(value, owners) if owners is not None else value
        if _NAMING.search(name) and self._names.meant(value, has_port=False):
            return value
        return self._text(value)

    def _owners_beside(self, name: str, given: Mapping[str, str]) -> list[str] | None:
        """Whose port a variable is, by the variable beside it that has the host.

        None: nobody's of ours, or none at all. Empty: nothing says whose it is.
        """
        is_port = False
        for found in reversed(list(_PORT_WORD.finditer(name))):
            is_port = True
            start = found.start() + found.group().startswith("_")
            for ending in _HOST_ENDINGS:
                beside = given.get(name[:start] + ending)
                if beside is not None and whole_number(beside) is None:
                    return self._owners_in(beside) or None
        return [] if is_port else None

    def _owners_in(self, text: str) -> list[str]:
        out = []
        for word in re.split(r"[,;\s]+", text.strip()):
            place = word.partition("://")[2] or word
            host, sign, port = place.rpartition(":")
            is_pair = bool(sign) and whole_number(port) is not None
            meant = self._names.meant(host if is_pair else place, has_port=True)
            if meant is not None:
                out.append(meant.owner)
        return out

    def _lone_port(self, value: str, owners: list[str]) -> str:
        number = port_number(value)
        if number is None:
            return value
        if len(owners) == 1:
            return str(self._of(owners[0], number))
        # One number for many hosts: only the pod's own can be meant by it here.
        if owners or number in self._ports.declared:
            return str(self._own(number))
        return value

    def _of(self, owner: str, port: int) -> int:
        return self._own(port) if owner in self._ports.names else self._ports.of(owner, port)

    def _own(self, port: int) -> int:
        number = self._told_own[port] = self._ports.own(port)
        return number

    # Commands.

    def _words(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        out: list[str] = []
        last = ""
        for number, word in enumerate(argv):
            option = _OPTION.fullmatch(word)
            head, text = (f"{option[1]}=", option[2]) if option else ("", word)
            before = argv[number - 1] if number else ""
            if number and whole_number(text) is not None:
                label = option[1] if option else before if before.startswith("-") else ""
                is_beside = not label and bool(last) and bool(self._owners_in(before))
                out.append(head + self._number(text, label, last, is_beside=is_beside))
                continue
            owners = self._owners_in(text)
            last = owners[-1] if owners else last
            out.append(head + (self._text(text) if number else text))
        return tuple(out)

    def _number(self, text: str, label: str, last: str, *, is_beside: bool) -> str:
        """A word that is a number: a port of the host before it, of the pod itself, or none."""
        says_port = "port" in label.lower() or label == "-p"
        if label and not says_port:
            return text
        if last and (says_port or is_beside):
            return self._lone_port(text, [last])
        return self._lone_port(text, [])

    # Text.

    def _text(self, text: str) -> str:
        """Every place in a text; a lone word that could be anything only if all are hosts."""
        words = [word for word in re.split(r"[,;\s]+", text) if word]
        is_list = all(self._owners_in(word) for word in words)

        def rewritten(found: re.Match[str]) -> str:
            return self._place(found, is_list=is_list)

        return _PLACE.sub(rewritten, text)

    def _place(self, found: re.Match[str], *, is_list: bool) -> str:
        place, host, gap = found.group(0), found["host"], found["gap"]
        number = whole_number(found["port"] or "") or 0
        is_pair = gap == ":"
        meant = self._names.meant(host, has_port=is_pair)
        if meant is None or _is_in_path(found):
            return place
        if is_pair:
            return f"{LOOPBACK}:{self._of(meant.owner, number)}"
        if meant.is_plain and not is_list and not _REPLICA.fullmatch(host):
            return place
        is_port = number >= _LONE_PORT_MIN or self._names.has_port(meant.owner, number)
        if not gap or not is_port:
            return LOOPBACK + place[len(host) :]
        return f"{LOOPBACK}{gap}{self._of(meant.owner, number)}"

    # Probes and hooks.

    def _probe(self, probe: Probe | None) -> Probe | None:
        if probe is None:
            return None
        check = self._check(probe.check)
        assert check is not None, "a probe without a check"
        return msgspec.structs.replace(probe, check=check)

    def _check(self, check: Check | None) -> Check | None:
        if check is None:
            return None
        if check.argv:
            return msgspec.structs.replace(check, argv=self._words(check.argv))
        if check.http is not None:
            port = self._told_own.get(check.http.port, check.http.port)
            return msgspec.structs.replace(
                check, http=msgspec.structs.replace(check.http, port=port)
            )
        return msgspec.structs.replace(
            check, tcp_port=self._told_own.get(check.tcp_port, check.tcp_port)
        )


def _is_in_path(found: re.Match[str]) -> bool:
    """A folder that is called like a pod stays; what follows `//` is a host."""
    before, after = found.string[: found.start()], found.string[found.end() :]
    if before.endswith("//"):
        return False
    return before.endswith("/") or (after.startswith("/") and not found["gap"])
