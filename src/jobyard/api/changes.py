"""What may change in a job that exists, and when, as CEL rules.

Some fields at any time, some never, and the rest only while no pod depends on them: in a
job whose status says that it is paused, or that it could not be initialized. That a pause is
asked for is not enough: pods may still run. A finished job stays as it is.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from jobyard.api.parts.run_mode import Elastic, Switch, on
from jobyard.api.parts.tensorboard import TensorboardSpec
from jobyard.schema.rule import Rule

_NEVER = "can't be changed once the job exists; make a new job"
_WHILE_PAUSED = (
    "can be changed only while the job is paused: set spec.runMode.pause.enabled to true and wait"
    " until status.phase is Paused"
)

# What a person may set while a job runs; all else is fixed once pods exist.
_FREE = {"runMode", "runPolicy", "elastic", "cleanUpPolicy", "ttlSecondsAfterFinished"}
# A TensorBoard is no replica: it may be suspended at any time, also after the end.
_BOARD = "tensorboardSpec"
_BOARD_FREE = {"suspend", "runMode"}
_FINISHED = (
    "has(oldSelf.status) && has(oldSelf.status.phase)"
    " && oldSelf.status.phase in ['Succeeded', 'Failed']"
)
_PAUSED = (
    "has(oldSelf.spec.runMode) && has(oldSelf.spec.runMode.pause)"
    f" && {on('oldSelf.spec.runMode.pause')}"
    # Without a status nobody has made a pod yet: the first one is announced there.
    " && (!has(oldSelf.status) || !has(oldSelf.status.phase)"
    " || oldSelf.status.phase == 'Paused')"
)
_NOT_INITIALIZED = (
    "has(oldSelf.status) && has(oldSelf.status.conditions)"
    " && oldSelf.status.conditions.exists(c, c.type == 'Initialized' && c.status == 'False'"
    # Where only a quota is full, pods may run.
    " && (!has(c.reason) || c.reason != 'QuotaExceeded'))"
)
_OPEN = f"(({_PAUSED}) || (!({_FINISHED}) && {_NOT_INITIALIZED}))"


def _same(path: str) -> str:
    """A field is what it was, absent included.

    Spelled out with `has`: the cost estimate loses all bounds in an optional.
    """
    new, old = _present(f"self.{path}"), _present(f"oldSelf.{path}")
    return f"({new}) == ({old}) && (!({new}) || self.{path} == oldSelf.{path})"


def _same_switch(path: str) -> str:
    """A switch is on as it was, in either spelling; absent is off."""
    new, old = f"self.{path}", f"oldSelf.{path}"
    return f"(has({new}) && {on(new)}) == (has({old}) && {on(old)})"


def _present(path: str) -> str:
    """CEL for whether an optional field below `spec`, which is required, is there."""
    steps = path.split(".")
    return " && ".join(f"has({'.'.join(steps[:end])})" for end in range(3, len(steps) + 1))


_SAME_TYPES = Rule(
    cel="has(self.spec.replicaSpecs) == has(oldSelf.spec.replicaSpecs)"
    " && (!has(self.spec.replicaSpecs) || self.spec.replicaSpecs.map(r, r.type)"
    " == oldSelf.spec.replicaSpecs.map(r, r.type))",
    message="the types of a job, and their order, can't be changed once it exists; make a new job",
    field=".spec.replicaSpecs",
)


def held_fields(spec: msgspec.Struct) -> dict[str, object]:
    """What of a spec is fixed once pods exist, as far as it isn't as by default."""
    given: dict[str, Any] = _given(spec)
    out = {name: value for name, value in given.items() if name not in _FREE}
    debug = given.get("runMode", {}).get("debug", {})
    if "replicaSpecs" in debug:
        out["runMode.debug.replicaSpecs"] = debug["replicaSpecs"]
    elastic = getattr(spec, "elastic", None)
    if isinstance(elastic, Elastic) and elastic.is_on:
        out["elastic.enabled"] = True
    board = {k: v for k, v in out.pop(_BOARD, {}).items() if k not in _BOARD_FREE}
    return {**out, _BOARD: board} if board else out


def _given(value: Any) -> Any:
    """As JSON, without what is as by default.

    msgspec leaves defaults out too, but only those that are the same object as the default.
    """
    if isinstance(value, Switch):
        # Both spellings are the same to a pod, and so are off and absent.
        value = msgspec.structs.replace(value, enabled=value.is_on or None, enable=None)
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _given(found)
            for field in _fields(type(value))
            if (found := getattr(value, field.name)) != field.default
        }
    if isinstance(value, list | tuple):
        return [_given(each) for each in value]
    return value


@functools.cache
def _fields(type_: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """msgspec evaluates all annotations anew whenever it is asked, which takes milliseconds."""
    return msgspec.structs.fields(type_)


def change_rules(spec: type[msgspec.Struct], *, can_pause: bool = True) -> tuple[Rule, ...]:
    """What may change after creation, as rules at the root of a kind with this spec.

    They stand at the root because a transition rule on an absent field isn't run, and
    because only the root sees the old status.
    """
    names = [field.encode_name for field in msgspec.structs.fields(spec)]
    never = ["spec.runMode.pause.resumeSpecs"] if "runMode" in names else []
    held = [f"spec.{name}" for name in names if name not in _FREE]
    if "runMode" in names:
        held.append("spec.runMode.debug.replicaSpecs")
    if "elastic" in names:
        never += ["spec.elastic.minReplicas", "spec.elastic.maxReplicas"]
        held.append("spec.elastic.enabled")
    types = (_SAME_TYPES,) if "replicaSpecs" in names else ()
    told = _WHILE_PAUSED if can_pause else _NEVER
    return (
        *(Rule(cel=_same(path), message=_NEVER, field=f".{path}") for path in never),
        *(Rule(cel=_held(path), message=told, field=f".{path}") for path in held),
        *types,
    )


def _held(path: str) -> str:
    """The field is what it was, unless the job is open to changes."""
    if path == f"spec.{_BOARD}":
        names = [field.encode_name for field in msgspec.structs.fields(TensorboardSpec)]
        same = " && ".join(_same(f"{path}.{name}") for name in names if name not in _BOARD_FREE)
        return f"({same}) || {_OPEN}"
    same = _same_switch("spec.elastic") if path == "spec.elastic.enabled" else _same(path)
    cel = f"({same}) || {_OPEN}"
    # Other types are refused by a rule of their own: pausing wouldn't help there.
    return f"{cel} || !({_SAME_TYPES.cel})" if path == "spec.replicaSpecs" else cel
