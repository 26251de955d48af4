"""The page of a BeamJob's program in its cluster's own UI.

The cluster itself knows under which id the program runs; the controller asks it through the
API server, and gets the page's address from the answer. Until there is one, the page is the
root of the UI.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from jobyard.plan.lowering.description import Description
from jobyard.plan.lowering.listing import named_port
from jobyard.plan.lowering.names import host_name, pod_name

# Flink's are 32 hexadecimal digits, Spark's `app-20260131120000-0000`.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Question(msgspec.Struct, frozen=True):
    """Which pod is asked, at which port, for what."""

    pod: str
    port: int
    path: str


class _FlinkJob(msgspec.Struct, frozen=True):
    jid: str


class _FlinkJobs(msgspec.Struct, frozen=True):
    jobs: tuple[_FlinkJob, ...] = ()


class _SparkApp(msgspec.Struct, frozen=True):
    id: str


class _SparkMaster(msgspec.Struct, frozen=True):
    activeapps: tuple[_SparkApp, ...] = ()


def question(description: Description) -> Question:
    master = description.roles[0]
    pod = pod_name(description.identity.name, master, 0)
    spark = named_port(master, "ui")
    if spark is not None:
        return Question(pod, spark, "json/")
    return Question(pod, named_port(master, "rest") or 8081, "jobs/overview")


def page_url(description: Description, answer: bytes | None) -> str:
    """The program's page, or the UI's root as long as the cluster doesn't know the program."""
    asked = question(description)
    host = host_name(description.identity, description.roles[0], 0)
    root = f"http://{host}.{description.identity.namespace}:{asked.port}/"
    if answer is None:
        return root
    try:
        if asked.path == "json/":
            apps = msgspec.json.decode(answer, type=_SparkMaster).activeapps
            return f"{root}app/?appId={apps[0].id}" if apps and _is_id(apps[0].id) else root
        jobs = msgspec.json.decode(answer, type=_FlinkJobs).jobs
        is_known = bool(jobs) and _is_id(jobs[0].jid)
        return f"{root}#/job/running/{jobs[0].jid}/overview" if is_known else root
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Somebody else's page, or a version that answers in another way.
        return root


def _is_id(text: str) -> bool:
    """The pod may say anything, and what it says becomes part of the status."""
    return _ID.fullmatch(text) is not None
