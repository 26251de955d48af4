"""BeamJobs: the submitting pod waits for its cluster, and the status has words of its own."""

from __future__ import annotations

import msgspec
from rig.job_manifests import beam

from jobyard.plan.facts.decision import NAME_TAKEN, Obstacle
from plan.deciding.job_world import World

MANAGER = "job-flinkcluster-jobmanager-0"
TASKS = ("job-flinkcluster-taskmanager-0", "job-flinkcluster-taskmanager-1")


def conditions(world: World) -> list[tuple[str, str, str, str]]:
    return [(str(c.type), str(c.status), c.reason, c.message) for c in world.status.conditions]


def submitted(world: World) -> World:
    """The cluster is ready and the program runs."""
    world.started()
    world.run("job-batchjob-0")
    world.job_url = "http://ui/#/job/1"
    world.settle()
    return world


def test_the_submitting_pod_comes_once_all_pods_of_the_cluster_are_ready() -> None:
    world = World(beam())
    world.settle()
    assert world.made == [MANAGER, *TASKS]
    assert world.status.phase == "Initializing"
    world.run(MANAGER, TASKS[0])
    world.run(TASKS[1], is_ready=False)
    world.settle()
    assert len(world.made) == 3
    assert conditions(world)[1] == (
        "JobRunning",
        "False",
        "-",
        "The program is submitted once the cluster is ready.",
    )
    world._update(TASKS[1], is_ready=True)
    world.settle()
    assert world.made[3:] == ["job-batchjob-0"]
    assert conditions(world) == [
        ("ClusterRunning", "True", "-", "All pods of the cluster are running normally."),
        ("JobRunning", "False", "-", "The submitting pod is Creating."),
    ]
    assert world.status.phase == "Initializing"


def test_a_cluster_that_is_not_ready_says_why() -> None:
    world = World(beam())
    world.settle()
    world._update(TASKS[1], unschedulable="0/3 nodes are available")
    world.run(MANAGER, TASKS[0])
    world.settle()
    assert conditions(world)[0] == (
        "ClusterRunning",
        "False",
        "-",
        "2 of 4 running; flinkcluster-taskmanager-1: Unschedulable: 0/3 nodes are available",
    )


def test_the_status_of_a_running_beam_job() -> None:
    world = submitted(World(beam()))
    assert world.status.phase == "Running"
    assert world.status.job_url == "http://ui/#/job/1"
    uids = {pod.name: pod.uid for pod in world.pods.values()}
    cluster = msgspec.json.decode(msgspec.json.encode(world.status.flink_cluster_status))
    assert cluster == {
        "jobManagerStatus": [
            {"phase": "Running", "reference": {"name": MANAGER, "uid": uids[MANAGER]}}
        ],
        "taskManagerStatus": [
            {"phase": "Running", "reference": {"name": name, "uid": uids[name]}} for name in TASKS
        ],
    }
    assert [status.reference.name for status in world.status.job_status] == ["job-batchjob-0"]
    assert conditions(world)[1] == ("JobRunning", "True", "-", "The program is running.")
    assert [task.type for task in world.status.tasks] == [
        "flinkcluster-jobmanager",
        "flinkcluster-taskmanager",
        "batchjob",
    ]
    assert world.status.aggregate.running == 4


def test_the_page_of_the_job_is_asked_for_until_it_is_known() -> None:
    world = World(beam()).started()
    world.run("job-batchjob-0")
    plan = world.decide()
    assert plan.asks_for_job_url
    assert plan.look_again_at == world.now + 1
    for seconds, pause in ((200, 20), (10_000, 60)):
        world.wait(seconds - (world.now - world.pods["job-batchjob-0"].created_at))
        assert world.decide().look_again_at == world.now + pause, "ever more seldom"
    world.job_url = "http://ui/"
    assert world.decide().asks_for_job_url, "the root of the UI is not yet the job's page"
    world.job_url = "http://ui/#/job/1"
    assert not world.decide().asks_for_job_url


def test_a_failed_submission_is_followed_by_a_numbered_pod_and_kept() -> None:
    world = submitted(World(beam(backoff_limit=2)))
    for number in (0, 1):
        name = f"job-batchjob-{number}"
        world.end(name, 1)
        world.settle()
        world.wait(2)
        told = world.settle()
        assert world.made[-1] == f"job-batchjob-{number + 1}"
        assert [e.message for e in told] == [f"Created 1 pod: job-batchjob-{number + 1}."]
        assert not world.pods[name].is_terminating
        world.run(f"job-batchjob-{number + 1}")
        world.settle()
    assert (world.status.restarts, world.status.phase) == (2, "Running")
    world.end("job-batchjob-2", 1)
    world.settle()
    assert world.status.phase == "Failed"
    assert [name for name in world.pods if "batchjob" in name] == [
        "job-batchjob-0",
        "job-batchjob-1",
        "job-batchjob-2",
    ]


def test_a_submission_seen_late_is_followed_at_once_and_told_by_its_own_name() -> None:
    world = submitted(World(beam()))
    world.end("job-batchjob-0", 1)
    world.step()
    world.wait(60)
    plan = world.step()
    assert [pod["metadata"]["name"] for pod in plan.pods] == ["job-batchjob-1"]
    assert plan.events[-1].message == "Created 1 pod: job-batchjob-1."


def test_the_job_ends_as_its_program_does_and_stays_so() -> None:
    world = submitted(World(beam()))
    world.end("job-batchjob-0", 0)
    world.settle()
    assert world.status.phase == "Succeeded"
    want = [
        ("ClusterRunning", "True", "-", "All pods of the cluster are running normally."),
        ("JobRunning", "False", "Succeeded", "The job has finished successfully."),
    ]
    assert conditions(world) == want
    assert world.settle() == ()
    assert conditions(world) == want
    assert len(world.replicas()) == 4, "the cluster stays by default"


def test_the_cluster_is_cleaned_up_if_the_job_says_so() -> None:
    world = submitted(World(beam(runPolicy={"cleanUpCluster": True})))
    world.end("job-batchjob-0", 0)
    world.settle()
    assert world.replicas() == ["job-batchjob-0"]
    world.reap()
    world.settle()
    assert world.children == {}
    assert conditions(world) == [
        ("ClusterRunning", "False", "Succeeded", "The job has ended."),
        ("JobRunning", "False", "Succeeded", "The job has finished successfully."),
    ]


def test_a_name_taken_after_the_start_does_not_take_the_others_away() -> None:
    world = World(beam())
    world.settle()
    world.run(MANAGER, TASKS[0])
    world.settle()
    del world.pods[TASKS[1]]
    world.refused["Pod", TASKS[1]] = Obstacle(NAME_TAKEN, "Pod x belongs to someone else.")
    for _ in range(4):
        world.step()
    assert sorted(world.replicas()) == [MANAGER, TASKS[0]]
    assert conditions(world)[0] == (
        "ClusterRunning",
        "False",
        "NameTaken",
        "2 of 4 running; flinkcluster-taskmanager-1: NameTaken: Pod x belongs to someone else.",
    )
