"""`jobyard install`: what it prints is taken by a real API server, and allows just what it says."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from docs_pages.markdown import code, table
from project.markdown_files import blocks
from rig.kube.component import await_condition, start, stop
from rig.kube.kubectl import Kubectl
from rig.kube.namespaces import fresh_name
from rig.kube.plane import ControlPlane
from rig.manifests import ROOT
from rig.waiting import until_it_holds

from jobyard import __version__
from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS, Group
from jobyard.cli.main import cli
from jobyard.install.rbac import (
    CLUSTER,
    OWN_NAMESPACE,
    Permission,
    cluster_permissions,
    cluster_role,
    granted,
    without,
)
from jobyard.install.settings import DEFAULT_IMAGE, GangScheduler
from jobyard.install.workload import USER
from jobyard.manifest.reading import read

PAGE = ROOT / "docs" / "operations" / "installing.md"
READY_SECONDS = 90
STOP_SECONDS = 30
# The namespace comes first, and may have taken the rest along when its turn comes.
UNINSTALL = ("delete", "--ignore-not-found", "-f", "-")
# Reading the CRDs takes a second, and few tests are about them.
BRIEF = "--without-crds"
NAMES = ("name", "part-of", "managed-by", "version")
JOBS = [kind.plural for kind in KINDS if kind.group is Group.BATCH]

# Every account may ask who it is and what it may do; that comes from Kubernetes itself.
ABOUT_ONESELF = {
    ("authentication.k8s.io", "selfsubjectreviews", "create"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "create"),
}


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["install", *args])


def printed(*args: str) -> list[dict[str, Any]]:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return [document.value for document in read(result.stdout, "install")]


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def pod_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = of_kind(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


@dataclass(frozen=True)
class Installed:
    """An installation on the real API server, in a namespace of its own."""

    kubectl: Kubectl
    namespace: str
    manifest: str

    @property
    def account(self) -> str:
        return f"system:serviceaccount:{self.namespace}:jobyard-controller"

    def says_yes(self, *question: str) -> bool:
        return self.kubectl(*question, check=False).stdout.strip() == "yes"


@pytest.fixture(scope="module")
def installed(controllers: ControlPlane, crds: None, run_folder: Path) -> Iterator[Installed]:
    namespace = fresh_name("install")
    kubectl = Kubectl(controllers, namespace, run_folder / "kubectl-cache")
    manifest = run("--namespace", namespace).stdout
    kubectl("apply", "-f", "-", stdin=manifest)
    made = Installed(kubectl, namespace, manifest)
    # The server learns of new roles and bindings a little later than it stores them.
    for right in (("create", "pods", "-n=default"), ("create", "leases.coordination.k8s.io")):
        ask = ("auth", "can-i", *right, f"--as={made.account}")
        until_it_holds(partial(made.says_yes, *ask), " ".join(ask))
    yield made
    # The CRDs are everybody's.
    removed = run("--namespace", namespace, BRIEF).stdout
    kubectl(*UNINSTALL, "--wait=false", stdin=removed)


# What is printed


def test_everything_has_the_labels_and_comes_in_an_order_that_works() -> None:
    objects = printed()
    kinds = [each["kind"] for each in objects]
    assert kinds == [
        "Namespace",
        *["CustomResourceDefinition"] * len(KINDS),
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Deployment",
        "Service",
    ]
    for each in objects:
        labels = each["metadata"]["labels"]
        if each["kind"] == "CustomResourceDefinition":
            continue
        assert {f"app.kubernetes.io/{name}" for name in NAMES} <= set(labels), each["kind"]
        assert labels["app.kubernetes.io/version"] == __version__
        # Pods, services and secrets of jobs are selected by this one.
        assert labels["app.kubernetes.io/managed-by"] != "jobyard"


def test_crds_are_those_of_jobyard_crds_or_none() -> None:
    objects = printed()
    crds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    assert crds == [crd(kind) for kind in KINDS]
    assert printed(BRIEF) == [each for each in objects if each not in crds]


def test_as_json_it_is_one_list() -> None:
    assert json.loads(run(BRIEF, "-o", "json").stdout)["items"] == printed(BRIEF)


def test_only_the_default_namespace_has_the_plain_cluster_wide_names() -> None:
    for namespace, name in (
        ("jobyard-system", "jobyard-controller"),
        ("ml-jobs", "jobyard-controller-ml-jobs"),
    ):
        objects = printed("-n", namespace, BRIEF)
        assert of_kind(objects, "ClusterRole")["metadata"]["name"] == name
        binding = of_kind(objects, "ClusterRoleBinding")
        assert binding["metadata"]["name"] == binding["roleRef"]["name"] == name
        assert [subject["namespace"] for subject in binding["subjects"]] == [namespace]
        assert of_kind(objects, "Namespace")["metadata"]["name"] == namespace
        places = {each["metadata"].get("namespace") for each in objects}
        assert places == {namespace, None}


def test_the_options_reach_the_deployment() -> None:
    objects = printed(
        "--image", "r.example/j:1", "--replicas", "3", "--gang-scheduler", "none", BRIEF
    )
    assert of_kind(objects, "Deployment")["spec"]["replicas"] == 3
    (container,) = pod_of(objects)["containers"]
    assert container["image"] == "r.example/j:1"
    assert container["args"] == [
        "controller",
        "--log-format=json",
        "--lease=jobyard-system/jobyard-controller",
        "--listen=0.0.0.0:8080",
        "--gang-scheduler=none",
    ]
    (usual,) = pod_of(printed(BRIEF))["containers"]
    assert usual["image"] == DEFAULT_IMAGE
    assert usual["args"][-1] == "--gang-scheduler=t9k"


@pytest.mark.parametrize("scheduler", GangScheduler)
def test_the_controller_understands_its_arguments(scheduler: GangScheduler) -> None:
    objects = printed(BRIEF, "-n", "ml-jobs", "--gang-scheduler", str(scheduler))
    (container,) = pod_of(objects)["containers"]
    name, *args = container["args"]
    # Within the program: a command keeps the help option of the first context it is asked in.
    program = click.Context(cli, **cli.context_settings)
    command = cli.get_command(program, name)
    assert command is not None
    chosen = command.make_context(name, args, parent=program).params
    # The role for leases holds only there.
    assert chosen["lease"].namespace == of_kind(objects, "Role")["metadata"]["namespace"]
    # On every address: probes and Prometheus come from outside of the pod.
    assert chosen["listen"] == ("0.0.0.0", container["ports"][0]["containerPort"])
    assert chosen["gang_scheduler"] == scheduler
    assert chosen["log_format"] == "json"
    # Jobs of all namespaces, in the cluster that the pod is in.
    assert not chosen["namespace"]
    assert chosen["kubeconfig"] is None


def test_without_a_gang_scheduler_there_is_no_right_to_make_gangs() -> None:
    taken = set(granted(CLUSTER)) - set(granted(cluster_permissions(GangScheduler.NONE)))
    verbs = ("get", "list", "watch", "create", "delete")
    assert taken == {(Group.SCHEDULER, "podgroups", verb) for verb in verbs}
    role = of_kind(printed("--gang-scheduler", "none", BRIEF), "ClusterRole")
    assert Group.SCHEDULER not in [group for rule in role["rules"] for group in rule["apiGroups"]]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(("-n", "Jobs"), "'Jobs' must have at most 63 lower-case", id="upper case"),
        pytest.param(("-n", "x" * 64), "must have at most 63 lower-case", id="too long"),
        pytest.param(("-n", "a\n"), "must have at most 63 lower-case", id="line feed"),
        pytest.param(("-n", "kube-system"), "'kube-system' is shared with others", id="shared"),
        pytest.param(("-n", "default"), "choose one for Jobyard alone", id="default"),
        pytest.param(("--image", "a b"), "'a b' must be the name of an image", id="blank"),
        pytest.param(("--image", ""), "must be the name of an image", id="no image"),
        pytest.param(("--replicas", "0"), "0 is not in the range x>=1", id="no replicas"),
        pytest.param(("--gang-scheduler", "volcano"), "'t9k', 'none'", id="unknown scheduler"),
    ],
)
def test_what_cannot_work_is_refused(args: tuple[str, ...], told: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert told in result.stderr
    assert not result.stdout


# Permissions


def test_a_verb_taken_away_is_the_only_one_missing() -> None:
    def rights(role: dict[str, Any]) -> list[tuple[str, str, str]]:
        return sorted(
            (group, resource, verb)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        )

    role = cluster_role("some-name")
    whole = rights(role)
    assert whole == sorted(granted(CLUSTER))
    assert len(set(whole)) == len(whole)
    for one in whole:
        less = without(role, *one)
        assert rights(less) == [each for each in whole if each != one]
        assert less["metadata"] == role["metadata"]
        with pytest.raises(ValueError, match="can't be taken away"):
            without(less, *one)
    assert rights(role) == whole
    with pytest.raises(ValueError, match=r"ClusterRole some-name: .* list secrets, so"):
        without(role, "", "secrets", "list")


def test_the_jobs_of_all_kinds_are_in_the_role() -> None:
    rights = set(granted(CLUSTER))
    assert len(JOBS) == 8
    for plural in JOBS:
        assert {(Group.BATCH, plural, verb) for verb in ("list", "watch", "delete")} <= rights
        assert (Group.BATCH, f"{plural}/status", "patch") in rights


def test_the_page_tells_every_permission() -> None:
    text = PAGE.read_text()
    for permissions in (CLUSTER, OWN_NAMESPACE):
        wanted = permission_table(permissions)
        assert f"\n\n{wanted}\n\n" in text, f"{PAGE.name} should have this table:\n{wanted}"


def permission_table(permissions: tuple[Permission, ...]) -> str:
    return table(
        ("API group", "resources", "verbs", "what for"),
        [
            (
                code(each.group) if each.group else "core",
                ", ".join(map(code, each.resources)),
                ", ".join(each.verbs),
                each.why,
            )
            for each in permissions
        ],
    )


def test_the_page_names_the_image_and_the_kinds_of_jobs() -> None:
    text = PAGE.read_text()
    assert f"`{DEFAULT_IMAGE}`" in text
    jobs = " ".join(kind.short_name for kind in KINDS if kind.group is not Group.SCHEDULER)
    assert f"jobyard crds {jobs} | kubectl apply" in text
    command = cli.get_command(click.Context(cli), "install")
    assert command is not None
    for param in command.params:
        if param.name != "output":
            assert f"| `{param.opts[-1]}` |" in text


# On a real API server


def test_applying_it_twice_changes_nothing(installed: Installed) -> None:
    again = installed.kubectl("apply", "-f", "-", stdin=installed.manifest)
    lines = again.stdout.splitlines()
    assert len(lines) == len(read(installed.manifest, "install"))
    assert all(line.endswith(" unchanged") for line in lines), again.stdout
    # Pod-security levels are told as warnings.
    assert not again.stderr


def test_a_server_side_dry_run_accepts_every_variant(installed: Installed) -> None:
    options = ("--replicas=1", "--gang-scheduler=none", "--image=registry.example:5000/a/b:c")
    # Strict validation: a field that the server doesn't know is an error.
    done = installed.kubectl(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=run("-n", installed.namespace, *options, BRIEF).stdout,
    )
    configured = [line for line in done.stdout.splitlines() if "unchanged" not in line]
    assert [line.split()[0] for line in configured] == [
        f"clusterrole.rbac.authorization.k8s.io/jobyard-controller-{installed.namespace}",
        "deployment.apps/jobyard-controller",
    ]


def test_its_pods_are_made_where_restricted_is_enforced(installed: Installed) -> None:
    kubectl = installed.kubectl
    kubectl(
        *("wait", "--for=jsonpath={.status.replicas}=2", "deployment/jobyard-controller"),
        f"--timeout={READY_SECONDS}s",
        timeout_seconds=2 * READY_SECONDS,
    )
    # The same template with one thing less is refused, so it is the level that was met.
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "copy"},
        "spec": pod_of(printed(BRIEF)),
    }
    kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    refused = kubectl(
        *("create", "--dry-run=server", "-f", "-"), stdin=json.dumps(pod), check=False
    )
    assert 'violates PodSecurity "restricted:latest"' in refused.stderr
    assert "unrestricted capabilities" in refused.stderr


def test_the_pods_are_hardened_beyond_restricted() -> None:
    pod = pod_of(printed(BRIEF))
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsUser"] == USER > 0
    assert pod["terminationGracePeriodSeconds"] == 30
    assert set(container["resources"]) == {"requests", "limits"}


def test_selectors_select_the_pods_and_probes_reach_the_port() -> None:
    objects = printed(BRIEF)
    deployment, service = of_kind(objects, "Deployment"), of_kind(objects, "Service")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
    )
    for selector in selectors:
        assert selector
        assert selector.items() <= labels
        # A selector can't change, and a version does.
        assert "app.kubernetes.io/version" not in selector
    (container,) = pod_of(objects)["containers"]
    (port,) = container["ports"]
    assert (port["name"], port["containerPort"]) == ("http", 8080)
    probed = {probe: container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")}
    assert probed == {
        "livenessProbe": {"path": "/healthz", "port": "http"},
        "readinessProbe": {"path": "/readyz", "port": "http"},
    }
    assert [each["targetPort"] for each in service["spec"]["ports"]] == ["http"]
    assert service["metadata"]["annotations"]["prometheus.io/port"] == "8080"


def answers(text: str) -> Iterator[dict[str, Any]]:
    """The objects that kubectl prints one after another."""
    decoder, place = json.JSONDecoder(), 0
    while place < len(text.rstrip()):
        value, end = decoder.raw_decode(text, place)
        yield value
        place = end + len(text[end:]) - len(text[end:].lstrip())


def test_the_account_may_do_every_row_and_nothing_else(installed: Installed) -> None:
    def review(namespace: str, right: tuple[str, str, str]) -> dict[str, Any]:
        group, resource, verb = right
        resource, _, subresource = resource.partition("/")
        attributes = {"namespace": namespace, "group": group, "resource": resource, "verb": verb}
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": installed.account,
                "resourceAttributes": {**attributes, "subresource": subresource},
            },
        }

    asked = [
        *(review("default", right) for right in granted(CLUSTER)),
        *(review(installed.namespace, right) for right in granted(OWN_NAMESPACE)),
    ]
    told = installed.kubectl(
        *("create", "-o", "json", "-f", "-"),
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": asked}),
    )
    allowed = list(answers(told.stdout))
    assert len(allowed) == len(asked)
    for each in allowed:
        assert each["status"]["allowed"], each["spec"]

    for namespace, permissions in (
        ("default", CLUSTER),
        (installed.namespace, (*CLUSTER, *OWN_NAMESPACE)),
    ):
        listed = installed.kubectl(
            *("create", f"--as={installed.account}", "--validate=false", "-o", "json", "-f", "-"),
            stdin=json.dumps(
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectRulesReview",
                    "spec": {"namespace": namespace},
                }
            ),
        )
        (answer,) = answers(listed.stdout)
        rights = {
            (group, resource, verb)
            for rule in answer["status"]["resourceRules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert rights == set(granted(permissions)) | ABOUT_ONESELF


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        ("create", "pods", True),
        ("get", "secrets", True),
        ("patch", "genericjobs.batch.tensorstack.dev/status", True),
        ("list", "secrets", False),
        ("watch", "secrets", False),
        ("create", "pods/exec", False),
        ("get", "pods/log", False),
        ("deletecollection", "pods", False),
        ("patch", "genericjobs.batch.tensorstack.dev", False),
        ("create", "leases.coordination.k8s.io", False),
        ("list", "nodes", False),
        ("escalate", "clusterroles.rbac.authorization.k8s.io", False),
    ],
)
def test_kubectl_says_what_the_account_may(
    verb: str, resource: str, allowed: bool, installed: Installed
) -> None:
    resource, _, subresource = resource.partition("/")
    told = installed.kubectl(
        *("auth", "can-i", verb, resource, f"--subresource={subresource}"),
        *(f"--as={installed.account}", "--namespace=default"),
        check=False,
    )
    assert told.stdout.strip() == ("yes" if allowed else "no"), told.stderr
    assert told.returncode == (0 if allowed else 1)


def test_the_controller_starts_and_leads_with_these_rights(
    installed: Installed, tmp_path: Path
) -> None:
    kubectl = installed.kubectl
    file = tmp_path / "kubeconfig"
    token = kubectl("create", "token", "jobyard-controller").stdout.strip()
    place = {"server": kubectl.plane.url, "certificate-authority": str(kubectl.plane.ca)}
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "rig", "cluster": place}],
                "users": [{"name": "account", "user": {"token": token}}],
                "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "account"}}],
                "current-context": "rig",
            }
        )
    )
    (container,) = pod_of(printed(BRIEF, "-n", installed.namespace))["containers"]
    # Of this namespace only, as other tests have jobs that nobody should look after.
    ours = (f"--kubeconfig={file}", f"--namespace={installed.namespace}", "--listen=127.0.0.1:0")
    program = str(Path(sys.executable).parent / "jobyard")
    controller = start([program, *container["args"], *ours], tmp_path / "log")
    try:
        await_condition(
            lambda: "caches are synced" in controller.log.read_text(),
            "the controller has read all that it works on",
            [controller],
            deadline_seconds=READY_SECONDS,
            ending=None,
        )
    finally:
        stop(controller, grace_seconds=STOP_SECONDS)
    assert controller.process.returncode == 0
    # The server may have been busy with its CRDs, but it must not have forbidden anything.
    assert "forbidden" not in controller.log.read_text().lower(), controller.log_tail()
    # Taken and given back, both with the rights of the account.
    lease = json.loads(kubectl("get", "lease", "jobyard-controller", "-o", "json").stdout)
    assert lease["spec"]["holderIdentity"] == ""


def test_the_roles_for_users_on_the_page_are_accepted(installed: Installed) -> None:
    (roles,) = [block.text for block in blocks(PAGE) if "kind: ClusterRole\n" in block.text]
    done = installed.kubectl(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), stdin=roles
    )
    assert len(done.stdout.splitlines()) == 2


def test_uninstalling_as_told_leaves_the_crds(
    controllers: ControlPlane, crds: None, kubectl: Kubectl
) -> None:
    namespace = fresh_name("uninstall")
    manifest = run("-n", namespace, BRIEF).stdout
    kubectl("apply", f"--namespace={namespace}", "-f", "-", stdin=manifest)
    told = next(block.text for block in blocks(PAGE) if "kubectl delete" in block.text)
    assert told.split("|")[1].split() == ["kubectl", *UNINSTALL]
    kubectl(*UNINSTALL, f"--namespace={namespace}", "--wait=false", stdin=manifest)
    roles = ("clusterrole,clusterrolebinding", f"jobyard-controller-{namespace}")
    assert not kubectl("get", *roles, "--ignore-not-found", "-o", "name").stdout
    # The namespace takes its time, but goes.
    left = kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "json").stdout
    assert not left or json.loads(left)["metadata"]["deletionTimestamp"]
    assert kubectl("get", "crd", "genericjobs.batch.tensorstack.dev", "-o", "name").stdout


# The image


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, with continued lines put together."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (x.partition(" ") for x in joined.split("\n") if x)]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for word, rest in instructions():
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest))
    return found


def test_the_image_is_built_from_files_that_are_there_and_not_ignored() -> None:
    build, final = stages()
    ignored, *kept = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert ignored == "*"
    allowed = {line[1:] for line in kept if line.startswith("!")}
    copies = [rest.split()[:-1] for word, rest in (*build, *final) if word == "COPY"]
    copied = {name for names in copies for name in names if not names[0].startswith("--from")}
    assert copied == allowed
    for name in copied:
        assert (ROOT / name).exists()


def test_the_image_has_all_that_the_wheel_is_made_of() -> None:
    build, _ = stages()
    copied = {name for word, rest in build if word == "COPY" for name in rest.split()[:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hatch = project["tool"]["hatch"]
    needed = [
        "pyproject.toml",
        project["project"]["readme"],
        hatch["version"]["path"],
        *hatch["build"]["targets"]["wheel"]["packages"],
    ]
    for name in needed:
        assert copied & {name, name.split("/")[0]}, name


def test_the_image_runs_jobyard_as_the_user_of_the_deployment() -> None:
    _, final = stages()
    said = dict(final)
    assert said["USER"] == f"{USER}:{USER}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (program,) = json.loads(said["ENTRYPOINT"])
    assert program in project["scripts"]
    # Exec form, and nothing is run while the last stage is put together.
    assert json.loads(said["CMD"]) == ["--help"]
    assert "RUN" not in said
    assert f'description="{project["description"]}"' in said["LABEL"]
    assert f'licenses="{project["license"]}"' in said["LABEL"]
    (image,) = {rest.split()[0] for stage in stages() for word, rest in stage if word == "FROM"}
    assert dict(instructions())["ARG"].startswith(image.strip("${}") + "=python:3.13-slim")
