"""What a hostile manifest can do to the engine of an ordinary user: no more than to root's.

The tests are those of `test_engine_security` in which something runs or is mounted, where being
root makes the difference; what the server refuses by itself it refuses for everybody.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.engine import Room, RunningEngine
from rig.person import person

from engine.test_engine_security import (  # noqa: F401 - tests and what they need
    own_folder,
    secret,
    test_a_claims_links_lead_nowhere,
    test_a_host_path_is_what_it_says,
    test_a_link_that_stays_in_the_volume_is_followed,
    test_a_sub_path_isnt_followed_through_a_link_that_the_pod_made,
    test_files_of_a_secret_have_their_modes_and_stay_below_the_engines_folder,
    test_hostile_paths_find_nothing,
    test_mount_points_and_working_folders_leave_no_trace,
    test_names_of_variables_are_no_way_in,
    test_odd_working_folders_do_no_harm,
    test_private_files_are_private_even_in_a_folder_that_isnt,
    test_secret_values_are_told_to_nobody_but_the_pod,
    test_the_engine_listens_on_loopback_only,
    test_values_arrive_verbatim_and_no_shell_sees_them,
    victim,
)


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with person(is_ordinary=True) as who:
        started = who.run("up", "--detach")
        assert started.returncode == 0, started.stderr
        assert "sandbox runtime" in started.stdout
        yield RunningEngine(who, who.home / "jobyard" / "engine")
        stopped = who.run("down")
        assert stopped.returncode == 0, stopped.stderr
        assert who.processes() == {}


@pytest.fixture
def tmp_path(room: Room) -> Path:
    """Pytest's own is for root alone."""
    return own_folder(room, "tmp")


def test_the_engine_is_no_root(engine: RunningEngine, room: Room) -> None:
    # The room's name is no other test's.
    paths = [Path(folder, room.name) for folder in ("/etc", "/root", "/usr")]
    room.pod("box", "sh", "-c", f"id -u; touch {' '.join(map(str, paths))}; true")
    code, _ = room.ended("box")
    assert code == 0
    assert not any(path.exists() for path in paths)
    found = 0
    # What is gone meanwhile is nobody's.
    for folder, _, names in os.walk(engine.folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                assert Path(folder, name).lstat().st_uid == engine.who.uid, name
                found += 1
    assert found
