"""The page of a BeamJob's program in its cluster's own UI.

The cluster itself knows under which id the program runs; the controller asks it through the
API server, and gets the page's address from the answer. Until there is one, the page is the
root of the UI.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final, TypeVar

import msgspec

from jobyard.plan.lowering.description import Identity, Page, Role
from jobyard.plan.lowering.listing import named_port
from jobyard.plan.lowering.names import host_name, pod_name

# Flink's are 32 hexadecimal digits, Spark's `app-20260131120000-0000`.
T = TypeVar("T")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _FlinkJob(msgspec.Struct, frozen=True):
    jid: str


class _FlinkJobs(msgspec.Struct, frozen=True):
    jobs: tuple[_FlinkJob, ...] = ()


class _SparkApp(msgspec.Struct, frozen=True):
    id: str


class _SparkMaster(msgspec.Struct, frozen=True):
    activeapps: tuple[_SparkApp, ...] = ()


def job_page(identity: Identity, master: Role) -> Page:
    """The page that the cluster with this master has for its one program."""
    spark = named_port(master, "ui")
    port = spark or named_port(master, "rest") or 8081
    host = host_name(identity, master, 0)
    root = f"http://{host}.{identity.namespace}:{port}/"
    return Page(
        pod=pod_name(identity.name, master, 0),
        port=port,
        path="jobs/overview" if spark is None else "json/",
        url=partial(_flink_page if spark is None else _spark_page, root),
        is_known=lambda url: "/job/" in url or "appId=" in url,
    )


def _flink_page(root: str, answer: bytes | None) -> str:
    jobs = _decoded(answer, _FlinkJobs).jobs
    known = bool(jobs) and _is_id(jobs[0].jid)
    return f"{root}#/job/running/{jobs[0].jid}/overview" if known else root


def _spark_page(root: str, answer: bytes | None) -> str:
    apps = _decoded(answer, _SparkMaster).activeapps
    return f"{root}app/?appId={apps[0].id}" if apps and _is_id(apps[0].id) else root


def _decoded(answer: bytes | None, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=type_) if answer is not None else type_()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Somebody else's page, or a version that answers in another way.
        return type_()


def _is_id(text: str) -> bool:
    """The pod may say anything, and what it says becomes part of the status."""
    return _ID.fullmatch(text) is not None
