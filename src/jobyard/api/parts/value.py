"""The base of every typed value, and the field types that several kinds share."""

from __future__ import annotations

from typing import Annotated, Any, dataclass_transform

import msgspec

from jobyard.schema import core
from jobyard.schema.derive import Core, described
from jobyard.schema.rule import Rule, unique_by

# Bounds. CEL's cost estimate works with them, so they are part of the API.
REPLICAS_MAX = 5000
TYPES_MAX = 16
ARGUMENTS_MAX = 1024
ARGUMENT_LENGTH_MAX = 131072  # what Linux takes as one argument
# What Linux takes as one variable of an environment, with its name and the byte at its end.
VARIABLE_BYTES_MAX = 131072
PATH_LENGTH_MAX = 1024
DNS_LABEL = core.DNS_LABEL
DNS_LABEL_LENGTH_MAX = core.DNS_LABEL_LENGTH_MAX
INT32_MAX = 2**31 - 1


class _ValueMeta(msgspec.StructMeta):
    """Makes every subclass keyword-only, which msgspec alone does not inherit."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> type:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, **options})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, metaclass=_ValueMeta, frozen=True, rename="camel", omit_defaults=True):
    """A frozen value; camelCase in JSON, snake_case here, translated nowhere else."""


JSON = Any
Name = Annotated[str, described(pattern=DNS_LABEL, min_length=1, max_length=DNS_LABEL_LENGTH_MAX)]
Argument = Annotated[str, described(max_length=ARGUMENT_LENGTH_MAX)]
Arguments = Annotated[tuple[Argument, ...], described(max_length=ARGUMENTS_MAX)]
# Empty is as good as absent: that is how Go writes a path that nobody has given.
AbsolutePath = Annotated[str, described(pattern="^(/|$)", max_length=PATH_LENGTH_MAX)]
Timestamp = Annotated[str, described(date_time=True)]
Count = Annotated[int, described(ge=0, le=INT32_MAX)]
Quantity = Annotated[JSON, described(core=Core(name=core.QUANTITY_NAME))]
Quantities = dict[str, Quantity]

_UNIQUE_CONTAINERS = unique_by("name", "container name")


def pod_template(
    *, may_be_empty: bool = False, rules: tuple[tuple[str, Rule], ...] = ()
) -> msgspec.Meta:
    """Marks a field as a whole core/v1 PodTemplateSpec, with rules at paths below it."""
    return described(
        core=Core(
            name=core.POD_TEMPLATE,
            required=() if may_be_empty else ("spec",),
            spared=("spec.containers",) if may_be_empty else (),
            rules=(("spec.containers", _UNIQUE_CONTAINERS), *rules),
        )
    )


def _core_value(name: str) -> msgspec.Meta:
    return described(core=Core(name=name))


# JSON as it came: the fields of a pod are Kubernetes' business and pass through untouched.
PodTemplate = Annotated[dict[str, JSON], pod_template()]
PodTemplateOrEmpty = Annotated[dict[str, JSON], pod_template(may_be_empty=True)]
JobTemplate = Annotated[
    dict[str, JSON], described(core=Core(name=core.JOB_TEMPLATE, required=("spec",)))
]
Resources = Annotated[dict[str, JSON], _core_value(core.RESOURCES)]
EnvVar = Annotated[dict[str, JSON], _core_value(core.ENV_VAR)]
ServicePort = Annotated[dict[str, JSON], _core_value(core.SERVICE_PORT)]
LabelSelector = Annotated[dict[str, JSON], _core_value(core.LABEL_SELECTOR)]


class ObjectMeta(Value):
    """What Jobyard reads of an object's metadata; the rest of it is Kubernetes' own."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Resource(Value):
    """The part that every object has."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
