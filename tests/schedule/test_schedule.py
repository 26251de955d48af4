"""Who gets a place on the machine, and what those are told that don't."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jobyard.schedule.amounts import Amounts, told
from jobyard.schedule.deciding import decide
from jobyard.schedule.decision import Decision
from jobyard.schedule.fitness import GATED
from jobyard.schedule.reasons import Reason
from jobyard.schedule.requests import requested
from jobyard.schedule.selecting import wants_node
from jobyard.schedule.snapshot import Candidate, Machine, Snapshot
from jobyard.schedule.tolerating import Taint

MACHINE = Machine(
    name="here",
    capacity=Amounts.of({"cpu": "4", "memory": "8Gi", "pods": 110, "nvidia.com/gpu": 2}),
    labels={"zone": "a", "cores": "4"},
)
RELAXED = Machine(name="here", capacity=MACHINE.capacity, is_relaxed=True)


def candidate(name: str, spec: dict[str, Any], **more: Any) -> Candidate:
    asked = requested(spec)
    return Candidate(uid=name, namespace="default", name=name, spec=spec, asked=asked, **more)


def place(machine: Machine, here: list[Candidate], waiting: list[Candidate]) -> Decision:
    """What is decided of pods without queues or groups."""
    bound = [msgspec.structs.replace(pod, node=machine.name, phase="Running") for pod in here]
    return decide(Snapshot(machine=machine, pods=(*bound, *waiting)))


def container(**requests: str) -> dict[str, Any]:
    named = {name.replace("gpu", "nvidia.com/gpu"): text for name, text in requests.items()}
    return {"name": "main", "resources": {"requests": named}}


def pod(name: str, priority: int = 0, **requests: str) -> Candidate:
    spec = {"containers": [container(**requests)], "priority": priority}
    return candidate(name, spec, created_at=float(ord(name[0])))


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [container(cpu="1"), container(cpu="500m")]}, "1.5", id="sum"),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]},
            "3",
            id="an init container runs alone",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [
                    {**container(cpu="2"), "restartPolicy": "Always"},
                    container(cpu="3"),
                ],
            },
            "5",
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {
                "containers": [container(cpu="2")],
                "initContainers": [
                    container(cpu="3"),
                    {**container(cpu="2"), "restartPolicy": "Always"},
                ],
            },
            "4",
            id="sidecars stay",
        ),
        pytest.param(
            {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]},
            "2",
            id="a limit alone is a request",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, "1.25", id="overhead"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "3"}}},
            "3",
            id="the pod as a whole",
        ),
        pytest.param({"containers": [{"name": "a"}]}, "0", id="nothing"),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, Any], cpu: str) -> None:
    assert str(requested(spec)["cpu"].normalize()) == cpu
    assert requested(spec)["pods"] == 1


def test_what_a_pod_asks_for_as_a_whole_leaves_the_rest_to_its_containers() -> None:
    limits = {"cpu": "1", "memory": "4Gi", "nvidia.com/gpu": 1}
    asked = requested(
        {
            "containers": [{"name": "a", "resources": {"limits": limits}}],
            "resources": {"requests": {"cpu": "2"}},
        }
    )
    assert [asked[name] for name in ("cpu", "memory", "nvidia.com/gpu")] == [2, 4 * 2**30, 1]


def test_the_older_goes_first_and_the_rest_waits_with_numbers() -> None:
    found = place(MACHINE, [pod("z", cpu="1")], [pod("b", cpu="2"), pod("a", cpu="2")])
    assert [each.pod.name for each in found.placed] == ["a"]
    (refused,) = found.refused
    assert refused.why.reason is Reason.WAITING_FOR_ROOM
    assert refused.why.message == (
        "0/1 nodes are available: 1 Insufficient cpu (asks for 2, 1 of 4 free)."
    )


def test_priority_goes_before_age_and_nobody_goes_past_who_could_get_the_room() -> None:
    pods = [pod("a", cpu="3"), pod("b", priority=10, cpu="3"), pod("c", cpu="1"), pod("d")]
    found = place(MACHINE, [], pods)
    # The last one asks for nothing of which the first in line lacks something.
    assert [each.pod.name for each in found.placed] == ["b", "d"]
    whys = {each.pod.name: each.why.reason for each in found.refused}
    assert whys == {"a": Reason.WAITING_FOR_ROOM, "c": Reason.RESERVED}


def test_what_can_never_fit_says_so() -> None:
    (refused,) = place(MACHINE, [], [pod("a", cpu="64", memory="512Gi")]).refused
    assert refused.why.reason is Reason.NEVER_FITS
    assert refused.why.message == (
        "0/1 nodes are available: 1 Insufficient cpu (asks for 64, 4 of 4 free),"
        " 1 Insufficient memory (asks for 512Gi, 8Gi of 8Gi free)."
    )


def test_a_resource_that_the_machine_lacks() -> None:
    limits = {"example.com/fpga": 1}
    asks = candidate("a", {"containers": [{"name": "m", "resources": {"limits": limits}}]})
    (refused,) = place(MACHINE, [], [asks]).refused
    assert (
        "1 Insufficient example.com/fpga (asks for 1, the machine has none)" in refused.why.message
    )


def test_no_device_is_given_twice() -> None:
    holder = candidate("z", {"containers": [container(gpu="1")]}, devices=(0,))
    found = place(MACHINE, [holder], [pod("a", gpu="1"), pod("b", gpu="1")])
    assert [(each.pod.name, each.devices) for each in found.placed] == [("a", (1,))]
    assert "1 Insufficient nvidia.com/gpu (asks for 1, 0 of 2 free)" in found.refused[0].why.message


def test_relaxed_nobody_waits_and_what_is_not_there_is_told() -> None:
    asks = [pod("a", cpu="64", gpu="8"), pod("b", gpu="1", cpu="4"), pod("c", cpu="1")]
    found = place(RELAXED, [], asks)
    assert not found.refused
    assert [(each.pod.name, each.devices, each.cuts) for each in found.placed] == [
        ("a", (0, 1), ("cpu: asks for 64, gets 4", "nvidia.com/gpu: asks for 8, gets 2")),
        ("b", (), ("nvidia.com/gpu: asks for 1, gets 0",)),
        ("c", (), ()),
    ]


def test_a_gated_pod_waits() -> None:
    gated = candidate("a", {"containers": [], "schedulingGates": [{"name": "x"}]})
    (aside,) = place(RELAXED, [], [gated]).aside
    assert aside.word == GATED


def term(key: str, operator: str, *values: str, kind: str = "matchExpressions") -> dict[str, Any]:
    required = {
        "nodeSelectorTerms": [{kind: [{"key": key, "operator": operator, "values": values}]}]
    }
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


@pytest.mark.parametrize(
    ("spec", "is_wanted"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (term("zone", "In", "a", "b"), True),
        (term("zone", "In", "b"), False),
        (term("zone", "NotIn", "a"), False),
        (term("disk", "NotIn", "a"), True),
        (term("zone", "Exists"), True),
        (term("disk", "Exists"), False),
        (term("disk", "DoesNotExist"), True),
        (term("cores", "Gt", "3"), True),
        (term("cores", "Gt", "4"), False),
        (term("cores", "Lt", "5"), True),
        (term("zone", "Lt", "5"), False),
        (term("cores", "Gt", "abc"), False),
        (term("cores", "Lt", "abc"), False),
        (term("cores", "Gt", "-1"), True),
        (term("cores", "Gt", "٣"), False),
        (term("cores", "Gt"), False),
        (term("cores", "Gt", "1", "2"), False),
        (term("metadata.name", "In", "here", kind="matchFields"), True),
        (term("metadata.name", "In", "there", kind="matchFields"), False),
        ({"affinity": {"nodeAffinity": {}}}, True),
    ],
)
def test_what_a_pod_requires_of_its_node(spec: dict[str, Any], is_wanted: bool) -> None:
    assert wants_node(spec, MACHINE.name, MACHINE.labels) is is_wanted
    asks = candidate("a", {"containers": [], **spec})
    assert bool(place(MACHINE, [], [asks]).placed) is is_wanted
    assert place(RELAXED, [], [asks]).placed, "relaxed, any machine will do"


def tolerating(*tolerations: dict[str, str]) -> Candidate:
    spec = {"containers": [], "tolerations": list(tolerations)}
    return candidate("a", spec)


GPU_ONLY = Taint("gpu", "only", "NoSchedule")


@pytest.mark.parametrize(
    ("taint", "toleration", "is_placed"),
    [
        pytest.param(GPU_ONLY, {}, False, id="tolerates nothing"),
        pytest.param(GPU_ONLY, {"key": "gpu", "value": "only"}, True, id="the very taint"),
        pytest.param(GPU_ONLY, {"key": "gpu", "value": "also"}, False, id="another value"),
        pytest.param(GPU_ONLY, {"key": "gpu", "operator": "Exists"}, True, id="any value"),
        pytest.param(GPU_ONLY, {"operator": "Exists"}, True, id="everything"),
        pytest.param(GPU_ONLY, {"key": "tpu", "operator": "Exists"}, False, id="another key"),
        pytest.param(
            GPU_ONLY,
            {"key": "gpu", "operator": "Exists", "effect": "NoExecute"},
            False,
            id="another effect",
        ),
        pytest.param(Taint("a", "", "NoExecute"), {}, False, id="NoExecute keeps out too"),
        pytest.param(Taint("a", "", "PreferNoSchedule"), {}, True, id="a preference"),
    ],
)
def test_taints_keep_out_who_does_not_tolerate_them(
    taint: Taint, toleration: dict[str, str], is_placed: bool
) -> None:
    machine = msgspec.structs.replace(MACHINE, taints=(taint,))
    found = place(machine, [], [tolerating(toleration)])
    assert bool(found.placed) is is_placed
    if not is_placed:
        assert found.refused[0].why.reason is Reason.NODE_SELECTOR_MISMATCH
        assert found.refused[0].why.message == (
            f"0/1 nodes are available: 1 node(s) had untolerated taint"
            f" {{{taint.key}: {taint.value}}}."
        )
    relaxed = msgspec.structs.replace(machine, is_relaxed=True)
    assert place(relaxed, [], [tolerating()]).placed


def test_a_cordoned_machine_takes_only_who_tolerates_that() -> None:
    machine = msgspec.structs.replace(MACHINE, is_cordoned=True)
    (refused,) = place(machine, [], [tolerating()]).refused
    assert refused.why.reason is Reason.NODE_SELECTOR_MISMATCH
    assert refused.why.message == "0/1 nodes are available: 1 node(s) were unschedulable."
    anyhow = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert place(machine, [], [tolerating(anyhow)]).placed


@pytest.mark.parametrize(
    ("name", "quantity", "text"),
    [
        ("cpu", "1500m", "1.5"),
        ("memory", "512Mi", "512Mi"),
        ("memory", "1536Mi", "1.5Gi"),
        ("memory", "24Gi", "24Gi"),
        ("nvidia.com/gpu", "8", "8"),
    ],
)
def test_amounts_are_told_as_people_write_them(name: str, quantity: str, text: str) -> None:
    assert told(name, Amounts.of({name: quantity})[name]) == text
