"""Commands on a real terminal, and a hostile API server for them to speak to.

The server is a liar: whatever it is asked for it has, and every text that it can choose is one
that would act on a terminal. Or it refuses, in such words.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

from rig.person import Person

from cli.hostile_sequences import LINES, TEXT

JSON = dict[str, Any]
STAMP = "2024-01-01T00:00:00Z"
SIZE = struct.pack("HHHH", 30, 120, 0, 0)


def raw_of(who: Person, *words: str, seconds: float = 90, **env: str) -> tuple[int, bytes]:
    """The exit code of `jobyard` with these words, and all that came to its terminal."""
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, SIZE)
        process = subprocess.Popen(
            ["setsid", "--ctty", *who.jobyard(*words)],
            cwd=who.work,
            env=who.environment | {"TERM": "xterm-256color"} | env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        raw = _until_the_end(master, monotonic() + seconds)
        return process.wait(timeout=10), raw
    finally:
        os.close(master)


def _until_the_end(master: int, deadline: float) -> bytes:
    raw = b""
    while True:
        ready, _, _ = select.select([master], [], [], max(deadline - monotonic(), 0))
        assert ready, f"it doesn't end; so far {raw!r}"
        try:
            raw += os.read(master, 65536)
        except OSError:
            # The last one who had it open is gone.
            return raw


def hostile_job(text: str = TEXT) -> JSON:
    failure = {"attempt": 0, "exitCode": 1, "reason": text, "message": text}
    row = {"name": f"job-{text}", "phase": text, "uid": "u", "lastFailure": failure}
    row |= {"containers": [{"name": text}], "restartCount": 1}
    done = {"name": "job-worker-0", "phase": "Failed", "uid": "u", "lastFailure": failure}
    conditions = [
        {"type": kind, "status": "True", "reason": text, "message": text}
        for kind in ("ReplicaFailure", "Failed", text)
    ]
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": metadata(text),
        "spec": {"replicaSpecs": [{"type": text, "template": {"spec": {"containers": []}}}]},
        "status": {
            "phase": "Failed",
            "startTime": text,
            "completionTime": text,
            "conditions": conditions,
            "tasks": [{"type": "worker", "status": [row, done]}],
        },
    }


def metadata(text: str) -> JSON:
    return {
        "name": "job",
        "namespace": text,
        "uid": "uid-of-job",
        "resourceVersion": "1",
        "creationTimestamp": STAMP,
        "labels": {text: text},
        "annotations": {text: text, "plain": text},
        "ownerReferences": [{"kind": text, "name": text, "uid": text}],
    }


def hostile_pod(text: str = TEXT) -> JSON:
    own = {
        **metadata(text),
        "name": f"job-{text}-0",
        "labels": {"tensorstack.dev/replica-type": text},
        "ownerReferences": [{"kind": "GenericJob", "name": "j", "uid": "uid-of-job"}],
    }
    state = {"terminated": {"exitCode": 1, "reason": text, "message": text}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": own,
        "spec": {"containers": [{"name": text}, {"name": "other"}]},
        "status": {
            "phase": "Failed",
            "containerStatuses": [{"name": text, "restartCount": 0, "state": state}],
        },
    }


def hostile_event(text: str = TEXT) -> JSON:
    about = {"kind": "GenericJob", "name": text, "uid": "uid-of-job"}
    return {
        "metadata": {"name": text, "resourceVersion": "1", "creationTimestamp": STAMP},
        "type": "Warning",
        "reason": text,
        "message": text,
        "involvedObject": about,
        "lastTimestamp": STAMP,
        "count": 3,
    }


def hostile_queue(text: str = TEXT) -> JSON:
    """Its statistics are numbers to whoever believes them."""
    words = {text: text, "cpu": text}
    return {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "Queue",
        "metadata": metadata(text),
        "spec": {"quota": words, "priority": 1, "maxDuration": text, "closed": True},
        "status": {"allocated": words, "request": words, "statistics": {text: 1}},
    }


def hostile_group(text: str = TEXT) -> JSON:
    """A gang that waits in the queue, for a reason in such words."""
    condition = {"type": "Unschedulable", "status": "True", "reason": text, "message": text}
    return {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata(text),
        "spec": {"minMember": 2, "queue": f"job{text}"},
        "status": {"phase": text, "conditions": [condition]},
    }


def hostile_table(text: str = TEXT) -> JSON:
    columns = [{"name": name, "type": "string", "priority": 0} for name in ("Name", text, "Age")]
    row = {"cells": [text, text, "1s"], "object": {"metadata": metadata(text)}}
    return {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "Table",
        "metadata": {"resourceVersion": "1"},
        "columnDefinitions": columns,
        "rows": [row],
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    refuses = False

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        code, body = self._answer()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # Who has seen enough leaves.
        with suppress(OSError):
            self.wfile.write(body)

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def _answer(self) -> tuple[int, bytes]:
        path = self.path.partition("?")[0]
        if self.refuses:
            status = {"kind": "Status", "status": "Failure", "code": 403, "reason": TEXT}
            return 403, json.dumps({**status, "message": TEXT}).encode()
        if path.endswith("/log"):
            return 200, LINES
        if "watch=" in self.path:
            return 200, b""
        items = {
            "pods": hostile_pod,
            "events": hostile_event,
            "genericjobs": hostile_job,
            "queues": hostile_queue,
            "podgroups": hostile_group,
        }
        last = path.rpartition("/")[2]
        if "as=Table" in self.headers.get("Accept", ""):
            return 200, json.dumps(hostile_table()).encode()
        if last in items or "/" not in path.partition("/namespaces/")[2].partition("/")[2]:
            listed = [items[last]()] if last in items else []
            for each in listed:
                each["metadata"]["name"] = each["metadata"]["name"] + TEXT
            return 200, json.dumps({"metadata": {"resourceVersion": "1"}, "items": listed}).encode()
        kind = path.split("/")[-2]
        if kind in items:
            return 200, json.dumps(items[kind]()).encode()
        return 404, b'{"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}'


@contextmanager
def hostile_server(folder: Path, *, refuses: bool) -> Iterator[Path]:
    """The kubeconfig for a server that lies, or refuses everything."""
    handler = type("Handler", (_Handler,), {"refuses": refuses})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
            ],
            "users": [{"name": "u", "user": {"token": "x"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = folder / f"kubeconfig-{server.server_port}"
        path.write_text(json.dumps(config))
        try:
            yield path
        finally:
            server.shutdown()
            thread.join()
