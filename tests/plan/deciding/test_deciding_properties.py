"""Properties of the decision: any job of the examples, any history of its pods.

A history is a list of moves: pods run, end, are evicted, deleted or vanish, modes change, time
passes, and the controller decides and is killed at any step of carrying a plan out.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig.manifests import valid_manifests
from rig.selection import all_is_asked_for

from jobyard.api.parts.status import ConditionType
from jobyard.plan.facts.decision import INVALID_TEMPLATE, NAME_TAKEN, Obstacle, Plan
from jobyard.plan.facts.pod_facts import PodPhase
from jobyard.plan.lowering.modes import is_debugging
from jobyard.plan.lowering.names import pod_names
from plan.deciding.job_world import STEPS, World

REPLICAS_MAX = 8
MANY = 100 if all_is_asked_for() else 40
OVER = ("Succeeded", "Failed")
EXIT_CODES = (0, 0, 1, 2, 137, 143)
MOVES = ("run", "end", "end beside sidecars", "evict", "delete", "vanish", "lose node", "wait")


def _jobs() -> dict[str, World]:
    """A world for each job that can start, by kind and number."""
    found: dict[str, World] = {}
    for number, manifest in enumerate(valid_manifests()):
        if manifest["kind"] in ("TaskSet", "Queue", "PodGroup"):
            continue
        manifest["metadata"].setdefault("namespace", "default")
        world = World(manifest)
        if world.description.replicas <= REPLICAS_MAX and _has_a_program(world):
            found[f"{manifest['kind']}-{number}"] = world
    return found


def _has_a_program(world: World) -> bool:
    """Some have nothing to launch: they are debugged, and can't be anything else."""
    if world.description.start(world.description.roles[0], 0).program == ():
        assert is_debugging(world.description.run_mode)
        return False
    return True


JOBS = _jobs()


def fresh(name: str) -> World:
    """A world of its own: what changes is copied, what is frozen is shared."""
    world = copy.copy(JOBS[name])
    for field, value in vars(world).items():
        if isinstance(value, (dict, list)) and field not in ("wanted", "job"):
            setattr(world, field, copy.copy(value))
    world.job_url = "http://ui/#/job/1"
    return world


