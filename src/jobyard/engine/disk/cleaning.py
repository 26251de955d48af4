"""What may be removed of what a home keeps, and its removal.

By itself a clean-up takes what nobody can use any more, and the logs of earlier attempts. What
`attach` can take up goes when it is asked for by name, or with all runs that have ended; claims
hold checkpoints, and go only when they are asked for. What runs stays, unless it is a run that was
named.

What was found may have changed by the time it is removed: each is looked at again, under the lock
that keeps others out, right before it goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from jobyard.engine.disk.claim_store import ClaimStore
from jobyard.engine.disk.keeping import CleaningError, Item, Wanted, What, left_over
from jobyard.engine.homes import DataFolder, claims_of, dead_run, removed
from jobyard.engine.runs.runs import Record, Run, State, runs_of
from jobyard.node.agent.disk_keeper import clear_ended, is_over, left_of_ended
from jobyard.node.agent.disk_use import Measure
from jobyard.node.hub.starting import supervisor_of
from jobyard.node.isolation.rootfs.scratch import remove_tree
from jobyard.node.logs.kept_logs import all_kept
from jobyard.node.shared import polling
from jobyard.node.shared.folders import pod_folders
from jobyard.node.shared.order import PodOrder

# An engine that ends stops its replicas, each with its grace.
_END_SECONDS: Final = 60.0


class Cleaning:
    """One home, or the folder of one engine that was given one."""

    def __init__(self, home: Path, engine: DataFolder, seconds: float, *, is_home: bool) -> None:
        self._home = home
        self._engine = engine
        self._measure = Measure(seconds)
        self._is_home = is_home
        # Where an earlier release had those of an engine, they still are.
        own = engine.path / "claims"
        roots = (claims_of(home), own) if is_home else (own,)
        self._claims = ClaimStore(roots, self._engines)
        # Runs that go, whatever they do.
        self._named: set[str] = set()

    def items(self, wanted: Wanted) -> list[Item]:
        """All that is kept: what may go, and what stays, with the reason."""
        runs = [*self._runs(wanted)]
        going = {item.folder for item in runs if not item.stays}
        claims = self._claims.items(wanted, going, self._measure)
        return [*runs, *self._kept_logs(), *self._scratch(), *claims]

    def _engines(self) -> list[DataFolder]:
        """All that use the claims."""
        runs = [run.folder for run in runs_of(self._home)] if self._is_home else []
        return [self._engine, *runs]

    # Runs.

    def _runs(self, wanted: Wanted) -> Iterator[Item]:
        runs = list(runs_of(self._home)) if self._is_home else []
        self._named = {self._run_named(name, runs).name for name in wanted.runs}
        for run in runs:
            yield self._run(run, run.name in self._named, wanted.all_runs)

    def _run_named(self, name: str, runs: Sequence[Run]) -> Run:
        for run in runs:
            if run.name == name:
                return run
        with_job = [run for run in runs if name in _jobs_of(run)]
        if len(with_job) == 1:
            return with_job[0]
        if with_job:
            names = ", ".join(run.name for run in with_job)
            raise CleaningError(f"several runs have a job {name}: say which of {names}")
        raise CleaningError(f"there is no run {name}; `jobyard clean --dry-run` lists them")

    def _run(self, run: Run, is_named: bool, is_any: bool) -> Item:
        record, state = Record.read(run.folder.path), run.state
        jobs = ", ".join(record.jobs) if record is not None else ""
        stays, remedy, about = "", "", f"{jobs}, {state}" if jobs else "without jobs"
        if state is State.ATTENDED:
            stays = "another command shows it"
        elif state is State.LEFT and not jobs:
            stays, about = "it is about to start", "starting"
        elif state is State.ENDED:
            if jobs and not (is_named or is_any):
                stays = "`jobyard attach` can show how it ended"
                remedy = "--runs"
        elif not is_named:
            stays, remedy = "it goes on", f"--run {run.name}"
        return Item(
            what=What.RUN,
            name=run.name,
            folder=run.folder.path,
            use=self._measure.of(run.folder.path),
            about=about,
            stays=stays,
            is_named=is_named,
            remedy=remedy,
        )

    # What pods left.

    def _kept_logs(self) -> Iterator[Item]:
        paths = loose_logs(self._engine.path)
        if paths:
            yield Item(
                what=What.LOGS,
                name=f"{len(paths)} earlier attempts",
                folder=self._engine.path / "kept",
                use=self._measure.of(*paths),
            )

    def _scratch(self) -> Iterator[Item]:
        ended = [pod for pod in pod_folders(self._engine.path) if is_over(pod)]
        left = [path for pod in ended for path in left_of_ended(pod)]
        if left:
            yield Item(
                what=What.SCRATCH,
                name=f"{len(left)} folders of pods that are over",
                folder=self._engine.path / "pods",
                use=self._measure.of(*left),
            )

    # Removing.

    def remove(self, item: Item) -> str:
        """Empty if it is gone; else why it isn't, or not all of it."""
        match item.what:
            case What.RUN:
                return self._remove_run(item)
            case What.LOGS:
                for path in loose_logs(self._engine.path):
                    remove_tree(path)
                return ""
            case What.SCRATCH:
                for pod in pod_folders(self._engine.path):
                    if is_over(pod):
                        clear_ended(pod)
                return ""
            case What.CLAIM:
                return self._claims.remove(item.folder)

    def _remove_run(self, item: Item) -> str:
        path, run = item.folder, Run(DataFolder(item.folder))
        if item.name in self._named and run.state is State.LEFT:
            from jobyard.engine.runs.link import Link

            asyncio.run(Link(run.socket).end())
            # Its engine takes the folder away, and then lets go.
            polling.until(
                lambda: not run.folder.is_in_use, seconds=_END_SECONDS, interval_seconds=0.05
            )
        with dead_run(self._home, path) as dead:
            if dead is None:
                return "somebody has taken it up" if path.exists() else ""
            return self._remove_dead(run, dead)

    def _remove_dead(self, run: Run, dead: DataFolder) -> str:
        from jobyard.engine.runs.leaving import stop_everything

        if run.is_attended:
            return "another command shows it"
        is_running = any(supervisor_of(pod.path) for pod in pod_folders(dead.path))
        if is_running and run.name not in self._named:
            return "its replicas run"
        asyncio.run(stop_everything(dead.path))
        removed(self._home, dead)
        return left_over(dead.path)


def loose_logs(data: Path) -> list[Path]:
    """Logs of earlier attempts; not of replicas that run."""
    running = set()
    for pod in pod_folders(data):
        if supervisor_of(pod.path):
            try:
                order = msgspec.json.decode(pod.order.read_bytes(), type=PodOrder)
            except (OSError, msgspec.MsgspecError):
                continue
            running.add((order.namespace, order.name))
    # …/<namespace>/<pod>/pods/<attempt>
    return [
        path
        for path in all_kept(data)
        if (path.parents[2].name, path.parents[1].name) not in running
    ]


def _jobs_of(run: Run) -> set[str]:
    return {word for job in run.record.jobs for word in (job, job.partition("/")[2])}
