"""GenericJob's variables: `$(rank)`, `$(service.worker[0].host)` and the others.

`$$(rank)` is Kubernetes' own escape and is left alone, and so is a `$(NAME)` that is
none of ours: Kubernetes expands it from the container's environment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from jobyard.api.genericjob import GenericJobSpec
from jobyard.api.parts.value import VARIABLE_BYTES_MAX
from jobyard.numerals import whole_number
from jobyard.schema.finding import Path

# An escaped `$$` is matched first, so that what follows it is not taken for a variable.
_REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)")
_REPLICAS = re.compile(r"^replicas\[([^\]]*)\]$")
_HOST = re.compile(r"^service\.([^.\[\]]+)\[([^\]]*)\]\.host$")
_PORT = re.compile(r"^service\.port\[([^\]]*)\]$")
_SHOWN_LENGTH_MAX = 100


_SHOWN = 64
_GROWN = f"grows to {VARIABLE_BYTES_MAX} bytes or more with its variables: Linux takes no more"


class UnresolvedVariableError(Exception):
    """One of our variables names something that isn't there; the text says what to add."""


class BadVariable(msgspec.Struct, frozen=True):
    """A variable that can't be resolved, where it stands, and what would make it right."""

    path: Path
    container: str
    text: str

    def __str__(self) -> str:
        return f"container {self.container}: {self.text}"


class Facts(msgspec.Struct, frozen=True):
    """What the variables of a job can refer to."""

    job: str
    replicas: Mapping[str, int]
    ports: Mapping[str, int] | None

    @classmethod
    def of(cls, name: str, spec: GenericJobSpec) -> Facts:
        return cls(
            name,
            {replica.type: replica.replicas for replica in spec.replica_specs},
            {p.get("name", ""): p["port"] for p in spec.ports} if spec.ports else None,
        )


def replaced(text: str, facts: Facts, type_: str, rank: int) -> str:
    """The text with our variables replaced; raises UnresolvedVariableError."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0]
        resolved = _resolved(name, facts, type_, rank)
        return match[0] if resolved is None else resolved

    return _REFERENCE.sub(value, text)


def _shown(name: str) -> str:
    """A name as messages have it: they go into a status, and a name may be of any length."""
    return name if len(name) <= _SHOWN_LENGTH_MAX else f"{name[:_SHOWN_LENGTH_MAX]}…"


def _resolved(name: str, facts: Facts, type_: str, rank: int) -> str | None:
    """The variable's value, or None if it isn't one of ours."""
    if name == "type":
        return type_
    if name == "rank":
        return str(rank)
    if found := _REPLICAS.match(name):
        return str(facts.replicas[_known_type(found[1], name, facts)])
    if found := _HOST.match(name):
        return _host(found[1], found[2], name, facts)
    if found := _PORT.match(name):
        return str(_ports(name, facts, found[1])[found[1]])
    return None


def _known_type(type_: str, name: str, facts: Facts) -> str:
    if type_ not in facts.replicas:
        raise UnresolvedVariableError(
            f"$({_shown(name)}): there is no replica type {_shown(type_)}; the job has"
            f" {', '.join(facts.replicas)}"
        )
    return type_


def _host(type_: str, rank: str, name: str, facts: Facts) -> str:
    _ports(name, facts, None)
    count = facts.replicas[_known_type(type_, name, facts)]
    number = whole_number(rank, count - 1)
    if number is None:
        raise UnresolvedVariableError(
            f"$({_shown(name)}): {type_} has the ranks 0 to {count - 1},"
            f" {_shown(rank) or 'nothing'} is not one"
        )
    return f"{facts.job}-{type_}-{number}"


def _ports(name: str, facts: Facts, wanted: str | None) -> Mapping[str, int]:
    if facts.ports is None:
        needed = f" with a port named {_shown(wanted)}" if wanted else ""
        raise UnresolvedVariableError(
            f"$({_shown(name)}): the job has no spec.service; add service.ports{needed}"
        )
    if wanted is not None and wanted not in facts.ports:
        raise UnresolvedVariableError(
            f"$({_shown(name)}): no service port is named {_shown(wanted)}; add it to"
            " spec.service.ports,"
            f" which has {', '.join(filter(None, facts.ports)) or 'no named port'}"
        )
    return facts.ports


def bad_variables(name: str, spec: GenericJobSpec) -> Iterator[BadVariable]:
    """Every text of the job with variables that can't be resolved, each cause once."""
    facts = Facts.of(name, spec)
    longest = max(facts.replicas, key=len)
    for path, container, text in _texts(spec):
        names = [match[1] for match in _REFERENCE.finditer(text) if match[1] is not None]
        served = [name for name in names if _HOST.match(name) or _PORT.match(name)]
        if facts.ports is None and served:
            yield BadVariable(path, container, _without_service(served))
            names = [name for name in names if name not in served]
        length = len(text)
        for name, count in Counter(names).items():
            try:
                found = _resolved(name, facts, longest, max(facts.replicas.values()) - 1)
                length += count * (len(found) - len(name) - 3) if found is not None else 0
            except UnresolvedVariableError as problem:
                yield BadVariable(path, container, str(problem))
        if len(text) < VARIABLE_BYTES_MAX <= length:
            yield BadVariable(path, container, f"{text[:_SHOWN]}… {_GROWN}")


def _without_service(names: list[str]) -> str:
    """One text for all variables that only `spec.service` could give a value."""
    ports = dict.fromkeys(found[1] for name in names if (found := _PORT.match(name)))
    others = len(dict.fromkeys(names)) - 1
    more = f" and {others} more" if others else ""
    named = f" with a port named {' and one named '.join(map(_shown, ports))}" if ports else ""
    return f"$({_shown(names[0])}){more}: the job has no spec.service; add service.ports{named}"


def _texts(job: GenericJobSpec) -> Iterator[tuple[Path, str, str]]:
    """Where variables are replaced: command, args and env of all containers, and overrides."""
    for n, spec in enumerate(job.replica_specs):
        pod = spec.template.get("spec", {})
        for listed in ("initContainers", "containers"):
            for m, container in enumerate(pod.get(listed, ())):
                path: Path = ("spec", "replicaSpecs", n, "template", "spec", listed, m)
                for place, text in _container_texts(container, path):
                    yield place, container.get("name", ""), text
    mode = job.run_mode
    overrides: list[tuple[Path, Any]] = []
    if mode is not None and mode.debug is not None and mode.debug.is_on:
        for n, debug in enumerate(mode.debug.replica_specs):
            overrides.append((("spec", "runMode", "debug", "replicaSpecs", n), debug))
    if mode is not None and mode.pause is not None:
        for n, resume in enumerate(mode.pause.resume_specs):
            overrides.append((("spec", "runMode", "pause", "resumeSpecs", n), resume))
    types = [spec.type for spec in job.replica_specs]
    for path, override in overrides:
        # What has no effect is no fault.
        for field in ("command", "args") if override.type in types else ():
            for n, text in enumerate(getattr(override, field, ())):
                yield (*path, field, n), f"of type {override.type}", text


def _container_texts(container: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    for field in ("command", "args"):
        for n, text in enumerate(container.get(field, ())):
            yield (*path, field, n), text
    for n, variable in enumerate(container.get("env", ())):
        if "value" in variable:
            yield (*path, "env", n, "value"), variable["value"]