class Watch:
    """What must hold at every step of a history."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.final: tuple[Any, ...] | None = None
        self.restarts = 0
        # The last pod made of each replica, and the pods whose program ended by itself.
        self.last: dict[tuple[str, int], tuple[int, str]] = {}
        self.ended: set[str] = set()
        # Pods whose end the status has told of.
        self.told: set[str] = set()
        self.modes_change = False
        self.scales = False

    def step(self, until: str = "events") -> Plan:
        world = self.world
        plan = world.decide()
        assert plan == world.decide(), "the same was seen twice, and decided differently"
        self._pods_come_alone(plan)
        known = {pod.uid for pod in world.pods.values()}
        world.apply(plan, until)
        for pod in world.pods.values():
            if pod.uid not in known and pod.role:
                self._attempt_follows(pod.role, pod.rank, pod.attempt, pod.uid)
        if world.status is not None:
            self._status_goes_on()
        return plan

    def _pods_come_alone(self, plan: Plan) -> None:
        numbered = {role.type for role in self.world.description.roles if role.is_numbered}
        for manifest in plan.pods:
            labels = manifest["metadata"]["labels"]
            place = (
                labels["batch.tensorstack.dev/replica-type"],
                int(labels["batch.tensorstack.dev/replica-rank"]),
            )
            for pod in self.world.pods.values():
                if (pod.role, pod.rank) == place:
                    assert place[0] in numbered, f"{pod.name} is still there"
                    assert pod.has_finished

    def _attempt_follows(self, role: str, rank: int, attempt: int, uid: str) -> None:
        before = None if self.scales else self.last.get((role, rank))
        self.last[role, rank] = (attempt, uid)
        if before is None:
            assert attempt == 0 or self.scales
        elif attempt != before[0]:
            assert attempt == before[0] + 1
            assert before[1] in self.ended, "only an end of its own counts"
        elif not self.modes_change and not self.world.description.is_rigid:
            assert before[1] not in self.told, "an end that was told of counts"

    def _status_goes_on(self) -> None:
        status = self.world.status
        assert status.restarts >= self.restarts, "a restart was forgotten"
        self.restarts = status.restarts
        if not is_debugging(self.world.description.run_mode):
            self.told |= {r.uid for r in self.world.rows.values() if r.phase in OVER}
        counts = sum(row.restart_count for row in self.world.rows.values())
        if self.world.description.is_collective:
            # What follows from one another uses up one restart, or none.
            assert status.restarts <= (status.attempt or 0)
        else:
            assert status.restarts == counts
        if self.world.kind.name != "BeamJob":
            assert [c.type for c in status.conditions] == list(ConditionType)
        # A Beam job's cluster may go on or go; how its program ended stays.
        said = [c for c in status.conditions if c.type != "ClusterRunning"]
        final = (status.phase, status.completion_time, said, status.restarts)
        if self.final is not None:
            assert final == self.final, "a finished job is final"
        elif status.phase in OVER:
            assert status.completion_time
            self.final = final


def move(world: World, watch: Watch, what: str, data: st.DataObject) -> None:
    """One thing that happens to a pod, or to the clock."""
    if what == "wait":
        world.wait(data.draw(st.sampled_from((1, 3, 70, 700))))
        return
    pods = [pod for pod in world.pods.values() if pod.role]
    if not pods:
        return
    pod = data.draw(st.sampled_from(sorted(pods, key=lambda each: each.name)))
    if what == "delete" and not pod.is_terminating:
        world.tell_to_go(pod.name)
    elif what == "vanish":
        del world.pods[pod.name]
    elif what == "run" and pod.phase is PodPhase.PENDING and not pod.is_terminating:
        world.run(pod.name)
    elif what == "lose node" and pod.phase is PodPhase.RUNNING:
        world._update(pod.name, phase=PodPhase.UNKNOWN)
    elif pod.phase is PodPhase.RUNNING and what in ("end", "end beside sidecars"):
        if not pod.is_terminating:
            watch.ended.add(pod.uid)
        code = data.draw(st.sampled_from(EXIT_CODES))
        world.end(pod.name, code, sidecars_run=what != "end" and len(pod.containers) > 1)
    elif pod.phase is PodPhase.RUNNING and what == "evict":
        world.take_away(pod.name)


def history(world: World, data: st.DataObject, moves: tuple[str, ...]) -> Watch:
    """Half of the time all goes well, so that histories get somewhere."""
    watch = Watch(world)
    watch.modes_change = "pause" in moves
    if data.draw(st.booleans()):
        for _ in range(5):
            watch.step()
            world.run()
    for _ in range(data.draw(st.integers(2, 25))):
        if data.draw(st.booleans()):
            world.run(*[p.name for p in world.pods.values() if _can_run(p)])
        what = data.draw(st.sampled_from(moves))
        if what in ("pause", "debug"):
            _toggle(world, what)
        elif what == "scale":
            _scale(world, watch, data)
        elif what == "refuse":
            _refuse(world, data)
        else:
            move(world, watch, what, data)
        if data.draw(st.booleans()):
            world.reap()
        watch.step(data.draw(st.sampled_from((*STEPS, "events", "events"))))
    return watch


def _can_run(pod: Any) -> bool:
    return pod.role and pod.phase is PodPhase.PENDING and not pod.is_terminating


def _toggle(world: World, mode: str) -> None:
    """Modes change at any time, of the kinds that have them and until the job is over."""
    if world.kind.name == "BeamJob" or (world.status and world.status.phase in OVER):
        return
    run_mode = (world.job or {})["spec"].get("runMode", {})
    is_on = run_mode.get(mode, {}).get("enabled", False)
    world.set(**{f"runMode__{mode}__enabled": not is_on})


def _scale(world: World, watch: Watch, data: st.DataObject) -> None:
    elastic = (world.job or {})["spec"].get("elastic", {})
    if not elastic.get("enabled") or (world.status and world.status.phase in OVER):
        return
    watch.scales = True
    wanted = data.draw(st.integers(elastic["minReplicas"], elastic["maxReplicas"]))
    world.set(elastic__expectedReplicas=wanted)


def _refuse(world: World, data: st.DataObject) -> None:
    """The API server refuses some objects of the job from now on, or none any more."""
    names = [("Pod", name) for _, _, name in pod_names(world.description)]
    keys = data.draw(st.lists(st.sampled_from([*world.wanted, *names]), max_size=2))
    reason = data.draw(st.sampled_from((NAME_TAKEN, INVALID_TEMPLATE)))
    world.refused = dict.fromkeys(keys, Obstacle(reason, "no"))


def come_to_rest(world: World, watch: Watch) -> None:
    """Deciding again and again comes to an end, and then nothing is left to do."""
    for _ in range(30):
        step = watch.step()
        if step.is_empty:
            break
        if step.ends_job:
            # Its time to live is over: the job object goes, and all of it with it.
            return
    plan = world.decide()
    assert plan.is_empty
    assert plan.status is None


QUICK = settings(max_examples=MANY, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(name=st.sampled_from(sorted(JOBS)), data=st.data())
def test_any_history_of_pods_keeps_what_must_hold(name: str, data: st.DataObject) -> None:
    world = fresh(name)
    watch = history(world, data, MOVES)
    come_to_rest(world, watch)


@QUICK
@given(name=st.sampled_from(sorted(JOBS)), data=st.data())
def test_any_history_with_changes_of_mode_keeps_what_must_hold(
    name: str, data: st.DataObject
) -> None:
    world = fresh(name)
    watch = history(world, data, (*MOVES, "pause", "debug"))
    come_to_rest(world, watch)


ELASTIC = [name for name, world in JOBS.items() if world.description.min_replicas]


@QUICK
@given(name=st.sampled_from(sorted(ELASTIC)), data=st.data())
def test_any_history_of_an_elastic_job_keeps_what_must_hold(name: str, data: st.DataObject) -> None:
    world = fresh(name)
    watch = history(world, data, (*MOVES, "pause", "scale", "scale"))
    come_to_rest(world, watch)


@QUICK
@given(name=st.sampled_from(sorted(JOBS)), data=st.data())
def test_any_history_with_refused_objects_goes_on_once_they_are_taken(
    name: str, data: st.DataObject
) -> None:
    world = fresh(name)
    watch = history(world, data, (*MOVES, "pause", "refuse", "refuse"))
    world.refused.clear()
    come_to_rest(world, watch)
    if world.kind.name != "BeamJob" and not world.description.faults:
        is_whole = all(row.uid or row.pods_before for row in world.rows.values())
        # One that was paused early has not had all its pods yet.
        assert world.condition("Initialized")[:2] == (
            ("True", "-") if is_whole else ("Unknown", "PodsComing")
        )


@QUICK
@given(name=st.sampled_from(sorted(JOBS)), data=st.data())
def test_nothing_is_planned_for_a_job_that_is_being_deleted(name: str, data: st.DataObject) -> None:
    world = fresh(name)
    history(world, data, MOVES)
    world.is_deleting = True
    assert world.decide() == Plan()


@pytest.mark.parametrize("name", sorted(JOBS))
def test_a_job_whose_pods_all_end_with_0_or_fail_comes_to_an_end(name: str) -> None:
    """Every job that isn't paused or debugged ends, and says how."""
    world = fresh(name)
    mode = (world.job or {})["spec"].get("runMode", {})
    if any(mode.get(each, {}).get("enabled") for each in ("pause", "debug")):
        world.set(**{f"runMode__{each}__enabled": False for each in ("pause", "debug")})
    watch = Watch(world)
    for _ in range(60):
        watch.step()
        world.run()
        watch.step()
        for pod in [p for p in world.pods.values() if p.role and p.phase is PodPhase.RUNNING]:
            watch.ended.add(pod.uid)
            world.end(pod.name, 0)
        world.wait(301)
        world.reap()
        if world.status.phase in OVER:
            break
    assert world.status.phase in OVER or _says_why_not(world)


def _says_why_not(world: World) -> bool:
    """A variable that can't be resolved, or a wish to go on for ever."""
    if world.description.faults:
        return world.condition("Initialized")[:2] == ("False", "BadVariable")
    return any(
        role.restart.policy == "Always" and role.restart.limit is None
        for role in world.description.roles
    )


def test_the_jobs_tried_are_of_every_kind() -> None:
    assert len({name.partition("-")[0] for name in JOBS}) == 8
    assert all(isinstance(world.description, msgspec.Struct) for world in JOBS.values())
