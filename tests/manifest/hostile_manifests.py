"""Manifests with such values in them that `hostility` draws."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from manifest.hostility import Hostility, Raw
from manifest.mutation import FIXED, Path, at, paths


class HostileMutator:
    """Draws manifests with one or two such values in them, as texts."""

    def __init__(self, manifests: list[dict[str, Any]], seed: int) -> None:
        self._dice = random.Random(seed)
        self._values = Hostility(self._dice)
        self._manifests = manifests
        # How many were drawn.
        self.count = 0

    def draw(self) -> str:
        """JSON."""
        manifest = copy.deepcopy(self._dice.choice(self._manifests))
        for _ in range(self._dice.choice((1, 1, 2))):
            self._mutate(manifest)
        return dumped(manifest)

    def taken(self) -> dict[str, Any]:
        """One with texts alone, which an API server is likelier to take."""
        self.count += 1
        manifest = copy.deepcopy(self._dice.choice(self._manifests))
        for _ in range(self._dice.choice((1, 1, 2))):
            match self._dice.randrange(6):
                case 0:
                    self._stretch(manifest)
                case 1 | 2:
                    self._ask_for(manifest)
                case _:
                    self._put(manifest, self._values.text(), of=str)
        return manifest

    def _ask_for(self, manifest: dict[str, Any]) -> None:
        """Amounts and arguments of a container, which the controller itself reads."""
        boxes = [
            box
            for path in paths(manifest)
            if isinstance(box := at(manifest, path), dict) and "image" in box and "name" in box
        ]
        if not boxes:
            return
        box = self._dice.choice(boxes)
        name = self._dice.choice(("cpu", "memory", "nvidia.com/gpu"))
        amounts = {name: self._values.amount()}
        requests = {name: self._values.amount()} if self._dice.random() < 0.5 else amounts
        box["resources"] = {"limits": amounts, "requests": requests}
        arguments = [
            "-N",
            self._values.digits(),
            f"$(service.worker[{self._values.digits()}].host)",
        ]
        worker = (manifest.get("spec") or {}).get("worker")
        if manifest.get("kind") == "MPIJob" and isinstance(worker, dict):
            worker["extraMPIArgs"] = arguments
        elif self._dice.random() < 0.5:
            box["args"] = arguments

    def _stretch(self, manifest: dict[str, Any]) -> None:
        """A number as large as it may be; not of replicas, which would have to be made."""
        places = [
            path
            for path in paths(manifest)
            if isinstance(at(manifest, path), int) and "eplicas" not in str(path[-1])
        ]
        if places:
            path = self._dice.choice(places)
            at(manifest, path[:-1])[path[-1]] = self._dice.choice((0, 2**31 - 1, 2**53, 2**63 - 1))

    def _mutate(self, manifest: dict[str, Any]) -> None:
        metadata = manifest.get("metadata")
        if isinstance(metadata, dict) and self._dice.random() < 0.1:
            metadata["managedFields"] = [{"fieldsV1": self._values.depth()}]
        else:
            self._put(manifest, self._values.value())

    def _put(self, manifest: dict[str, Any], value: Any, of: type | None = None) -> None:
        places = [path for path in paths(manifest) if path not in FIXED]
        if of is not None:
            places = [path for path in places if isinstance(at(manifest, path), of)]
        path: Path = self._dice.choice(places)
        parent, last = at(manifest, path[:-1]), path[-1]
        if isinstance(parent, dict) and self._dice.random() < 0.1 and isinstance(value, str):
            # As a name of a field, such as a label's or a resource's.
            parent[value] = parent[last]
        elif isinstance(parent, list) and self._dice.random() < 0.3:
            parent.insert(self._dice.randrange(len(parent) + 1), value)
        else:
            parent[last] = value


def dumped(value: Any) -> str:
    """JSON text; raw parts stand in it as they are, however deep they go."""
    parts: list[str] = []

    def marked(found: Any) -> Any:
        match found:
            case Raw():
                parts.append(found.text)
                return f"<raw {len(parts) - 1}>"
            case dict():
                return {key: marked(item) for key, item in found.items()}
            case list():
                return [marked(item) for item in found]
        return found

    text = json.dumps(marked(value))
    for number, part in enumerate(parts):
        text = text.replace(f'"<raw {number}>"', part)
    return text
