"""DeepSpeedJob with DeepSpeed's own launcher: pdsh and ssh across the sandboxes of workers."""

from __future__ import annotations

import re

import pytest
import yaml
from rig.places import ROOT

from frameworks.yard import BOUNDED, FAULTS, Ran, Yard

EXAMPLES = ROOT / "examples" / "deepspeedjob"
DEBUG = "deepspeedjob/debug.yaml"
# Of elastic.yaml.
STEPS = 80
WEIGHTS = re.compile(r"rank (\d) of 2 on deepspeed-train-worker-(\d): weights ([-\d., ]+), equal")


def said(ran: Ran, job: str, of: str = "rank ") -> list[str]:
    """What the job's processes printed, sorted: pdsh puts the worker's name before each line."""
    pattern = re.compile(rf"{job}-worker-\d: ({of}.*)")
    return sorted(found[1] for line in ran.lines() if (found := pattern.fullmatch(line)))


def the_ranks_have_learned(ran: Ran) -> None:
    text = "\n".join(ran.lines("worker-0"))
    losses = [float(loss) for loss in re.findall(r"step \d+: loss ([\d.]+)", text)]
    assert len(losses) == 4, ran.text
    assert losses[-1] < losses[0] / 100, ran.text
    learned = {(rank, worker): weights for rank, worker, weights in WEIGHTS.findall(text)}
    assert set(learned) == {("0", "0"), ("1", "1")}, ran.text
    (weights,) = set(learned.values())
    true = (2, -1, 3)
    assert [round(float(each)) for each in weights.split(",")] == list(true), ran.text
    assert ran.code == 0, ran.text


def two_ranks_have_summed(ran: Ran) -> None:
    want = [f"rank {n} of 2: the sum is 3" for n in range(2)]
    assert said(ran, "deepspeed-exec") == want, ran.text
    assert ran.code == 0, ran.text


@pytest.mark.proves("deepspeed", "DeepSpeedJob", "immediate, ZeRO training")
def test_two_workers_train_one_model(yard: Yard) -> None:
    the_ranks_have_learned(yard.run("deepspeedjob/train.yaml"))


def as_go_writes_it(yard: Yard) -> str:
    """The example of a module with all that nobody has said, as programs of the platform do it."""
    text = (EXAMPLES / "module.yaml").read_text().replace("deepspeed-module", "deepspeed-zeros")
    program, job = yaml.safe_load_all(text)
    spec = job["spec"]
    spec["config"] |= {"slotsPerWorker": 0, "autotune": "", "otherArgs": None, "customCommand": ""}
    spec["config"]["run"] |= {"python": [], "exec": None}
    spec["worker"]["restartPolicy"] = ""
    spec["worker"]["template"]["metadata"] = {"creationTimestamp": None}
    zeros = {"minReplicas": 0, "maxReplicas": 0, "expectedReplicas": 0}
    spec["elastic"] = {"enabled": False, **zeros}
    spec["runMode"] = {"debug": {"enable": False, "replicaSpecs": None}, "pause": {"enable": False}}
    return str(yard.person.write("zeros.yaml", yaml.safe_dump_all([program, job])))


@pytest.mark.proves("deepspeed", "DeepSpeedJob", "python, module, exec, customCommand; no root")
def test_each_way_to_name_a_program(ordinary_yard: Yard) -> None:
    """All at once: most of the time goes by while one process of each job imports torch."""
    others = [str(EXAMPLES / f"{name}.yaml") for name in ("module", "python", "custom-command")]
    ran = ordinary_yard.run("deepspeedjob/exec.yaml", *others, as_go_writes_it(ordinary_yard))
    two_ranks_have_summed(ran)
    assert said(ran, "deepspeed-zeros") == [
        f"rank {n} of 2, module allreduce: the sum is 1" for n in range(2)
    ], ran.text
    assert said(ran, "deepspeed-module") == [
        f"rank {n} of 2, module allreduce: the sum is 1" for n in range(2)
    ]
    assert said(ran, "deepspeed-python") == [
        f"rank {n} of 4 (local {n % 2}): the sum is 6" for n in range(4)
    ]
    assert said(ran, "deepspeed-custom") == [
        f"rank {n} of 2 on deepspeed-custom-worker-{n}" for n in range(2)
    ]
    hosts = [line for line in ran.lines("deepspeed-custom") if line.endswith(" slots=1")]
    assert hosts == [f"deepspeed-custom-worker-{n}.deepspeed-custom slots=1" for n in range(2)]


