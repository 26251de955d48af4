"""tools/get_kube.py: where it looks, in which order, what it builds and what it says.

The commands are stand-ins (files that are executable, a `go` that writes such files),
because the decisions are the script's and the real build takes minutes.
"""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import get_go
import pytest
from rig.places import ROOT

SCRIPT = ROOT / "tools" / "get_kube.py"
ALL = ("etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler")
ENVTEST = ALL[:3]


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("get_kube", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name.
    sys.modules["get_kube"] = module
    spec.loader.exec_module(module)
    return module


get_kube = load_script()
PINS = get_kube.Pins(kubernetes="v1.36.4", go=(1, 26, 0))


def executable(path: Path, script: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def folder_with(folder: Path, *commands: str) -> Path:
    for name in commands:
        executable(folder / name)
    return folder


def go_that_builds(folder: Path, version: str = "go1.26.8") -> Path:
    """A `go` that logs each package it is asked for and writes what a build would."""
    return executable(
        folder / "go",
        "#!/bin/sh\n"
        f'if [ "$1" = env ]; then echo {version}; exit 0; fi\n'
        'while [ "$1" != -o ]; do shift; done\n'
        "shift; into=$1; shift\n"
        f'echo "$*" >> {folder}/built\n'
        "for package; do\n"
        "  name=${package%/v3}; name=${name##*/}\n"
        '  printf "#!/bin/sh\\n" > "$into$name"; /bin/chmod +x "$into$name"\n'
        "done\n",
    )


def environment(tmp_path: Path, **more: str) -> Mapping[str, str]:
    """With no way to a Go but the PATH."""
    return {
        "PATH": str(tmp_path / "bin"),
        "JOBYARD_CACHE": str(tmp_path / "cache"),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_OFFLINE": "1",
        **more,
    }


def test_the_pins_come_from_go_mod() -> None:
    pins = get_kube.pins_of((SCRIPT.parent / "kube" / "go.mod").read_text())
    assert (pins.kubernetes, pins.minor) == ("v1.36.4", "1.36")
    assert pins.go == (1, 26, 0)


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        pytest.param({"JOBYARD_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c", id="our own"),
        pytest.param({"XDG_CACHE_HOME": "/x"}, "/x/jobyard", id="XDG's"),
        pytest.param(
            {"JOBYARD_CACHE": "", "XDG_CACHE_HOME": ""},
            str(Path.home() / ".cache/jobyard"),
            id="empty counts as unset",
        ),
    ],
)
def test_the_cache_is_where_the_environment_says(variables: dict[str, str], root: str) -> None:
    assert get_kube.cache_root(variables) == Path(root)


@pytest.mark.parametrize(
    ("version", "enough"),
    [
        ("go1.26.0", True),
        ("go1.26.8", True),
        ("go1.27rc1", True),
        ("go2.0", True),
        ("devel go1.27-a1b2c3 Mon", True),
        ("go1.25.9", False),
        ("go1.9", False),
        ("nonsense", False),
    ],
)
def test_go_versions_compare_as_numbers(version: str, enough: bool) -> None:
    assert get_go.is_new_enough(version, (1, 26, 0)) is enough


def test_the_linker_stamps_the_version_for_server_and_client() -> None:
    flags = get_kube.linker_flags(PINS)
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"-X {package}.gitVersion=v1.36.4" in flags
        assert f"-X {package}.gitMinor=36" in flags


def test_assets_come_first(tmp_path: Path) -> None:
    folder_with(tmp_path / "cache/kube/v1.36.4", *ALL)
    assets = folder_with(tmp_path / "assets", *ALL)
    found = get_kube.obtain(environment(tmp_path, KUBEBUILDER_ASSETS=str(assets)), PINS)
    assert found == assets


def test_assets_that_lack_a_server_are_refused(tmp_path: Path) -> None:
    folder_with(tmp_path / "cache/kube/v1.36.4", *ALL)
    assets = folder_with(tmp_path / "assets", "etcd")
    with pytest.raises(get_kube.UnavailableError, match="has no kube-apiserver, kubectl; point it"):
        get_kube.obtain(environment(tmp_path, KUBEBUILDER_ASSETS=str(assets)), PINS)


def test_what_assets_lack_is_taken_from_the_cache(tmp_path: Path) -> None:
    cache = folder_with(tmp_path / "cache/kube/v1.36.4", *ALL)
    assets = folder_with(tmp_path / "assets", *ENVTEST)
    variables = environment(tmp_path, KUBEBUILDER_ASSETS=str(assets))
    found = get_kube.obtain(variables, PINS)
    assert {path.name: path.resolve().parent for path in found.iterdir()} == {
        name: assets if name in ENVTEST else cache for name in ALL
    }
    assert get_kube.obtain(variables, PINS) == found


def test_what_assets_lack_is_built(tmp_path: Path) -> None:
    go_that_builds(tmp_path / "bin")
    assets = folder_with(tmp_path / "assets", *ENVTEST)
    found = get_kube.obtain(environment(tmp_path, KUBEBUILDER_ASSETS=str(assets)), PINS)
    assert get_kube.missing_in(found) == ()
    assert (tmp_path / "bin/built").read_text().split() == [
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-scheduler",
    ]


def test_assets_do_without_the_rest_where_it_cannot_be_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assets = folder_with(tmp_path / "assets", *ENVTEST)
    found = get_kube.obtain(environment(tmp_path, KUBEBUILDER_ASSETS=str(assets)), PINS)
    assert found == assets
    assert "has no kube-controller-manager, kube-scheduler" in capsys.readouterr().err


def test_a_complete_cache_is_used_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = folder_with(tmp_path / "cache/kube/v1.36.4", *ALL)
    executable(tmp_path / "bin/setup-envtest", "#!/bin/sh\necho must not be asked >&2; exit 1\n")
    assert get_kube.obtain(environment(tmp_path), PINS) == cache
    assert capsys.readouterr() == ("", "")


def test_the_commands_of_a_node_are_built_when_asked_for_and_only_they(tmp_path: Path) -> None:
    go_that_builds(tmp_path / "bin")
    # No assets have them.
    assets = folder_with(tmp_path / "assets", *ENVTEST)
    variables = environment(tmp_path, KUBEBUILDER_ASSETS=str(assets))
    found = get_kube.obtain_node(variables, PINS)
    assert found == get_kube.obtain_node(variables, PINS)
    assert sorted(path.name for path in found.iterdir()) == ["kube-proxy", "kubelet"]
    assert (tmp_path / "bin/built").read_text().split() == [
        "k8s.io/kubernetes/cmd/kubelet",
        "k8s.io/kubernetes/cmd/kube-proxy",
    ]


def test_everything_is_built_in_one_go_where_all_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    go_that_builds(tmp_path / "bin")
    monkeypatch.setattr("os.environ", environment(tmp_path))
    monkeypatch.setattr("sys.argv", ["get_kube.py", "--all"])
    assert get_kube.main() == 0
    folder = tmp_path / "cache/kube/v1.36.4"
    assert capsys.readouterr().out == f"{folder}\n"
    assert {path.name for path in folder.iterdir()} == {*ALL, "kubelet", "kube-proxy"}
    assert len((tmp_path / "bin/built").read_text().splitlines()) == 1


def test_setup_envtest_comes_before_a_build(tmp_path: Path) -> None:
    go_that_builds(tmp_path / "bin")
    fetched = folder_with(tmp_path / "fetched", *ENVTEST)
    executable(
        tmp_path / "bin/setup-envtest",
        f'#!/bin/sh\n[ "$*" = "use 1.36.x -p path" ] && printf %s {fetched}\n',
    )
    found = get_kube.obtain(environment(tmp_path), PINS)
    assert (found / "etcd").resolve().parent == fetched
    assert (found / "kube-scheduler").resolve().parent == tmp_path / "cache/kube/v1.36.4"


def test_setup_envtest_that_fails_is_told_and_passed_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    go_that_builds(tmp_path / "bin")
    executable(tmp_path / "bin/setup-envtest", "#!/bin/sh\necho no network >&2; exit 2\n")
    assert get_kube.obtain(environment(tmp_path), PINS) == tmp_path / "cache/kube/v1.36.4"
    assert "no network" in capfd.readouterr().err


def test_an_interrupted_build_goes_on_where_it_stopped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    go_that_builds(tmp_path / "bin")
    cache = folder_with(tmp_path / "cache/kube/v1.36.4", "etcd")
    folder_with(cache / "building.part", "kube-apiserver")
    assert get_kube.obtain(environment(tmp_path), PINS) == cache
    assert {path.name for path in cache.iterdir()} == set(ALL)
    # All in one go, so that linking one doesn't hold up the next.
    (built,) = (tmp_path / "bin/built").read_text().splitlines()
    assert len(built.split()) == 4
    assert "about 10 minutes on two cores, once" in capfd.readouterr().err


def test_a_failed_build_leaves_no_command(tmp_path: Path) -> None:
    executable(
        tmp_path / "bin/go",
        '#!/bin/sh\nif [ "$1" = env ]; then echo go1.26.8; else exit 1; fi\n',
    )
    with pytest.raises(get_kube.UnavailableError, match=r"go build of etcd, kube-apiserver, "):
        get_kube.obtain(environment(tmp_path), PINS)
    assert list((tmp_path / "cache/kube/v1.36.4").iterdir()) == []


def test_without_go_the_ways_out_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.environ", environment(tmp_path))
    monkeypatch.setattr("sys.argv", ["get_kube.py"])
    assert get_kube.main() == 1
    output, message = capsys.readouterr()
    assert output == ""
    assert "get_kube: there is no go command on the PATH, and getting it failed:" in message
    for way in ("set KUBEBUILDER_ASSETS", "install setup-envtest", "install Go 1.26 or newer"):
        assert way in message


def test_an_old_go_is_told_to_be_old(tmp_path: Path) -> None:
    go_that_builds(tmp_path / "bin", version="go1.19.8")
    with pytest.raises(get_kube.UnavailableError, match=r"is go1\.19\.8, which is too old"):
        get_kube.obtain(environment(tmp_path), PINS)


def test_a_toolchain_that_cannot_be_fetched_is_told(tmp_path: Path) -> None:
    executable(tmp_path / "bin/go", "#!/bin/sh\necho go.mod requires go 1.26.0 >&2; exit 1\n")
    with pytest.raises(get_kube.UnavailableError, match=r"can't build: go\.mod requires go"):
        get_kube.obtain(environment(tmp_path), PINS)


def test_the_script_prints_the_folder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_with(tmp_path / "assets", *ALL)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setattr("sys.argv", ["get_kube.py"])
    assert get_kube.main() == 0
    assert capsys.readouterr() == (f"{tmp_path / 'assets'}\n", "")


def test_the_script_fails_with_the_message_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["get_kube.py"])
    assert get_kube.main() == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith(f"get_kube: KUBEBUILDER_ASSETS is {tmp_path}, which has no etcd")
