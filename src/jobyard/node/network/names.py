"""Hosts files: how pods find one another by name, without a name server.

One file for each namespace, bound over /etc/hosts in its pods; and one for each TaskSet, whose
replicas know one another as `<role>-<index>`, which another TaskSet of the namespace has as well.
In that one there are, of pods that aren't its own, only those that a name server would know.

A file is changed in place, because a bound file that is replaced stays the old one inside; and no
reader may ever see half of it: a new line is appended in one write, and a line that no longer
holds gets a `#` over its first character, in one write of one byte. New lines come first, so that
a name whose address changes is never without one. A file that is mostly dead lines is written anew
when nobody reads it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.network.services import PodIndex, Service, address_of, members_of
from jobyard.node.objects.pod_object import PodObject
from jobyard.node.objects.taskset_replica import replica_of

CLUSTER_DOMAIN: Final = "cluster.local"
_LOCAL: Final = (
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
)
# A namespace, and for a TaskSet what stands for its uid.
_FILE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[0-9a-f]{32})?")
# Below this, dead lines cost a reader nothing that could be noticed.
DEAD_BYTES_MAX: Final = 64 * 1024


class Circle(msgspec.Struct, frozen=True):
    """Those who share a hosts file: the pods of a namespace, or of a TaskSet in it."""

    namespace: str
    # The uid of a TaskSet; empty for all other pods.
    taskset: str = ""

    @property
    def file_name(self) -> str:
        """No name of a namespace has a dot; and a uid is whatever somebody wrote into a pod."""
        if not self.taskset:
            return self.namespace
        return f"{self.namespace}.{hashlib.sha256(self.taskset.encode()).hexdigest()[:32]}"


def circle_of(pod: PodObject) -> Circle:
    replica = replica_of(pod)
    return Circle(pod.metadata.namespace, replica.taskset if replica is not None else "")


class Names:
    """All pods and services there are, as each circle can resolve them."""

    def __init__(self, index: PodIndex, services: Iterable[Service]) -> None:
        self._pods = index.pods
        self._behind = [
            (service, [member.address for member in members_of(service, index) if member.is_ready])
            for service in services
        ]
        self._members: dict[Circle, list[PodObject]] = {}
        for pod in index.pods:
            self._members.setdefault(circle_of(pod), []).append(pod)
        self._served = [pod for pod in index.pods if pod.spec.subdomain]

    @property
    def circles(self) -> frozenset[Circle]:
        """Those that have pods."""
        return frozenset(self._members)

    def lines(self, circle: Circle) -> tuple[str, ...]:
        """What its pods can resolve; short names are those of their own namespace."""
        out = list(_LOCAL)
        pods, taken = self._pods, set[str]()
        if circle.taskset:
            own = self._members.get(circle, [])
            pods = (*own, *(pod for pod in self._served if circle_of(pod) != circle))
            # A replica's name comes before a service's, as /etc/hosts comes before a name server.
            taken = {replica.host for pod in own if (replica := replica_of(pod)) is not None}
        out.extend(line for pod in pods if (line := pod_line(pod, address_of(pod), circle)))
        for service, addresses in self._behind:
            names = [n for n in _service_names(service, circle.namespace) if n not in taken]
            out.extend(f"{address}\t{' '.join(names)}" for address in addresses)
        # The same line twice says nothing more, and could not be told apart when one goes.
        return tuple(dict.fromkeys(out))


def pod_line(pod: PodObject, address: str, seen_from: Circle) -> str:
    """The line of one pod, empty when it has no name that pods of `seen_from` could use."""
    names = " ".join(_pod_names(pod, seen_from))
    return f"{address}\t{names}" if address and names else ""


def _pod_names(pod: PodObject, circle: Circle) -> Iterator[str]:
    """The canonical name first: a program that asks for its full name gets that."""
    namespace, seen_from = pod.metadata.namespace, circle.namespace
    if pod.spec.subdomain:
        full = f"{pod.host_name}.{pod.spec.subdomain}"
        yield f"{full}.{namespace}.svc.{CLUSTER_DOMAIN}"
        yield f"{full}.{namespace}.svc"
        yield f"{full}.{namespace}"
        if namespace == seen_from:
            yield full
    if namespace == seen_from:
        yield pod.host_name
        if pod.metadata.name != pod.host_name:
            yield pod.metadata.name
        replica = replica_of(pod) if circle.taskset else None
        if replica is not None and replica.taskset == circle.taskset:
            yield replica.host


def _service_names(service: Service, seen_from: str) -> Iterator[str]:
    name, namespace = service.metadata.name, service.metadata.namespace
    if namespace == seen_from:
        yield name
    yield f"{name}.{namespace}"
    yield f"{name}.{namespace}.svc"
    yield f"{name}.{namespace}.svc.{CLUSTER_DOMAIN}"


class HostsFiles:
    """The hosts files of all namespaces and TaskSets, below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Where each living line begins, by namespace; read from disk when it isn't known.
        self._places: dict[str, dict[str, int]] = {}
        self._sizes: dict[str, int] = {}
        self._has_looked = False

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Those that have a file."""
        return tuple(name for name in self._places if "." not in name)

    def path(self, namespace: str) -> Path:
        """The file of a namespace; it is there once `write` was called."""
        if not _FILE.fullmatch(namespace):
            raise ValueError(f"namespace {namespace!r}: not a name")
        return self._folder / namespace

    def keep_tasksets(self, names: Collection[str]) -> None:
        """Remove the files of all other TaskSets: they are gone."""
        if not self._has_looked:
            # Those that an engine before us left.
            self._has_looked = True
            known = [path.name for path in self._folder.glob("*.*") if _FILE.fullmatch(path.name)]
        else:
            known = [name for name in self._places if "." in name]
        for name in known:
            if name not in names:
                self._places.pop(name, None)
                self._sizes.pop(name, None)
                self.path(name).unlink(missing_ok=True)

    def add(self, namespace: str, lines: Sequence[str]) -> None:
        """Make the file say this too, without a look at the rest of it."""
        places = self._opened(namespace)
        fresh = [line for line in dict.fromkeys((*_LOCAL, *lines)) if line and line not in places]
        with self.path(namespace).open("r+b", buffering=0) as handle:
            self._append(namespace, handle.fileno(), fresh)

    def write(self, namespace: str, lines: Sequence[str], *, is_read: bool = True) -> None:
        """Make the file say this and nothing else; `is_read`: a pod may have it open."""
        path, places = self.path(namespace), self._opened(namespace)
        fresh = [line for line in lines if line not in places]
        wanted = set(lines)
        dead = [line for line in places if line not in wanted]
        if not fresh and not dead:
            return
        living = sum(len(line.encode()) + 1 for line in wanted)
        if not is_read and self._sizes[namespace] > living + DEAD_BYTES_MAX:
            self._rewrite(namespace, lines)
            return
        with path.open("r+b", buffering=0) as handle:
            self._append(namespace, handle.fileno(), fresh)
            for line in dead:
                os.pwrite(handle.fileno(), b"#", places.pop(line))

    def _opened(self, namespace: str) -> dict[str, int]:
        places = self._places.get(namespace)
        if places is None:
            path = self.path(namespace)
            self._folder.mkdir(parents=True, exist_ok=True)
            places = self._places[namespace] = self._known(path)
            self._sizes[namespace] = path.stat().st_size
        elif (size := self.path(namespace).stat().st_size) != self._sizes[namespace]:
            # A pod wrote there. What it added stays; after what it cut off, all is said anew.
            if size < self._sizes[namespace]:
                places.clear()
            _end_line(self.path(namespace))
            self._sizes[namespace] = self.path(namespace).stat().st_size
        return places

    def _append(self, namespace: str, descriptor: int, lines: Sequence[str]) -> None:
        if not lines:
            return
        places, end = self._places[namespace], self._sizes[namespace]
        data = "".join(f"{line}\n" for line in lines).encode()
        written = os.pwrite(descriptor, data, end)
        if written < len(data):
            # No room for the rest: half a line may name somebody else.
            os.ftruncate(descriptor, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path(namespace)))
        for line in lines:
            places[line] = end
            end += len(line.encode()) + 1
        self._sizes[namespace] = end

    def _rewrite(self, namespace: str, lines: Sequence[str]) -> None:
        path = self.path(namespace)
        path.write_bytes(b"")
        self._places[namespace], self._sizes[namespace] = {}, 0
        with path.open("r+b", buffering=0) as handle:
            self._append(namespace, handle.fileno(), lines)

    def _known(self, path: Path) -> dict[str, int]:
        """The living lines of a file that an engine before us left, or of a new one."""
        places: dict[str, int] = {}
        if not path.exists():
            path.touch(mode=0o644)
            return places
        # The machine may have gone down in the middle of a write.
        _end_line(path)
        content = path.read_bytes()
        offset = 0
        for line in content.splitlines(keepends=True):
            text = line.decode(errors="replace").rstrip("\n")
            if text and not text.startswith("#"):
                places[text] = offset
            offset += len(line)
        return places


def _end_line(path: Path) -> None:
    """What comes next begins a line of its own."""
    with path.open("r+b") as handle:
        if handle.seek(0, os.SEEK_END) and os.pread(handle.fileno(), 1, handle.tell() - 1) != b"\n":
            handle.write(b"\n")
