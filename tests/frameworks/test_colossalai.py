"""ColossalAIJob with `colossalai run`: it logs in to the workers and starts torchrun there."""

from __future__ import annotations

import re

import pytest
import yaml
from rig.places import ROOT

from frameworks.yard import BOUNDED, FAULTS, Ran, Yard

EXAMPLES = ROOT / "examples" / "colossalaijob"
DEBUG = "colossalaijob/debug.yaml"
LAUNCH = (
    *("colossalai", "run", "--nproc_per_node", "1", "--ssh-port", "2222"),
    *("--hostfile", "/run/jobyard/files/hostfile"),
    *("--master_addr", "colossalai-debug-worker-0.colossalai-debug"),
)
WEIGHTS = re.compile(r"rank (\d) of 2 on colossalai-train-worker-(\d): weights ([-\d., ]+), equal")


def the_ranks_have_learned(ran: Ran) -> None:
    text = "\n".join(ran.lines("launcher"))
    losses = [float(loss) for loss in re.findall(r"step \d+: loss ([\d.]+)", text)]
    assert len(losses) == 4, ran.text
    assert losses[-1] < losses[0] / 100, ran.text
    learned = {(rank, worker): weights for rank, worker, weights in WEIGHTS.findall(text)}
    assert set(learned) == {("0", "0"), ("1", "1")}, ran.text
    (weights,) = set(learned.values())
    true = (2, -1, 3)
    assert [round(float(each)) for each in weights.split(",")] == list(true), ran.text
    assert text.count(": success") == 2, ran.text
    assert ran.code == 0, ran.text


def two_ranks_have_summed(ran: Ran) -> None:
    ranks = [line for line in ran.lines() if re.fullmatch(r"rank \d of 2: .*", line)]
    assert sorted(ranks) == [f"rank {n} of 2: the sum is 1" for n in range(2)], ran.text
    assert ran.code == 0, ran.text


@pytest.mark.proves("colossalai", "ColossalAIJob", "immediate, a training with the booster")
def test_two_workers_train_one_model(yard: Yard) -> None:
    the_ranks_have_learned(yard.run("colossalaijob/train.yaml"))


@pytest.mark.proves("colossalai", "ColossalAIJob", "immediate, both shapes; no root")
def test_both_shapes_of_the_kind(ordinary_yard: Yard) -> None:
    """At once: most of the time goes by while one process of each job imports torch.

    The second as the platform's users have it: extraArgs, and a launcher without containers.
    """
    program, job = yaml.safe_load_all((EXAMPLES / "replica-specs.yaml").read_text())
    config = job["spec"]["torchConfig"]
    del config["torchArgs"]
    config["extraArgs"] = ["--extra_launch_args", "max_restarts=2"]
    told = (
        'import os\nprint("restarts " + os.environ["TORCHELASTIC_MAX_RESTARTS"] + "\\n", end="")\n'
    )
    program["data"]["train.py"] = told + program["data"]["train.py"]
    (workers,) = (each for each in job["spec"]["replicaSpecs"] if each["type"] == "worker")
    launcher = {"type": "launcher", "template": {"spec": {"containers": None}}}
    job["spec"]["replicaSpecs"] = [launcher, workers]
    other = str(ordinary_yard.person.write("other.yaml", yaml.safe_dump_all([program, job])))
    ran = ordinary_yard.run("colossalaijob/immediate.yaml", other)
    assert ran.lines().count("restarts 2") == 4, ran.text
    two_ranks_have_summed(ran)
    four = [line for line in ran.lines() if re.fullmatch(r"rank \d of 4: .*", line)]
    assert sorted(four) == [f"rank {n} of 4: the sum is 6" for n in range(4)], ran.text


@pytest.mark.proves("colossalai", "ColossalAIJob", "immediate, old spellings")
def test_old_spellings_and_a_launcher_without_an_image(yard: Yard) -> None:
    """The example of the later shape in the words of before; keys in a place of their own."""
    program, job = yaml.safe_load_all((EXAMPLES / "replica-specs.yaml").read_text())
    (workers,) = (each for each in job["spec"]["replicaSpecs"] if each["type"] == "worker")
    job["spec"] = {
        "ssh": {"sshAuthMountPath": "/keys"},
        "launcher": {"env": [{"name": "OMP_NUM_THREADS", "value": "1"}]},
        "worker": {
            "replicas": workers["replicas"],
            "procPerNode": 2,
            "command": ["/workspace/train.py"],
            "template": workers["template"],
        },
    }
    path = yard.person.write("old.yaml", yaml.safe_dump_all([program, job]))
    ran = yard.run(str(path), *BOUNDED)
    four = [line for line in ran.lines() if re.fullmatch(r"rank \d of 4: .*", line)]
    assert sorted(four) == [f"rank {n} of 4: the sum is 6" for n in range(4)], ran.text
    assert ran.code == 0, ran.text


