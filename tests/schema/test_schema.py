"""Schemas: deriving them from types, settling values, and the words for faults."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from rig.manifests import valid_manifests

from jobyard.api.crd import schema_node
from jobyard.api.kinds import kind_of
from jobyard.api.parts.value import Value
from jobyard.schema.admission import admitted
from jobyard.schema.cel import holds, text_of
from jobyard.schema.derive import derived, described
from jobyard.schema.finding import Path, dotted
from jobyard.schema.node import Node, compiled
from jobyard.schema.rule import Rule, formatted
from jobyard.schema.settling import settled
from jobyard.schema.validation import faults


class Inner(Value):
    """Something inside."""

    size: Annotated[int, described("How large.", ge=1, le=9)] = 3


class Sample(Value):
    """A sample of all that a type can say."""

    name: Annotated[str, described("Its name.", pattern="^[a-z]+$", max_length=5)]
    inner: Annotated[Inner, described("What it holds.")] = Inner()
    maybe: Annotated[Inner | None, described("What it may hold.")] = None
    words: Annotated[tuple[str, ...], described("Some words.", max_length=2)] = ()
    counts: Annotated[dict[str, int] | None, described("Counts by name.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.inner.size < 9",
            message="size must be below 9",
            message_cel=formatted("size is %s; must be below 9", "self.inner.size"),
            field=".inner.size",
        ),
    )


NODE: Node = compiled(derived(Sample))


WHOLE = "a whole number"


def told(value: Any) -> list[tuple[str, str]]:
    """What is wrong with a value, once settled."""
    return [(dotted(f.path), f.text) for f in faults(settled(value, NODE, (), []), NODE, ())]


def test_a_schema_says_what_the_type_says() -> None:
    assert derived(Sample) == {
        "type": "object",
        "description": "A sample of all that a type can say.",
        "required": ["name"],
        "properties": {
            "name": {
                "description": "Its name.",
                "type": "string",
                "maxLength": 5,
                "pattern": "^[a-z]+$",
            },
            "inner": {
                "description": "What it holds.",
                "type": "object",
                "properties": {
                    "size": {
                        "description": "How large.",
                        "type": "integer",
                        "format": "int32",
                        "minimum": 1,
                        "maximum": 9,
                        "default": 3,
                    }
                },
                "default": {},
            },
            "maybe": {
                "description": "What it may hold.",
                "type": "object",
                "properties": {
                    "size": {
                        "description": "How large.",
                        "type": "integer",
                        "format": "int32",
                        "minimum": 1,
                        "maximum": 9,
                        "default": 3,
                    }
                },
            },
            "words": {
                "description": "Some words.",
                "type": "array",
                "items": {"type": "string"},
                "maxItems": 2,
            },
            "counts": {
                "description": "Counts by name.",
                "type": "object",
                "additionalProperties": {"type": "integer", "format": "int64"},
            },
        },
        "x-kubernetes-validations": [
            {
                "rule": "self.inner.size < 9",
                "message": "size must be below 9",
                "messageExpression": "'size is %s; must be below 9'.format([self.inner.size])",
                "fieldPath": ".inner.size",
            }
        ],
    }


@pytest.mark.parametrize(
    ("given", "want", "unknown"),
    [
        pytest.param(
            {"name": "a"}, {"name": "a", "inner": {"size": 3}}, [], id="defaults are filled in"
        ),
        pytest.param(
            {"name": "a", "maybe": {}},
            {"name": "a", "inner": {"size": 3}, "maybe": {"size": 3}},
            [],
            id="defaults reach into what is there, not into what is absent",
        ),
        pytest.param(
            {"name": None, "inner": None, "maybe": None},
            {"inner": {"size": 3}},
            [],
            id="null means absent, and a default takes its place",
        ),
        pytest.param(
            {"name": "a", "inner": {"size": 1, "x": 1}, "y": [{"z": 1}]},
            {"name": "a", "inner": {"size": 1}},
            [("inner", "x"), ("y",)],
            id="unknown fields are dropped and told",
        ),
        pytest.param(
            {"name": "a", "inner": {"size": 2.0}, "counts": {"x": 1.0}},
            {"name": "a", "inner": {"size": 2}, "counts": {"x": 1}},
            [],
            id="whole numbers become integers where one is wanted",
        ),
        pytest.param(
            {"name": "a", "words": [None]},
            {"name": "a", "inner": {"size": 3}, "words": [None]},
            [],
            id="null in a list stays, to be refused",
        ),
    ],
)
def test_settling(given: Any, want: Any, unknown: list[Path]) -> None:
    found: list[Path] = []
    assert settled(given, NODE, (), found) == want
    assert found == unknown


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({"name": "a"}, []),
        ({}, [("name", "is missing, and required: Its name.")]),
        ({"name": 7}, [("name", 'is 7, a whole number; must be a string: write "7"')]),
        ({"name": True}, [("name", 'is true, a truth value; must be a string: write "true"')]),
        ({"name": "A"}, [("name", 'is "A"; must match ^[a-z]+$')]),
        ({"name": "a\n"}, [("name", 'is "a\\n"; must match ^[a-z]+$')]),
        ({"name": "abcdef"}, [("name", "has 6 characters; must have at most 5")]),
        ({"name": "a", "inner": []}, [("inner", "is a list; must be a mapping")]),
        ({"name": "a", "inner": {"size": 0}}, [("inner.size", "is 0; must be at least 1")]),
        ({"name": "a", "inner": {"size": 10}}, [("inner.size", "is 10; must be at most 9")]),
        ({"name": "a", "inner": {"size": 9}}, [("inner.size", "size is 9; must be below 9")]),
        ({"name": "a", "inner": {"size": 1.5}}, [("inner.size", f"is 1.5; must be {WHOLE}")]),
        (
            {"name": "a", "words": "hi"},
            [("words", 'is the string "hi"; must be a list: write ["hi"]')],
        ),
        ({"name": "a", "words": list("abc")}, [("words", "has 3 items; must have at most 2")]),
        ({"name": "a", "words": [None]}, [("words[0]", "is null; must be a string")]),
        (
            {"name": "a", "counts": {"x": 2**63}},
            [("counts.x", f"is {2**63}; must be {WHOLE} of at most 64 bits")],
        ),
    ],
    ids=str,
)  # fmt: skip
def test_words_for_faults(value: Any, want: list[tuple[str, str]]) -> None:
    assert told(value) == want


def test_all_faults_are_told_at_once_and_rules_wait_for_the_rest() -> None:
    found = told({"name": 1, "inner": {"size": 9}, "words": ["a", "b", "c"]})
    assert [path for path, _ in found] == ["name", "words"]


@pytest.mark.parametrize(
    ("expression", "value", "want"),
    [
        ("self.a.b", {}, False),
        ("self.sum() == 6", [1, 2, 3], True),
        ("self.max() == 3 && self.min() == 1", [1, 2, 3], True),
        ("self.max() > 0", [], False),
        ("self", "not a truth value", False),
        ("size(self) == 2", "日本", True),
        ("self.matches('^a$')", "a\n", False),
    ],
)
def test_a_rule_that_fails_to_evaluate_does_not_hold(
    expression: str, value: Any, want: bool
) -> None:
    assert holds(expression, {"self": value}) is want


def test_a_message_that_fails_to_evaluate_is_none() -> None:
    assert text_of("self.a.b", {"self": {}}) is None
    assert text_of(formatted("%s of %s", "self.a", "self.b"), {"self": {"a": 1, "b": "x"}}) == (
        "1 of x"
    )


META: tuple[tuple[Any, str | None], ...] = (
    ({"name": "a"}, None),
    ({"generateName": "a-"}, None),
    ({}, "metadata.name: is missing, and required: the name of the object"),
    (None, "metadata: is missing, and required"),
    ("a", "metadata: is a string; must be a mapping with at least a name"),
    ({"name": "A"}, 'metadata.name: is "A"; must hold only lower-case letters'),
    ({"name": "a", "labels": {"a b": "c"}}, 'metadata.labels: has the key "a b"; a key is'),
    ({"name": "a", "labels": {"a": "-"}}, 'metadata.labels.a: is "-"; must have at most 63'),
    ({"name": "a", "labels": {"a": 1}}, f"metadata.labels.a: is 1, {WHOLE}; must be a string"),
    ({"name": "a", "annotations": {"X.Y/z": "ok"}}, None),
    ({"name": "a", "annotations": {"a/b/c": ""}}, 'metadata.annotations: has the key "a/b/c"'),
    ({"name": "a", "resourceVersion": "1"}, "metadata.resourceVersion: must not be set"),
    ({"name": "a", "namespace": "A"}, 'metadata.namespace: is "A"; must hold only'),
)  # fmt: skip


@pytest.mark.parametrize(("metadata", "want"), META, ids=lambda value: str(value)[:60])
def test_metadata_is_checked_as_an_api_server_does(metadata: Any, want: str | None) -> None:
    manifest = valid_manifests()[0] | {"metadata": metadata}
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    errors = admitted(manifest, schema_node(kind)).errors
    if want is None:
        assert not errors
    else:
        (found,) = errors
        assert f"{dotted(found.path)}: {found.text}".startswith(want)


def test_what_was_decoded_encodes_to_itself() -> None:
    for manifest in valid_manifests():
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        stored = admitted(manifest, schema_node(kind)).value
        value = msgspec.convert(stored, kind.type)
        again = msgspec.convert(msgspec.to_builtins(value), kind.type)
        assert again == value


def test_admitting_twice_changes_nothing() -> None:
    for manifest in valid_manifests():
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        once = admitted(manifest, schema_node(kind))
        twice = admitted(once.value, schema_node(kind))
        assert twice.value == once.value
        assert not twice.errors
        assert not twice.unknown