@pytest.mark.sample(*FAULTS)
@pytest.mark.parametrize(
    ("fault", "sign"),
    [
        pytest.param(
            {"replace": {"deepspeed-exec-worker-1.deepspeed-exec slots=1\n": ""}},
            "rank 0 of 1: the sum is 1",
            id="a worker is not in the host file",
        ),
        pytest.param(
            {"env": {"PDSH_SSH_ARGS_APPEND": "-p 1"}},
            "port 1: Connection refused",
            id="pdsh calls at a wrong port",
        ),
    ],
)
def test_a_launch_with_a_fault_is_noticed(
    yard: Yard, fault: dict[str, dict[str, str]], sign: str
) -> None:
    ran = yard.run("deepspeedjob/exec.yaml", *BOUNDED, broken=fault)
    with pytest.raises(AssertionError):
        two_ranks_have_summed(ran)
    assert sign in ran.out, ran.text


@pytest.mark.proves("deepspeed", "DeepSpeedJob", "a killed rank")
def test_a_killed_rank_fails_the_job_and_no_secret_is_told(yard: Yard) -> None:
    ran = yard.run("deepspeedjob/failure.yaml", *BOUNDED)
    assert ran.code == 1, ran.text
    assert said(ran, "deepspeed-failure") == sorted(
        line
        for n in range(2)
        for line in (
            f"rank {n} has a token of 15 characters",
            f"rank {n}: step 1",
            f"rank {n}: step 2",
        )
    )
    # What DeepSpeed tells of it, and what is left of that at the end.
    assert "exits with return code = -9" in ran.out
    assert re.search(r"^worker-0 +Failed +247 +0 ", ran.out, re.MULTILINE), ran.text
    assert "not-for-any-log" not in ran.text


@pytest.mark.proves("deepspeed", "DeepSpeedJob", "debug by hand, pause, elastic")
def test_debug_pause_and_elastic(yard: Yard) -> None:
    with yard.engine():
        for example in ("debug", "pause"):
            yard.apply(f"deepspeedjob/{example}.yaml")
        yard.said("wait", "dj/deepspeed-pause", "--for", "paused", seconds=90)
        yard.said("resume", "dj/deepspeed-pause")

        yard.said("wait", "dj/deepspeed-debug", "--for", "running", seconds=90)
        # Running says that the containers have started, not that sshd listens.
        yard.until("logins", lambda: all(can_log_in(yard, worker) for worker in range(2)))
        assert yard.tried(DEBUG, " ssh ") == "deepspeed-debug-worker-1\n"
        by_hand = yard.tried(DEBUG, " deepspeed --hostfile ")
        assert sorted(re.findall(r"rank \d of \d on .*", by_hand)) == [
            f"rank {n} of 2 on deepspeed-debug-worker-{n}: the sum is 3" for n in range(2)
        ], by_hand

        # Not before: nothing else is to be waited for between its first step and the scaling.
        yard.apply("deepspeedjob/elastic.yaml")
        yard.until("a step", lambda: steps(yard))
        yard.said("scale", "dj/deepspeed-elastic", "3")
        yard.said("wait", "dj/deepspeed-elastic", "--timeout", "240s", seconds=270)
        done = steps(yard)
        assert done[0][0] > 1, f"the training has not gone on, it began again: {done}"
        assert [step for step, _ in done] == list(range(done[0][0], STEPS + 1)), done
        assert {ranks for _, ranks in done} == {3}
        assert yard.job("dj/deepspeed-elastic")["status"]["restarts"] == 0

        yard.said("wait", "dj/deepspeed-pause", "--timeout", "120s", seconds=150)
        log = yard.said("logs", "dj/deepspeed-pause")
        assert sorted(re.findall(r"rank \d of 2: resumed", log)) == [
            f"rank {n} of 2: resumed" for n in range(2)
        ]
        assert yard.job("dj/deepspeed-debug")["status"]["phase"] == "Running"


def can_log_in(yard: Yard, worker: int) -> bool:
    """From worker 0 of the job that is debugged."""
    host = f"deepspeed-debug-worker-{worker}.deepspeed-debug"
    login = ("ssh", "-F", "/root/.ssh/config", host, "true")
    done = yard.person.ask("exec", "dj/deepspeed-debug", "worker-0", "--", *login)
    return done.returncode == 0


def steps(yard: Yard) -> list[tuple[int, int]]:
    """The elastic job's steps of which worker 0's present pod tells, and with how many ranks."""
    log = yard.person.ask("logs", "dj/deepspeed-elastic").stdout
    return [
        (int(step), int(ranks))
        for step, ranks in re.findall(rf"step (\d+) of {STEPS} with (\d) ranks", log)
    ]
