"""How a job runs: at once, debug, paused, elastic.

Every kind's schema knows every mode, since an API server drops fields that a schema
doesn't know without a word; the kinds that lack one refuse it by name
(`rules.lacking`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.value import REPLICAS_MAX, TYPES_MAX, Arguments, Name, Value
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule, formatted, unique_by


class Mode(StrEnum):
    """The run modes a kind can have besides running at once."""

    DEBUG = "debug"
    PAUSE = "pause"
    ELASTIC = "elastic"


class DebugReplica(Value):
    """What the replicas of one type do in debug mode."""

    type: Annotated[Name, described("The replica type this applies to.")]
    command: Annotated[
        Arguments,
        described("What the main container runs instead of its own command; sleeps if absent."),
    ] = ()
    skip_init_container: Annotated[bool, described("Leaves the init containers out when true.")] = (
        False
    )


class Debug(Value):
    """The whole environment is deployed, but the program is not started."""

    enabled: Annotated[bool, described("Whether the job is in debug mode.")] = False
    replica_specs: Annotated[
        tuple[DebugReplica, ...],
        described(
            "Overrides by replica type; types not listed sleep.",
            max_length=TYPES_MAX,
            rules=(unique_by("type", "type"),),
        ),
    ] = ()


class ResumeReplica(Value):
    """How the replicas of one type start after a pause."""

    type: Annotated[Name, described("The replica type this applies to.")]
    command: Annotated[
        Arguments, described("Replaces the template's command once the job has been resumed.")
    ] = ()
    args: Annotated[
        Arguments, described("Replaces the template's args once the job has been resumed.")
    ] = ()
    skip_init_container: Annotated[
        bool, described("Leaves the init containers out after a pause when true.")
    ] = False


class Pause(Value):
    """No replicas exist while the job is paused."""

    enabled: Annotated[bool, described("Whether the job is paused.")] = False
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


Replicas = Annotated[int, described(ge=1, le=REPLICAS_MAX)]


class ElasticFields(Value):
    """The number of replicas may change while the job runs."""

    enabled: Annotated[bool, described("Whether the job is elastic.")] = False
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


class Elastic(ElasticFields):
    """The number of replicas may change while the job runs."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!self.enabled || (has(self.minReplicas) && has(self.maxReplicas)"
            " && has(self.expectedReplicas))",
            message="an elastic job needs minReplicas, maxReplicas and expectedReplicas",
        ),
        Rule(
            cel="!has(self.minReplicas) || !has(self.maxReplicas)"
            " || self.minReplicas <= self.maxReplicas",
            message="minReplicas must not be above maxReplicas",
            message_cel=formatted(
                "is %s; must be at most %s, which is maxReplicas",
                "self.minReplicas",
                "self.maxReplicas",
            ),
            field=".minReplicas",
        ),
        Rule(
            cel="!has(self.expectedReplicas) || !has(self.minReplicas) || !has(self.maxReplicas)"
            " || self.minReplicas > self.maxReplicas"
            " || (self.minReplicas <= self.expectedReplicas"
            " && self.expectedReplicas <= self.maxReplicas)",
            message="expectedReplicas must be from minReplicas to maxReplicas",
            message_cel=formatted(
                "is %s; must be from %s to %s (minReplicas to maxReplicas)",
                "self.expectedReplicas",
                "self.minReplicas",
                "self.maxReplicas",
            ),
            field=".expectedReplicas",
        ),
        Rule(
            cel="!has(self.expectedReplicas) || self.enabled",
            message="expectedReplicas counts only in an elastic job: set elastic.enabled to true",
            field=".expectedReplicas",
        ),
    )