@pytest.mark.proves("colossalai", "ColossalAIJob", "immediate, launcher and workers of two shapes")
def test_a_launcher_of_the_later_shape_starts_workers_of_the_first(yard: Yard) -> None:
    program, job = yaml.safe_load_all((EXAMPLES / "replica-specs.yaml").read_text())
    config, by_type = job["spec"].pop("torchConfig"), {}
    for each in job["spec"]["replicaSpecs"]:
        by_type[each["type"]] = each
    job["spec"]["replicaSpecs"] = [by_type["launcher"]]
    job["spec"]["worker"] = {
        "replicas": by_type["worker"]["replicas"],
        "procPerWorker": config["procPerWorker"],
        "command": config["script"],
        "template": by_type["worker"]["template"],
    }
    path = yard.person.write("beside.yaml", yaml.safe_dump_all([program, job]))
    ran = yard.run(str(path), *BOUNDED)
    four = [line for line in ran.lines() if re.fullmatch(r"rank \d of 4: .*", line)]
    assert sorted(four) == [f"rank {n} of 4: the sum is 6" for n in range(4)], ran.text
    assert ran.code == 0, ran.text


@pytest.mark.sample(*FAULTS)
@pytest.mark.parametrize(
    ("fault", "sign"),
    [
        pytest.param(
            {"replace": {"colossalai-allreduce-worker-1.colossalai-allreduce\n": ""}},
            "rank 0 of 1 has the sum 0.0",
            id="a worker is not in the host file",
        ),
        pytest.param(
            {"replace": {'exec "$sshd" -D': "exec /nowhere/sshd -D"}},
            "/nowhere/sshd: not found",
            id="workers can't be called",
        ),
    ],
)
def test_a_launch_with_a_fault_is_noticed(
    yard: Yard, fault: dict[str, dict[str, str]], sign: str
) -> None:
    ran = yard.run("colossalaijob/immediate.yaml", *BOUNDED, broken=fault)
    with pytest.raises(AssertionError):
        two_ranks_have_summed(ran)
    assert ran.code == 1, ran.text
    assert sign in ran.text, ran.text


@pytest.mark.proves("colossalai", "ColossalAIJob", "a killed rank")
def test_a_killed_rank_fails_the_job_and_no_secret_is_told(yard: Yard) -> None:
    ran = yard.run("colossalaijob/failure.yaml", *BOUNDED)
    assert ran.code == 1, ran.text
    log = ran.lines("launcher")
    for n in range(2):
        assert f"rank {n} has a token of 15 characters" in log, ran.text
        assert f"rank {n}: step 2" in log, ran.text
        worker = f"colossalai-failure-worker-{n}.colossalai-failure"
        assert f"{worker}: failure" in log, ran.text
    # torchrun tells how each rank ended; what is left at the end is that of the launcher.
    assert any(re.search(r"exitcode +: -9 ", line) for line in log), ran.text
    assert re.search(r"^launcher +Failed +1 +0 ", ran.out, re.MULTILINE), ran.text
    # `colossalai run` did print its environment.
    assert 'OMP_NUM_THREADS="1"' in ran.out
    assert "not-for-any-log" not in ran.text


def with_the_manuals_resume_specs(yard: Yard) -> str:
    """The example whose workers go on as in the manual, and without what would fail them."""
    program, job = yaml.safe_load_all((EXAMPLES / "pause.yaml").read_text())
    job["spec"]["runMode"]["pause"]["resumeSpecs"].append(
        {"type": "worker", "skipInitContainer": True, "command": ["/usr/bin/sshd"]}
    )
    pod = job["spec"]["worker"]["template"]["spec"]
    pod["initContainers"] = [{"name": "never", "image": "any", "command": ["false"]}]
    return str(yard.person.write("pause.yaml", yaml.safe_dump_all([program, job])))


@pytest.mark.proves("colossalai", "ColossalAIJob", "debug by hand, pause")
def test_debug_and_pause(yard: Yard) -> None:
    with yard.engine():
        yard.apply(with_the_manuals_resume_specs(yard))
        yard.said("wait", "caj/colossalai-pause", "--for", "paused", seconds=90)
        yard.said("resume", "caj/colossalai-pause")

        yard.apply(DEBUG)
        yard.said("wait", "caj/colossalai-debug", "--for", "running", seconds=90)
        listed = (
            "exec",
            "caj/colossalai-debug",
            "launcher",
            "--",
            "cat",
            "/run/jobyard/files/hostfile",
        )
        assert yard.said(*listed).split() == [
            f"colossalai-debug-worker-{n}.colossalai-debug" for n in range(2)
        ]

        yard.said("wait", "caj/colossalai-pause", "--timeout", "180s", seconds=210)
        log = yard.said("logs", "caj/colossalai-pause")
        ranks = sorted(re.findall(r"rank \d of 2: (?:fresh|resumed)", log))
        assert ranks == [f"rank {n} of 2: resumed" for n in range(2)], log

        by_hand = yard.tried(DEBUG, "/run/jobyard/files/")
        assert sorted(re.findall(r"rank \d of \d trains", by_hand)) == [
            f"rank {n} of 2 trains" for n in range(2)
        ], by_hand
        assert by_hand.count(": success") == 2, by_hand
        # Without any script of ours, where the home is the one that has the keys.
        plain = yard.said(*listed[:4], "env", "HOME=/root", *LAUNCH, "train.py", seconds=240)
        assert plain.count(": success") == 2, plain
        assert len(re.findall(r"rank \d of 2 trains", plain)) == 2, plain
        assert yard.job("caj/colossalai-debug")["status"]["phase"] == "Running"
