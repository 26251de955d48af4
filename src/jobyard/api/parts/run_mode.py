"""How a job runs: at once, debug, paused, elastic.

Every kind's schema knows every mode, since an API server drops fields that a schema
doesn't know without a word; the kinds that lack one refuse it by name
(`rules.lacking`).

Whether a mode is on has two spellings, `enabled` and the older `enable`. Whoever asks takes
`Switch.is_on` or, in a rule, `on`; whoever writes takes `spelling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from jobyard.api.parts.value import DNS_LABEL_LENGTH_MAX, REPLICAS_MAX, TYPES_MAX, Arguments, Value
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule, formatted, unique_by


class Mode(StrEnum):
    """The run modes a kind can have besides running at once."""

    DEBUG = "debug"
    PAUSE = "pause"
    ELASTIC = "elastic"


class Switch(Value):
    """Something that is on or off. Where both spellings stand, `enabled` counts."""

    # No default in the schema: an API server would write it beside the other spelling, and it
    # would count.
    enabled: Annotated[bool | None, described("Whether it is on; absent: it is off.")] = None
    enable: Annotated[
        bool | None,
        described("The older spelling of enabled; has no effect beside it."),
    ] = None

    @property
    def is_on(self) -> bool:
        return bool(self.enable) if self.enabled is None else self.enabled


def on(path: str) -> str:
    """CEL for whether the switch at `path`, which is there, is on."""
    return f"(has({path}.enabled) ? {path}.enabled : has({path}.enable) && {path}.enable)"


def spelling(block: Mapping[str, Any]) -> str:
    """The field of a stored switch that counts, so that who turns it writes that one."""
    return "enable" if "enable" in block and "enabled" not in block else "enabled"


def is_on(block: Mapping[str, Any] | None) -> bool:
    """Whether a stored switch is on."""
    return block is not None and bool(block.get(spelling(block)))


# A type that the job doesn't have is told as a warning, so any word is taken.
OverriddenType = Annotated[
    str,
    described(
        "The replica type this applies to; one that the job doesn't have has no effect.",
        max_length=DNS_LABEL_LENGTH_MAX,
    ),
]


_ALONE = "self.replicaSpecs.exists_one(b, b.type == a.type)"


class DebugReplica(Value):
    """What the replicas of one type do in debug mode."""

    type: OverriddenType
    command: Annotated[
        Arguments,
        described("What the main container runs instead of its own command; sleeps if absent."),
    ] = ()
    skip_init_container: Annotated[bool, described("Leaves the init containers out when true.")] = (
        False
    )


class Debug(Switch):
    """The whole environment is deployed, but the program is not started."""

    enabled: Annotated[
        bool | None, described("Whether the job is in debug mode; absent: it isn't.")
    ] = None
    replica_specs: Annotated[
        tuple[DebugReplica, ...],
        described(
            "Overrides by replica type; types not listed sleep.",
            max_length=TYPES_MAX,
        ),
    ] = ()

    # Of a mode that is off nothing has an effect, so nothing is a fault either.
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!{on('self')} || !has(self.replicaSpecs) || self.replicaSpecs.all(a, {_ALONE})",
            message="each type must be unique",
            message_cel=formatted(
                "type %s is listed more than once; each must be unique",
                f"self.replicaSpecs.filter(a, !{_ALONE})[0].type",
            ),
            field=".replicaSpecs",
        ),
    )


class ResumeReplica(Value):
    """How the replicas of one type start after a pause."""

    type: OverriddenType
    command: Annotated[
        Arguments, described("Replaces the template's command once the job has been resumed.")
    ] = ()
    args: Annotated[
        Arguments, described("Replaces the template's args once the job has been resumed.")
    ] = ()
    skip_init_container: Annotated[
        bool, described("Leaves the init containers out after a pause when true.")
    ] = False


class Pause(Switch):
    """No replicas exist while the job is paused."""

    enabled: Annotated[bool | None, described("Whether the job is paused; absent: it isn't.")] = (
        None
    )
    resume_specs: Annotated[
        tuple[ResumeReplica, ...],
        described(
            "How each type starts after a pause; can't be changed once the job exists.",
            max_length=TYPES_MAX,
            rules=(unique_by("type", "type"),),
        ),
    ] = ()


class RunMode(Value):
    """How the job runs; absent, it runs at once."""

    debug: Annotated[
        Debug | None, described("Deploys the environment without starting the program.")
    ] = None
    pause: Annotated[Pause | None, described("Takes all replicas away until it is set back.")] = (
        None
    )


# From 0, which is how some programs write what nobody has set; an elastic job needs more.
Replicas = Annotated[int, described(ge=0, le=REPLICAS_MAX)]


class Elastic(Switch):
    """The number of replicas may change while the job runs."""

    enabled: Annotated[bool | None, described("Whether the job is elastic; absent: it isn't.")] = (
        None
    )
    min_replicas: Annotated[
        Replicas | None, described("The fewest replicas the job can work with; never changes.")
    ] = None
    max_replicas: Annotated[
        Replicas | None, described("The most replicas the job may have; never changes.")
    ] = None
    expected_replicas: Annotated[
        Replicas | None,
        described("How many replicas there should be now; may change at any time."),
    ] = None


def elastic_rules(counts: str) -> tuple[Rule, ...]:
    """What the numbers of an elastic job must be, as rules at its spec.

    `counts` is CEL for whether `elastic` has an effect. Where it has none, any numbers do.
    """
    elastic = "self.elastic"
    least, most, wanted = (
        f"{elastic}.{name}" for name in ("minReplicas", "maxReplicas", "expectedReplicas")
    )
    given = " && ".join(f"has({each}) && {each} > 0" for each in (least, most, wanted))
    return (
        Rule(
            cel=f"!{counts} || (has({least}) && has({most}) && has({wanted}))",
            message="an elastic job needs minReplicas, maxReplicas and expectedReplicas",
            field=".elastic",
        ),
        *(
            Rule(
                cel=f"!{counts} || !has({each}) || {each} > 0",
                message="is 0; must be at least 1 in an elastic job",
                field=each.removeprefix("self"),
            )
            for each in (least, most, wanted)
        ),
        Rule(
            cel=f"!{counts} || !({given}) || {least} <= {most}",
            message="minReplicas must not be above maxReplicas",
            message_cel=formatted("is %s; must be at most %s, which is maxReplicas", least, most),
            field=".elastic.minReplicas",
        ),
        Rule(
            cel=f"!{counts} || !({given}) || {least} > {most}"
            f" || ({least} <= {wanted} && {wanted} <= {most})",
            message="expectedReplicas must be from minReplicas to maxReplicas",
            message_cel=formatted(
                "is %s; must be from %s to %s (minReplicas to maxReplicas)", wanted, least, most
            ),
            field=".elastic.expectedReplicas",
        ),
        Rule(
            # Else `kubectl scale` would say that it scaled a job in which nothing happens.
            cel=f"{counts} || !has({elastic}) || !has({wanted}) || (has(oldSelf.elastic)"
            " && has(oldSelf.elastic.expectedReplicas)"
            f" && {wanted} == oldSelf.elastic.expectedReplicas)",
            message="can't be changed in a job that isn't elastic: it would have no effect",
            field=".elastic.expectedReplicas",
        ),
    )
