"""From typed values to structural schemas.

The types in `api` are the one source: names, bounds, defaults, enums, descriptions
and rules all come from there. This module only translates, once, what msgspec knows of
a type into the OpenAPI dialect of a CRD.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self, cast

import msgspec
from msgspec import inspect

from jobyard.schema.core import JSONSchema, core_schema
from jobyard.schema.rule import Rule

_INT32_MAX = 2**31 - 1


class Core(msgspec.Struct, frozen=True, kw_only=True):
    """Marks a field whose value is a type of Kubernetes itself.

    `required` and `rules` add to what is published: field names below the type's root,
    and rules by dotted path (`spec.containers.*.volumeMounts.*`). `spared` takes from it:
    dotted paths of lists that may be empty or absent here.
    """

    name: str
    required: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    rules: tuple[tuple[str, Rule], ...] = ()


def described(
    description: str | None = None,
    *,
    core: Core | None = None,
    rules: tuple[Rule, ...] = (),
    listed_by: str | None = None,
    date_time: bool = False,
    **bounds: Any,
) -> msgspec.Meta:
    """What a field's annotation says besides its type: one sentence, rules, bounds.

    `bounds` are msgspec's own: ge, le, min_length, max_length, pattern.
    """
    extra = {"core": core, "rules": rules, "listed_by": listed_by, "date_time": date_time}
    return msgspec.Meta(
        description=description,
        extra={key: value for key, value in extra.items() if value},
        **bounds,
    )


def derived(of: type[msgspec.Struct]) -> JSONSchema:
    """The structural schema of a type and of all that it holds."""
    return _schema(inspect.type_info(of))


def _schema(info: inspect.Type) -> JSONSchema:
    match info:
        case inspect.Metadata():
            return _annotated(info)
        case inspect.StructType():
            return _struct(info)
        case inspect.UnionType():
            # `X | None`: absent is None, and null in a manifest means absent.
            parts = [part for part in info.types if not isinstance(part, inspect.NoneType)]
            return _schema(parts[0]) if len(parts) == 1 else _int_or_string(parts)
        case inspect.VarTupleType():
            bounds = _present(minItems=info.min_length or None, maxItems=info.max_length)
            return {"type": "array", "items": _schema(info.item_type), **bounds}
        case inspect.DictType():
            bounds = _present(minProperties=info.min_length or None, maxProperties=info.max_length)
            return {
                "type": "object",
                "additionalProperties": _schema(info.value_type),
                **bounds,
            }
        case inspect.EnumType():
            return {"type": "string", "enum": _words(info.cls)}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            width = "int32" if info.le is not None and info.le <= _INT32_MAX else "int64"
            return {
                "type": "integer",
                "format": width,
                **_present(minimum=info.ge, maximum=info.le),
            }
        case inspect.StrType():
            return {
                "type": "string",
                **_present(
                    minLength=info.min_length, maxLength=info.max_length, pattern=info.pattern
                ),
            }
        case _:
            raise TypeError(f"no structural schema for {info}")


class Spelled(StrEnum):
    """A closed set of words, of which some have other spellings that are in use."""

    @classmethod
    def other_spellings(cls) -> Mapping[str, Self]:
        """What is taken for which word; an empty text is how Go writes that nobody has said one."""
        raise NotImplementedError

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls.other_spellings().get(value) if isinstance(value, str) else None


def _words(of: type) -> list[str]:
    words = [str(member) for member in cast("type[StrEnum]", of)]
    return [*words, *of.other_spellings()] if issubclass(of, Spelled) else words


def _int_or_string(parts: list[inspect.Type]) -> JSONSchema:
    """Kubernetes' one type that is two: a number, or the same as a text. Bounds are of each."""
    bounds: JSONSchema = {}
    for part in parts:
        said = _schema(part)
        assert said.pop("type") in ("integer", "string"), "no structural schema for this union"
        bounds |= said
    # Of texts there is no width to check.
    bounds.pop("format", None)
    return {"x-kubernetes-int-or-string": True, **bounds}


