"""Faults put in on purpose: the simulation has to find each of them within its bounds.

A rule that nothing breaks proves nothing. Each mutant changes one thing that the controller or
its decisions take care of, and says which of the simulation's rules may be the one to notice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from jobyard.api.beamjob import BeamJobStatus
from jobyard.api.parts.run_mode import Switch
from jobyard.api.parts.status import Phase
from jobyard.controller import creating, lookups, reconciling, shelf, world
from jobyard.controller.reconciling import Passed, Reconciler
from jobyard.plan.deciding import decide as deciding
from jobyard.plan.deciding import finishing, initialization, recovery, restarts
from jobyard.plan.deciding.pods import Movement
from jobyard.plan.facts import outcome, standing
from jobyard.plan.facts.decision import Obstacle
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.lowering import table as lowering
from jobyard.plan.reporting import conditions
from jobyard.plan.reporting.beam_status import BeamForm
from jobyard.plan.taskset import decide as taskset_deciding
from jobyard.plan.taskset import ending as taskset_ending
from jobyard.plan.taskset import replicas as taskset_replicas
from jobyard.schema.admission import admitted
from simulation import users
from simulation.driver import Settings, Simulation
from simulation.shrinking import Failure, run, shrunk

RUNS_MAX = 1000
Patch = pytest.MonkeyPatch
replace = msgspec.structs.replace


def status_written_last(patch: Patch) -> None:
    whole = Reconciler._carry_out

    async def reversed_(self: Any, record: Any, each: Any, plan: Any, **rest: Any) -> Passed:
        passed = await whole(self, record, each, replace(plan, status=None), **rest)
        if plan.status is not None:
            await self._write_status(record, plan.status)
        return passed

    patch.setattr(Reconciler, "_carry_out", reversed_)


def terminating_pods_are_gone(patch: Patch) -> None:
    observe = world.World.observe

    def blind(self: Any, record: Any, notes: Any) -> Any:
        seen = observe(self, record, notes)
        return replace(seen, pods=tuple(pod for pod in seen.pods if not pod.is_terminating))

    patch.setattr(world.World, "observe", blind)


def strangers_are_adopted(patch: Patch) -> None:
    patch.setattr(creating, "_is_ours", lambda *_: True)


def deletes_go_by_name_alone(patch: Patch) -> None:
    request = reconciling._delete_request
    patch.setattr(
        reconciling,
        "_delete_request",
        lambda record, each: request(record, replace(each, uid=None)),
    )


def evictions_count(patch: Patch) -> None:
    facts = world.pod_of
    patch.setattr(world, "pod_of", lambda raw: replace(facts(raw), was_taken_away=False))


def finished_jobs_are_decided_anew(patch: Patch) -> None:
    patch.setattr(deciding, "_OVER", ())


def ends_are_counted_at_each_pass(patch: Patch) -> None:
    for module in (restarts, recovery):
        patch.setattr(module, "is_open", lambda each: each.has_ended and each.end is not None)


def status_is_written_over_any_version(patch: Patch) -> None:
    whole = reconciling.status_patch

    def careless(record: Any, old: Any, new: Any) -> dict[str, Any]:
        return {**whole(record, old, new), "metadata": {"uid": record.uid}}

    patch.setattr(reconciling, "status_patch", careless)


def answers_are_taken_whatever_their_version(patch: Patch) -> None:
    def absorb(self: Any, obj: Any) -> None:
        self._put_if_newer(obj)

    patch.setattr(shelf.Shelf, "absorb", absorb)


def lists_keep_what_is_gone(patch: Patch) -> None:
    def replaced(self: Any, items: Any, resource_version: str) -> None:
        for item in items:
            self.changed(item)
        self.is_synced = True

    patch.setattr(shelf.Shelf, "replaced", replaced)


def news_of_what_is_known_are_not_read(patch: Patch) -> None:
    """Until the next list."""

    def confirmed(self: Any, namespace: str, name: str, version: str) -> bool:
        return bool(version) and (namespace, name) in self._objects

    patch.setattr(shelf.Shelf, "confirmed", confirmed)


def pauses_are_only_said(patch: Patch) -> None:
    movement = deciding._movement

    def deaf(seen: Any, *rest: Any) -> Any:
        spec = replace(seen.description, run_mode=None)
        return movement(replace(seen, description=spec), *rest)

    patch.setattr(deciding, "_movement", deaf)


def revisions_are_ignored(patch: Patch) -> None:
    standings = standing.standings_of

    def same(description: Any, names: Any, pods: Any, memories: Any) -> Any:
        for each in standings(description, names, pods, memories):
            if each.state is standing.State.OUTDATED:
                yield standing.standing_of(each.role, each.rank, each.name, [each.pod], each.memory)
            else:
                yield each

    patch.setattr(deciding, "standings_of", same)


def gangs_come_back_one_by_one(patch: Patch) -> None:
    patch.setattr(deciding, "broken_by", lambda _: None)


def replica_retries_survive_a_retry_of_the_whole(patch: Patch) -> None:
    patch.setattr(
        taskset_deciding,
        "numbered",
        lambda attempt, number: replace(
            attempt, number=number, status=replace(attempt.status, total_retried_count=number)
        ),
    )


def tasksets_retry_before_the_old_pods_are_gone(patch: Patch) -> None:
    for module in (taskset_deciding, taskset_ending):
        patch.setattr(module, "is_cleared", lambda _: True)


def replicas_of_a_taskset_overlap(patch: Patch) -> None:
    members = taskset_replicas.members_of

    def free(attempt: Any) -> Any:
        found = members(attempt)
        return {name: [replace(m, is_free=True) for m in each] for name, each in found.items()}

    patch.setattr(taskset_deciding, "members_of", free)


def limits_are_ignored(patch: Patch) -> None:
    patch.setattr(restarts, "is_within", lambda *_: True)


def nothing_is_cleaned_up(patch: Patch) -> None:
    patch.setattr(finishing, "clean_up", lambda _: iter(()))


def jobs_live_for_ever(patch: Patch) -> None:
    patch.setattr(finishing, "expires_at", lambda *_: None)


def times_move_by_themselves(patch: Patch) -> None:
    patch.setattr(conditions, "condition", lambda *_: None)


def lost_nodes_are_waited_for(patch: Patch) -> None:
    patch.setattr(deciding, "overdue", lambda *_: Movement())


def ends_that_were_asked_for_count(patch: Patch) -> None:
    facts = world.pod_of

    def unasked(raw: bytes) -> Any:
        pod = facts(raw)
        # Still on its way out, but as if that had been asked for long after its end.
        return (
            replace(pod, deletion_asked_at=pod.deletion_due_at + 1e6) if pod.is_terminating else pod
        )

    patch.setattr(world, "pod_of", unasked)


def failures_are_not_tried_again(patch: Patch) -> None:
    settled = Reconciler._delete

    async def content(self: Any, *rest: Any) -> bool:
        await settled(self, *rest)
        return True

    patch.setattr(Reconciler, "_delete", content)


def a_beam_status_is_never_the_same(patch: Patch) -> None:
    whole = BeamForm.written

    def restless(self: Any, seen: Any, status: Any, now: float) -> Any:
        beam: Any = whole(self, seen, status, now)
        before = seen.status.ready if isinstance(seen.status, BeamJobStatus) else ""
        return replace(beam, ready=beam.ready + ("" if before.endswith(" ") else " "))

    patch.setattr(BeamForm, "written", restless)


T9K = ("GenericJob", "PyTorchTrainingJob", "XGBoostTrainingJob")
RIGID = ("MPIJob", "ColossalAIJob")
TASKSET = ("TaskSet",)


def a_late_phase_is_taken_for_a_sidecar(patch: Patch) -> None:
    patch.setattr(Pod, "still_runs", property(lambda self: not self.has_finished))


def evictions_that_end_well_are_successes(patch: Patch) -> None:
    taken = standing.was_taken_away
    patch.setattr(
        standing, "was_taken_away", lambda pod, end: not end.succeeded and taken(pod, end)
    )


def a_full_quota_ends_a_taskset(patch: Patch) -> None:
    patch.setattr(creating, "_QUOTA", "in other words")
    # Forbidden or not, it is the template's fault.
    patch.setattr(creating, "Obstacle", lambda reason, said, **_: Obstacle(reason, said))


def pods_of_two_specs_run_side_by_side(patch: Patch) -> None:
    under_rules_that_let_specs_change_at_any_time(patch)
    patch.setattr(deciding, "is_same_spec", lambda *_: True)


def pods_do_not_know_their_spec(patch: Patch) -> None:
    under_rules_that_let_specs_change_at_any_time(patch)
    patch.setattr(lowering, "_digest", lambda _: "")


def under_rules_that_let_specs_change_at_any_time(patch: Patch) -> None:
    """As an API server has them whose CRDs are of a version before; by itself no fault."""

    def found(*objects: Any) -> Any:
        errors = admitted(*objects).errors
        return SimpleNamespace(
            errors=[e for e in errors if "while the job is paused" not in e.text]
        )

    patch.setattr(users, "admitted", found)


def a_spec_is_open_as_soon_as_a_pause_is_asked_for(patch: Patch) -> None:
    patch.setattr(deciding, "phase_of", _paused_at_once(deciding.phase_of))


def _paused_at_once(phase_of: Any) -> Any:
    def hasty(*rest: Any, is_paused: bool) -> Any:
        return Phase.PAUSED if is_paused else phase_of(*rest, is_paused=is_paused)

    return hasty


def under_a_network_that_loses_many_answers(patch: Patch) -> None:
    """By itself no fault."""
    choose = Simulation._choose_likelihoods

    def lossy(self: Any) -> None:
        choose(self)
        self._lost = 0.4

    patch.setattr(Simulation, "_choose_likelihoods", lossy)


def pods_made_without_an_answer_are_not_asked_about(patch: Patch) -> None:
    under_a_network_that_loses_many_answers(patch)

    async def content(*_: Any) -> bool:
        return True

    patch.setattr(lookups.Lookups, "find_unanswered", content)


def nodes_in_trouble_are_lost(patch: Patch) -> None:
    def lost(outcome: Any) -> bool:
        if outcome.status == 404:
            return True
        node = msgspec.json.decode(outcome.body) if outcome.is_ok else {}
        conditions = node.get("status", {}).get("conditions", ())
        return any(c["type"] == "Ready" and c["status"] != "True" for c in conditions)

    patch.setattr(lookups, "is_lost", lost)


def under_somebody_who_scales_all_the_time(patch: Patch) -> None:
    """By itself no fault."""
    patch.setattr(users.Users, "step", users.Users.scale)


def rows_of_replicas_scaled_away_go_at_once(patch: Patch) -> None:
    under_somebody_who_scales_all_the_time(patch)
    patch.setattr(deciding, "surplus_of", lambda *_: ())


def each_failure_of_a_burst_counts(patch: Patch) -> None:
    again = recovery.started_again

    def each(standing: Any, now: float, **_: Any) -> Any:
        return again(standing, now)

    patch.setattr(recovery, "started_again", each)


def what_follows_from_a_loss_counts(patch: Patch) -> None:
    patch.setattr(recovery, "_after_losses", lambda _, course, __: course)


def followers_are_taken_for_new_failures(patch: Patch) -> None:
    patch.setattr(recovery, "_is_follower", lambda *_: False)


def restarts_are_due_by_the_clocks_of_nodes(patch: Patch) -> None:
    due = restarts._due

    def theirs(each: standing.Standing, in_a_row: int, now: float) -> Any:
        moment = each.end.finished_at if each.end is not None else now
        return due(each, in_a_row, moment)

    patch.setattr(restarts, "_due", theirs)


def clocks_of_nodes_are_believed(patch: Patch) -> None:
    facts = world.pod_of
    patch.setattr(world, "pod_of", lambda raw: replace(facts(raw), clock_behind=0.0))


def rows_of_a_finished_job_follow_its_spec(patch: Patch) -> None:
    from jobyard.plan.facts.standing import memories_of, pods_by_replica, standings_of
    from jobyard.plan.lowering.names import pod_names

    def anew(seen: Any, stored: Any) -> Any:
        pods = pods_by_replica([pod for pod in seen.pods if pod.role])
        names = pod_names(seen.description)
        return standings_of(seen.description, names, pods, memories_of(stored.tasks))

    def followed(tasks: Any, standings: Any) -> Any:
        rows = [finishing.row_of(s, is_coming=False, is_condemned=False) for s in standings]
        return tuple(
            replace(
                task,
                status=tuple(
                    r for r, s in zip(rows, standings, strict=True) if s.role.type == task.type
                ),
            )
            for task in tasks
        )

    patch.setattr(finishing, "_as_stored", anew)
    patch.setattr(finishing, "_followed", followed)


def hopeless_jobs_go_on(patch: Patch) -> None:
    patch.setattr(outcome, "_hopeless", lambda *_: None)


def jobs_are_initialized_before_their_pods_are_there(patch: Patch) -> None:
    said = conditions.ConditionValue(conditions.YES, "-", conditions.INITIALIZED)
    patch.setattr(initialization, "_coming", lambda *_: said)


def a_full_quota_takes_away_what_was_made(patch: Patch) -> None:
    """As if nobody had found out yet whether the job may have its pods."""
    free = initialization.may_have_pods

    def strict(before: Any, **facts: Any) -> bool:
        return free(before, **facts) and before.reason != "QuotaExceeded"

    patch.setattr(initialization, "may_have_pods", strict)


def only_one_spelling_is_heeded(patch: Patch) -> None:
    patch.setattr(Switch, "is_on", property(lambda self: bool(self.enabled)))


ELASTIC = ("PyTorchTrainingJob", "DeepSpeedJob")
TRAINING = ("XGBoostTrainingJob", "TensorFlowTrainingJob", "PyTorchTrainingJob")
MUTANTS: tuple[tuple[Callable[[Patch], None], tuple[str, ...]], ...] = (
    (status_written_last, T9K),
    (terminating_pods_are_gone, TASKSET),
    (strangers_are_adopted, T9K),
    (deletes_go_by_name_alone, T9K),
    (evictions_count, T9K),
    (finished_jobs_are_decided_anew, T9K),
    (ends_are_counted_at_each_pass, T9K),
    (status_is_written_over_any_version, T9K),
    (answers_are_taken_whatever_their_version, T9K),
    (lists_keep_what_is_gone, T9K),
    (news_of_what_is_known_are_not_read, T9K),
    (pauses_are_only_said, T9K),
    (revisions_are_ignored, T9K),
    (gangs_come_back_one_by_one, RIGID),
    (replica_retries_survive_a_retry_of_the_whole, TASKSET),
    (tasksets_retry_before_the_old_pods_are_gone, TASKSET),
    (replicas_of_a_taskset_overlap, TASKSET),
    (limits_are_ignored, T9K),
    (nothing_is_cleaned_up, T9K),
    (jobs_live_for_ever, T9K),
    (times_move_by_themselves, T9K),
    (lost_nodes_are_waited_for, T9K),
    (ends_that_were_asked_for_count, T9K),
    (failures_are_not_tried_again, T9K),
    (a_beam_status_is_never_the_same, ("BeamJob",)),
    (a_late_phase_is_taken_for_a_sidecar, ("GenericJob",)),
    (evictions_that_end_well_are_successes, T9K),
    (a_full_quota_ends_a_taskset, TASKSET),
    (pods_of_two_specs_run_side_by_side, T9K),
    (pods_do_not_know_their_spec, T9K),
    (a_spec_is_open_as_soon_as_a_pause_is_asked_for, T9K),
    (pods_made_without_an_answer_are_not_asked_about, T9K),
    (nodes_in_trouble_are_lost, T9K),
    (rows_of_replicas_scaled_away_go_at_once, ELASTIC),
    (each_failure_of_a_burst_counts, TRAINING),
    (what_follows_from_a_loss_counts, TRAINING),
    (followers_are_taken_for_new_failures, TRAINING),
    (restarts_are_due_by_the_clocks_of_nodes, T9K),
    (clocks_of_nodes_are_believed, T9K),
    (rows_of_a_finished_job_follow_its_spec, ELASTIC),
    (hopeless_jobs_go_on, ("GenericJob",)),
    (jobs_are_initialized_before_their_pods_are_there, T9K),
    (a_full_quota_takes_away_what_was_made, T9K),
    (only_one_spelling_is_heeded, T9K),
)


# Where the search begins, of those that took long: the seed that found it the last time. What
# changes a run may change that too, and then it goes on from the first.
FOUND_BEFORE = {
    pods_made_without_an_answer_are_not_asked_about: 30,
    nodes_in_trouble_are_lost: 265,
    a_full_quota_takes_away_what_was_made: 164,
    clocks_of_nodes_are_believed: 53,
    deletes_go_by_name_alone: 68,
    pods_of_two_specs_run_side_by_side: 98,
    answers_are_taken_whatever_their_version: 35,
    lost_nodes_are_waited_for: 29,
    restarts_are_due_by_the_clocks_of_nodes: 28,
    what_follows_from_a_loss_counts: 22,
    strangers_are_adopted: 20,
    gangs_come_back_one_by_one: 14,
    ends_that_were_asked_for_count: 12,
    failures_are_not_tried_again: 38,
    lists_keep_what_is_gone: 53,
    a_full_quota_ends_a_taskset: 6,
    revisions_are_ignored: 4,
}


def failures(kinds: tuple[str, ...], first: int = 0, runs: int = RUNS_MAX) -> Iterator[Failure]:
    for seed in dict.fromkeys((first, *range(runs))):
        _, failure = run(Settings(seed=seed, kinds=kinds))
        if failure is not None:
            yield failure


@pytest.mark.parametrize(
    ("mutate", "kinds"), [pytest.param(*each, id=each[0].__name__) for each in MUTANTS]
)
def test_the_simulation_finds(
    mutate: Callable[[Patch], None],
    kinds: tuple[str, ...],
    monkeypatch: Patch,
    record_property: Callable[[str, object], None],
) -> None:
    mutate(monkeypatch)
    failure = next(failures(kinds, FOUND_BEFORE.get(mutate, 0)), None)
    assert failure is not None, f"{mutate.__name__}: {RUNS_MAX} runs went by unnoticed"
    record_property("found", f"{failure.rule} (seed {failure.settings.seed})")


@pytest.mark.parametrize(
    ("surroundings", "kinds"),
    [
        (under_rules_that_let_specs_change_at_any_time, T9K),
        (under_somebody_who_scales_all_the_time, ELASTIC),
        (under_a_network_that_loses_many_answers, T9K),
    ],
)
def test_nothing_is_found_without_a_fault(
    surroundings: Callable[[Patch], None], kinds: tuple[str, ...], monkeypatch: Patch
) -> None:
    """So what is found in such surroundings is found because of the fault."""
    surroundings(monkeypatch)
    assert not [*itertools.islice(failures(kinds, runs=20), 1)]


@pytest.mark.long
def test_failing_runs_get_shorter(monkeypatch: Patch) -> None:
    """Not each of them: what a run is without changes all that comes after."""
    nothing_is_cleaned_up(monkeypatch)
    long = list(itertools.islice(failures(("GenericJob",)), 3))
    short = [shrunk(failure) for failure in long]
    assert [each.rule for each in short] == [each.rule for each in long]
    assert any(each.settings.without for each in short)
    assert sum(each.steps for each in short) < sum(each.steps for each in long)
    for each in short:
        _, again = run(each.settings)
        assert again == each
