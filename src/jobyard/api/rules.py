"""CEL rules that several kinds share, built from the names that differ.

Each returns the rule as a value; the kinds list them beside their types. Rules are
kept cheap for the API server's estimate: what repeats is hoisted out of loops.
"""

from __future__ import annotations

from jobyard.api.parts.run_mode import Mode, on
from jobyard.api.parts.value import DNS_LABEL_LENGTH_MAX, REPLICAS_MAX, VARIABLE_BYTES_MAX
from jobyard.schema.rule import Rule, formatted, unique_by

_DNS_1035 = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

JOB_NAME = Rule(
    cel=f"self.metadata.name.matches('{_DNS_1035}')",
    message="the name must start with a letter and hold only lower-case letters, digits and '-',"
    " such as train-1: the job's services are named after it",
    field=".metadata.name",
)

UNIQUE_TYPES = unique_by("type", "type")

REPLICAS_IN_ALL = Rule(
    cel=f"self.map(r, r.replicas).sum() <= {REPLICAS_MAX}",
    message=f"a job has at most {REPLICAS_MAX} replicas in all",
    message_cel=formatted(
        f"the job has %s replicas in all; at most {REPLICAS_MAX} are possible",
        "self.map(r, r.replicas).sum()",
    ),
)

# `type` of each entry of `replicaSpecs`, as CEL that yields a list of strings.
LISTED_TYPES = "self.replicaSpecs.map(r, r.type)"


def guarded(path: str, cel: str) -> str:
    """`cel`, or true where `path` (`self.runMode.debug`) or a part of it is absent."""
    steps = path.split(".")
    absent = [f"!has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1)]
    return " || ".join([*absent, cel])


def quoted(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def lacking(kind: str, *modes: Mode) -> tuple[Rule, ...]:
    """Refuses, by name, the run modes that a kind doesn't have."""
    return tuple(_lacks(kind, mode) for mode in modes)


def _lacks(kind: str, mode: Mode) -> Rule:
    path = "elastic" if mode is Mode.ELASTIC else f"runMode.{mode}"
    return Rule(
        cel=guarded(f"self.{path}", f"!{on(f'self.{path}')}"),
        message=f"{kind} has no {mode} mode; remove spec.{path}",
        field=f".{path}",
    )


def named_container(*names: str) -> Rule:
    """A list of containers holds one of these names."""
    wanted = " or ".join(names)
    return Rule(
        cel=f"self.exists(c, c.name in {quoted(names)})",
        message=f"one container must be named {wanted}: it runs the job's program",
        message_cel=formatted(
            f"the containers are named %s; one must be named {wanted}: it runs the job's program",
            "self.map(c, c.name)",
        ),
    )


def digits(count: str) -> str:
    """CEL for how many digits the last of `count` ranks has."""
    return f"({count} > 1000 ? 4 : {count} > 100 ? 3 : {count} > 10 ? 2 : 1)"


def digits_in_all(count: str) -> str:
    """CEL for how many digits all ranks have together: 10 for ten of them, 190 for a hundred."""
    more = (f"({count} > {ten} ? {count} - {ten} : 0)" for ten in (10, 100, 1000))
    return f"({count} + {' + '.join(more)})"


def variable_fits(name: str, size: str, most: str) -> Rule:
    """The variable `name`, in which every replica stands, isn't longer than Linux takes.

    `size` is CEL for the bytes of its value, and `most` for the number of replicas that fit.
    """
    limit = VARIABLE_BYTES_MAX - len(f"{name}=") - 1
    return Rule(
        cel=f"{size} <= {limit}",
        message=f"{name} would have more bytes than Linux takes: use fewer replicas, or a shorter"
        " name",
        message_cel=formatted(
            f"{name} names all replicas and would have %s bytes; at most {limit} are possible, and"
            " with this name that is %s replicas: use fewer, or a shorter name",
            size,
            most,
        ),
        field=".spec.replicaSpecs",
    )


def most_replicas(budget: str, each: str) -> str:
    """CEL for how many replicas fit into a budget of bytes, each with so many and its rank's.

    Names are short enough for more than a thousand; those have ranks of four digits.
    """
    return f"({budget} + 1110) / ({each} + 4)"


def pod_name_length(entries: str, infix: str, replicas: str) -> Rule:
    """No pod `<job>-<infix>-<rank>` gets a name longer than a host name may be.

    `entries` is CEL for the list to look at; `infix` and `replicas` are CEL for what is
    read of each entry `r`. Lengths are added up, since the API server's estimate takes the
    text of a number to be endless.
    """
    length = f"size(self.metadata.name) + size({infix}) + {digits(replicas)} + 2"
    limit = DNS_LABEL_LENGTH_MAX
    told = formatted(
        f"pod %s-%s-%s would have a name of %s characters; at most {limit} are possible:"
        " shorten the name",
        "self.metadata.name",
        infix,
        f"{replicas} - 1",
        length,
    )
    return Rule(
        cel=f"{entries}.all(r, {length} <= {limit})",
        message=f"a pod's name would have more than {limit} characters: shorten the name",
        message_cel=f"{entries}.filter(r, {length} > {limit}).map(r, {told})[0]",
        field=".metadata.name",
    )


def name_with_suffix(suffix: str, when: str = "true") -> Rule:
    """The one pod `<job><suffix>` can have its name."""
    limit = DNS_LABEL_LENGTH_MAX
    longest = limit - len(suffix)
    return Rule(
        cel=f"!({when}) || size(self.metadata.name) <= {longest}",
        message=f"the name must have at most {longest} characters, so that pod <name>{suffix}"
        f" stays within {limit}: shorten the name",
        message_cel=formatted(
            f"pod %s{suffix} would have a name of %s characters; at most {limit} are possible:"
            " shorten the name",
            "self.metadata.name",
            f"size(self.metadata.name) + {len(suffix)}",
        ),
        field=".metadata.name",
    )