def _annotated(info: inspect.Metadata) -> JSONSchema:
    extra: Mapping[str, Any] = info.extra or {}
    core = cast("Core | None", extra.get("core"))
    out = _core(core) if core else _schema(info.type)
    description = (info.extra_json_schema or {}).get("description")
    if description:
        # The field's own sentence says more than the one at its type.
        out = {"description": description} | out | {"description": description}
    if "date_time" in extra:
        out["format"] = "date-time"
    if "listed_by" in extra:
        out |= {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [extra["listed_by"]],
        }
    if "rules" in extra:
        out["x-kubernetes-validations"] = [rule.manifest() for rule in extra["rules"]]
    return out


def _struct(info: inspect.StructType) -> JSONSchema:
    rules: tuple[Rule, ...] = getattr(info.cls, "RULES", ())
    out: JSONSchema = {"type": "object"}
    if info.cls.__doc__:
        out["description"] = summary(info.cls)
    required = [field.encode_name for field in info.fields if field.required]
    if required:
        out["required"] = required
    # What a type says itself comes before what it has from its bases.
    own = info.cls.__annotations__
    fields = sorted(info.fields, key=lambda field: field.name not in own)
    out["properties"] = {field.encode_name: _field(field) for field in fields}
    if getattr(info.cls, "WRITES_NULLS", False):
        # An API server keeps only those that it is told of.
        for field in fields:
            if _may_be_null(field.type):
                out["properties"][field.encode_name]["nullable"] = True
    if rules:
        out["x-kubernetes-validations"] = [rule.manifest() for rule in rules]
    return out


def _field(field: inspect.Field) -> JSONSchema:
    out = _schema(field.type)
    default = field.default
    if default is msgspec.NODEFAULT or default is None or default == ():
        return out
    if isinstance(default, StrEnum):
        return out | {"default": str(default)}
    if isinstance(default, msgspec.Struct):
        # Its own fields' defaults do the rest, on the API server too.
        return out | {"default": {}}
    return out | {"default": default}


def _may_be_null(info: inspect.Type) -> bool:
    """Whether it is `X | None`; of an enum the API server would want null among its words."""
    if isinstance(info, inspect.Metadata):
        return _may_be_null(info.type)
    if not isinstance(info, inspect.UnionType):
        return False
    return not any(isinstance(part, inspect.EnumType) for part in info.types)


def _core(core: Core) -> JSONSchema:
    schema = core_schema(core.name)
    if core.required:
        schema = {**schema, "required": sorted({*schema.get("required", ()), *core.required})}
    for path in core.spared:
        schema = _sparing(schema, path.split("."))
    for path, rule in core.rules:
        schema = _with_rule(schema, path.split(".") if path else [], rule)
    return dict(schema)


def _sparing(schema: JSONSchema, steps: list[str]) -> JSONSchema:
    step, rest = steps[0], steps[1:]
    sub = schema["properties"][step]
    if rest:
        return {**schema, "properties": schema["properties"] | {step: _sparing(sub, rest)}}
    free = {key: value for key, value in sub.items() if key != "minItems"}
    out = {**schema, "properties": schema["properties"] | {step: free}}
    required = [name for name in out.pop("required", ()) if name != step]
    return {**out, **_present(required=required or None)}


def _with_rule(schema: JSONSchema, steps: list[str], rule: Rule) -> JSONSchema:
    if not steps:
        rules = [*schema.get("x-kubernetes-validations", ()), rule.manifest()]
        return {**schema, "x-kubernetes-validations": rules}
    step, rest = steps[0], steps[1:]
    if step == "*":
        return {**schema, "items": _with_rule(schema["items"], rest, rule)}
    sub = _with_rule(schema["properties"][step], rest, rule)
    return {**schema, "properties": schema["properties"] | {step: sub}}


def summary(of: type) -> str:
    """The first paragraph of a type's docstring, on one line."""
    return " ".join((of.__doc__ or "").strip().split("\n\n")[0].split())


def _present(**keywords: Any) -> JSONSchema:
    return {key: value for key, value in keywords.items() if value is not None}
