"""That nothing is left out: the doctor finds every framework, and every example is run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from engine.runs.test_examples_run import promises

from frameworks.yard import Yard


def test_the_doctor_says_that_every_kind_can_run_here(yard: Yard) -> None:
    checks = json.loads(yard.typed("doctor", "-o", "json"))
    missing = {
        each["name"]: each["remedy"]
        for each in checks
        if each["group"] == "Kinds" and not each["isThere"]
    }
    assert missing == {}


def test_every_example_that_needs_a_framework_is_run_by_a_test() -> None:
    tests = [file.read_text() for file in Path(__file__).parent.glob("test_*.py")]
    needy = [each.file for each in promises() if not each.runs_here]
    assert len(needy) > 20
    assert [file for file in needy if not any(_names(text, file) for text in tests)] == []


def _names(text: str, file: str) -> bool:
    """As a path, or the kind's folder and the name apart."""
    kind, _, name = file.removesuffix(".yaml").partition("/")
    return kind in text and re.search(rf'["/]{re.escape(name)}(\.yaml)?"', text) is not None
