"""The golden files have just what the cases ask, and the list of differences names real cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from conformance import (
    golden,
    test_applying,
    test_definitions,
    test_deleting,
    test_errors,
    test_forms,
    test_listing,
    test_objects,
    test_patching,
    test_pods,
    test_socket_watching,
    test_strictness,
    test_validation,
    test_watching,
    test_writing,
)
from conformance.differences import KNOWN

DIFFERENCES = Path(__file__).parents[2] / "docs" / "runtimes.md"
TOPICS: dict[str, set[str]] = {
    "aggregated": {*test_forms.GROUPS, "core"},
    "applying": set(test_applying.CASES),
    "bad_definitions": set(test_definitions.FAULTS),
    "core_resources": set(test_forms.CORE),
    "creation": set(test_objects.CREATIONS),
    "definitions": set(test_definitions.CASES),
    "deleting": set(test_deleting.CASES),
    "errors": set(test_errors.CASES),
    "fields": set(test_listing.FIELDS),
    "forms": set(test_forms.CASES),
    "groups": set(test_forms.GROUPS),
    "handshakes": set(test_socket_watching.HANDSHAKES),
    "json_patch": set(test_patching.OPERATIONS),
    "labels": set(test_listing.SELECTORS),
    "listing": set(test_listing.CASES),
    "lives": set(test_objects.LIVES),
    "merge_patch": set(test_patching.MERGES),
    "metadata": set(test_validation.METADATA),
    "names": set(test_validation.NAMES),
    "openapi": {"widget", "paths of widgets", "secret"},
    "patching": set(test_patching.OTHERS),
    "pods": set(test_validation.PODS),
    "pods_and_events": set(test_pods.CASES),
    "strategic_patch": set(test_patching.STRATEGIES),
    "strictness": set(test_strictness.CASES),
    "validation": set(test_validation.OTHERS),
    "watching": set(test_watching.CASES),
    "widgets": set(test_validation.WIDGETS),
    "writing": set(test_writing.CASES),
}


def test_no_golden_answer_is_left_over_or_missing() -> None:
    files = {path.stem for path in golden.FOLDER.glob("*.yaml")}
    assert files == set(TOPICS)
    wrong = {
        topic: golden.sentences(topic) ^ sentences
        for topic, sentences in TOPICS.items()
        if golden.sentences(topic) != sentences
    }
    assert not wrong


def every_sentence() -> Iterator[str]:
    for sentences in TOPICS.values():
        yield from sentences


def test_a_known_difference_is_about_one_case() -> None:
    every = list(every_sentence())
    assert not [sentence for sentence in KNOWN if every.count(sentence) != 1]


def test_users_are_told_of_every_known_difference() -> None:
    told = " ".join(DIFFERENCES.read_text().split())
    assert [reason for reason in KNOWN.values() if reason not in told] == []


def test_there_are_cases_enough() -> None:
    assert sum(len(sentences) for sentences in TOPICS.values()) > 500
