"""What the cache of frameworks keeps: what another checkout of the project may be using."""

from __future__ import annotations

import os
from pathlib import Path
from time import time

import get_frameworks
import pytest

DAY_SECONDS = 24 * 3600


@pytest.mark.parametrize(
    ("days", "stays"),
    [
        pytest.param(0.5, True, id="used today"),
        pytest.param(30, False, id="used a month ago"),
        pytest.param(None, False, id="never finished"),
    ],
)
def test_virtualenvs_that_others_may_be_using_are_kept(
    tmp_path: Path, days: float | None, stays: bool
) -> None:
    other, ours = (tmp_path / f"torch-{letter * 12}" for letter in "ab")
    other.mkdir()
    if days is not None:
        (other / ".ready").touch()
        os.utime(other / ".ready", (time() - days * DAY_SECONDS,) * 2)
    get_frameworks._drop_others(ours, "torch")
    assert other.exists() is stays
