"""What a table of wrong manifests is made of, and the words in which bounds are told.

A rule's message is the same on the API server and offline, since both evaluate the same
CEL. What the schema alone refuses is told by Kubernetes' own texts there and by ours
here; the functions below give both, so that a row says only what is right.
"""

from dataclasses import dataclass

import yaml

from api.wrong_manifests.edits import Edit, Manifest

Change = Edit | tuple[Edit, ...]

# Rules that all kinds of jobs share.
# The rules about names point here, since no field of the schema lies deeper.
NAME = "metadata.name"
DNS_1035 = "must start with a letter and hold only lower-case letters, digits and '-'"
DNS_LABEL = "must hold only lower-case letters, digits and '-'"
HELD = (
    "can be changed only while the job is paused: set spec.runMode.pause.enabled to true"
    " and wait until status.phase is Paused"
)
NEVER = "can't be changed once the job exists; make a new job"
SAME_TYPES = "the types of a job, and their order, can't be changed once it exists"
ELASTIC = {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "expectedReplicas": 2}


@dataclass(frozen=True, slots=True)
class Words:
    """What would be right, where the API server and Jobyard say it differently."""

    theirs: str
    ours: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """One fault: what is done to a valid manifest, and what both verdicts have to say."""

    # A sentence; the test's id.
    title: str
    change: Change
    # As the API server writes it.
    path: str
    words: str | Words
    # The fault is in the change of an object that exists, not in the object.
    update: bool = False

    @property
    def edits(self) -> tuple[Edit, ...]:
        return self.change if isinstance(self.change, tuple) else (self.change,)

    @property
    def their_words(self) -> str:
        return self.words.theirs if isinstance(self.words, Words) else self.words

    @property
    def our_words(self) -> str:
        return self.words.ours if isinstance(self.words, Words) else self.words


@dataclass(frozen=True, slots=True)
class Table:
    """A valid manifest, and the faults that are put into it, one at a time."""

    # What sets this one apart from the kind's other manifests.
    title: str
    base: Manifest
    rows: tuple[Wrong, ...]


def manifest(text: str) -> Manifest:
    """A manifest from its YAML."""
    value = yaml.safe_load(text)
    assert isinstance(value, dict)
    return value


def at_least(bound: int) -> Words:
    return Words(f"should be greater than or equal to {bound}", f"must be at least {bound}")


def at_most(bound: int) -> Words:
    return Words(f"should be less than or equal to {bound}", f"must be at most {bound}")


def one_of(*values: str) -> Words:
    """One of a closed set."""
    listed = ", ".join(f'"{value}"' for value in values)
    told = f"{', '.join(values[:-1])} or {values[-1]}"
    return Words(f"supported values: {listed}", f"must be {told}")


def of_type(name: str, ours: str) -> Words:
    """A type of JSON; `ours` is what we advise."""
    return Words(f"must be of type {name}", ours)


def matching(ours: str) -> Words:
    """A pattern, which the API server quotes; `ours` are plain words for it."""
    return Words("should match '^", ours)


def required(ours: str) -> Words:
    """A field that has to be there; `ours` is its description."""
    return Words("Required value", f"is missing, and required: {ours}")


def items_at_least(bound: int) -> Words:
    return Words(f"should have at least {bound} items", f"must have at least {bound}")


def items_at_most(bound: int) -> Words:
    return Words(f"must have at most {bound} items", f"must have at most {bound}")


def entries_at_least(bound: int) -> Words:
    return Words(f"should have at least {bound} properties", f"must have at least {bound}")


def characters_at_least(bound: int) -> Words:
    return Words(f"should be at least {bound} chars long", f"must have at least {bound}")


def listing(text: str, *items: str) -> Words:
    """A message with a list in it, whose strings CEL puts in quotes only on the API server.

    No rule can put it better: for the API server's estimate `join` costs too much.
    """
    quoted = ", ".join(f'"{item}"' for item in items)
    return Words(text.format(f"[{quoted}]"), text.format(f"[{', '.join(items)}]"))


def not_of_this_job(name: str, *types: str) -> Words:
    """A type that the job, which has these, hasn't."""
    return listing(f"type {name} is not one of this job: it has {{}}", *types)


def no_container(wanted: str, *found: str) -> Words:
    """The container that the job's program runs in is missing."""
    return listing(f"the containers are named {{}}; one must be named {wanted}", *found)


def pod_name(name: str, limit: int = 63) -> str:
    """A pod whose name would be too long."""
    return f"pod {name} would have a name of {len(name)} characters; at most {limit} are possible"
