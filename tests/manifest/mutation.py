"""Random faults in valid manifests, repeatable from a seed.

Most mutations go where Jobyard's own fields are; the rest go into the pod templates.
Some results are still valid, which is the point: both verdicts have to be right.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from manifest.hostility import Hostility

# Not touched: they choose the URL of the request, so no API server ever validates them.
FIXED = {("apiVersion",), ("kind",), ("metadata", "namespace")}
FOREIGN: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 100, 101, 4999, 5000, 5001, 2**31 - 1, 2**31, -(2**31) - 1,
    2**53, 2**63 - 1, 2**63, 10**30, 0.5, 1.0, 2.5, -0.0, 1e18,
    "", " ", "x", "0", "1", "-1", "4", "gpu", "True", "worker", "Worker", "worker\n", "a_b", "-a",
    "a-", "a.b", "ä", "日本", "x" * 63, "x" * 64, "x" * 254, "/", "/root/.ssh", "/root/.ssh/id",
    "/t9k/hostfile", "/t9k/mnt", "500m", "1Gi", "1e3", "1Ki1", ".5", "5.", "+1", "0.5.1", "3w",
    "2h45m", "1ms", "3.5", "4.0", "1.19", "t9k://pvc/a/b", "t9k://pvc/", "--autotuning=run",
    "--module", "--rdzv_endpoint", "Always", "OnFailure", "Never", "ExitCode", "All", "None",
    "all", "c10d", "etcd", "etcd-v2", "chief", "ps", "master", "launcher", "RoleFailed", "NoAction",
    "mpi-worker", "tensorflow", "xgboost", "TCP", "$(rank)", "2026-01-31T12:00:00Z",
    [], [[]], [None], [0], ["a"], ["--module"], [{}], [{"name": "a"}], [{"type": "worker"}],
    {}, {"a": 1}, {"a": None}, {"worker": [0]}, {"worker": []}, {"nobody": [0]}, {"name": "x"},
    {"enabled": True}, {"enabled": False}, {"enable": True}, {"enable": True, "enabled": False},
    {"worker": ["0"]}, {"worker": ["7", 0]}, ["0"], {"creationTimestamp": None},
    {"spec": {"containers": []}}, {"": ""}, {"a": "b"},
    {"policy": "Always"}, {"t9kScheduler": {"priority": 101}}, {"debug": {"enabled": True}},
    {"enabled": True, "minReplicas": 2, "maxReplicas": 1, "expectedReplicas": 1},
    {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 2},
    {"enable": True, "minReplicas": 0, "maxReplicas": 4, "expectedReplicas": 2},
    {"enabled": False, "minReplicas": 3, "maxReplicas": 1, "expectedReplicas": 0},
)  # fmt: skip

Path = tuple[str | int, ...]


def paths(value: Any, prefix: Path = ()) -> list[Path]:
    """Every place below a value."""
    found: list[Path] = []
    if isinstance(value, dict):
        for key, item in value.items():
            found += [(*prefix, key), *paths(item, (*prefix, key))]
    elif isinstance(value, list):
        for n, item in enumerate(value):
            found += [(*prefix, n), *paths(item, (*prefix, n))]
    return found


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


class Mutator:
    """Draws mutated manifests from a pool of valid ones."""

    def __init__(self, manifests: list[dict[str, Any]], seed: int) -> None:
        self._random = random.Random(seed)
        self._hostility = Hostility(self._random)
        self._manifests = manifests
        # Values by the name of their field, to put what fits in one place into another.
        self._by_name: dict[str, list[Any]] = {}
        for manifest in manifests:
            for path in paths(manifest):
                if isinstance(path[-1], str):
                    self._by_name.setdefault(path[-1], []).append(at(manifest, path))

    def draw(self) -> dict[str, Any]:
        manifest = copy.deepcopy(self._random.choice(self._manifests))
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            self._mutate(manifest)
        return manifest

    def changed(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Another version of a manifest: its spec is mutated, or is as it was."""
        other = copy.deepcopy(manifest)
        for _ in range(self._random.choice((0, 1, 1, 1, 2))):
            self._mutate(other, below="spec")
        return other

    def pick(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _place(self, manifest: dict[str, Any], below: str | None) -> Path | None:
        places = [path for path in paths(manifest) if path not in FIXED]
        if below is not None:
            places = [path for path in places if path[0] == below and len(path) > 1]
        shallow = [path for path in places if "template" not in path]
        if shallow and self._random.random() < 0.7:
            places = shallow
        return self._random.choice(places) if places else None

    def _mutate(self, manifest: dict[str, Any], below: str | None = None) -> None:
        path = self._place(manifest, below)
        if path is None:
            return
        parent, last = at(manifest, path[:-1]), path[-1]
        change = self._random.choice(
            (self._drop, self._replace, self._replace, self._tweak, self._tweak, self._swap,
             self._repeat, self._rename, self._add, self._harm)
        )  # fmt: skip
        change(parent, last)

    def _drop(self, parent: Any, last: Any) -> None:
        del parent[last]

    def _replace(self, parent: Any, last: Any) -> None:
        parent[last] = copy.deepcopy(self._random.choice(FOREIGN))

    def _harm(self, parent: Any, last: Any) -> None:
        # Half of a pair is no character: Go makes of it what stands for none.
        text = self._hostility.text().encode("utf-16-le", "surrogatepass")
        parent[last] = text.decode("utf-16-le", "replace")

    def _swap(self, parent: Any, last: Any) -> None:
        names = self._by_name.get(last) if isinstance(last, str) else None
        pool = names or self._by_name[self._random.choice(list(self._by_name))]
        parent[last] = copy.deepcopy(self._random.choice(pool))

    def _repeat(self, parent: Any, last: Any) -> None:
        if isinstance(parent, list):
            times = self._random.choice((1, 1, 2, 20, 70))
            parent.extend(copy.deepcopy(parent[last]) for _ in range(times))
        else:
            self._add(parent, last)

    def _rename(self, parent: Any, last: Any) -> None:
        if isinstance(parent, dict):
            names = (f"{last}s", str(last).upper(), "x", "spec")
            # An older spelling is a name that the schemas know.
            older = ("enable",) if last == "enabled" else ()
            parent[self._random.choice((*names, *older, *older))] = parent.pop(last)

    def _add(self, parent: Any, last: Any) -> None:
        if isinstance(parent, dict):
            name = self._random.choice((*self._by_name, "unknownField"))
            pool = self._by_name.get(name, list(FOREIGN))
            if name not in ("apiVersion", "kind", "namespace") or parent.get("kind") is None:
                parent.setdefault(name, copy.deepcopy(self._random.choice(pool)))
        else:
            parent.append(copy.deepcopy(self._random.choice(FOREIGN)))

    def _tweak(self, parent: Any, last: Any) -> None:
        value = parent[last]
        if isinstance(value, bool):
            parent[last] = not value
        elif isinstance(value, int):
            parent[last] = value + self._random.choice((-value, -1, 1, 10, 1000, 5000))
        elif isinstance(value, str):
            end = self._random.choice(
                ("", "x", "\n", "-", "x" * 30, "x" * 60, "ä", ".", "/..", " ")
            )
            parent[last] = self._random.choice((value + end, end + value, value.upper(), value[1:]))
        else:
            self._replace(parent, last)
