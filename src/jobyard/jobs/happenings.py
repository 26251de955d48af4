"""Which events are worth a line while jobs run, and whose they are.

A pod's event names the pod by its uid. Events and pods come by watches of their own, so an event
may be there before its pod; it is held until the pod has been seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jobyard.client.request import PODS
from jobyard.jobs.explaining.happened import stem_of
from jobyard.jobs.observer import Observer
from jobyard.jobs.pods import JobPod
from jobyard.jobs.view import JobView
from jobyard.terminal.widths import one_line

# What is told at its own place already, or says what everybody sees.
_SILENT: Final = ("BackOff",)
# The scheduler's word for a pod that gets less than it asked for.
CUT_DOWN: Final = "CutDown"
Event = dict[str, Any]


class Happenings:
    """Tells what happens to jobs and their pods; `views` are the jobs by uid, as they are now."""

    def __init__(self, views: Mapping[str, JobView], show: Observer) -> None:
        self._views = views
        self._show = show
        # The jobs of pods, by uid, and what is known of pods that weren't seen yet.
        self._jobs: dict[str, str] = {}
        self._held: dict[str, list[Event]] = {}

    def saw_pod(self, pod: JobPod, job_uid: str) -> None:
        uid = pod.metadata.uid
        self._jobs[uid] = job_uid
        for event in self._held.pop(uid, ()):
            self.saw_event(event)

    def saw_event(self, event: Event) -> None:
        is_told = event.get("type") == "Warning" or event.get("reason") == CUT_DOWN
        if not is_told or event.get("reason") in _SILENT:
            return
        about = event.get("involvedObject") or {}
        kind, name, uid = (str(about.get(field, "")) for field in ("kind", "name", "uid"))
        if kind == PODS.kind and uid not in self._jobs:
            # The namespace may be full of others; a pod's name begins with its job's.
            if any(name.startswith(f"{view.name}-") for view in self._views.values()):
                self._held.setdefault(uid, []).append(event)
            return
        view = self._views.get(self._jobs.get(uid, uid))
        if view is not None:
            self._tell(event, view, kind, name)

    def _tell(self, event: Event, view: JobView, kind: str, name: str) -> None:
        message = str(event.get("message"))
        if view.is_over and message == view.message:
            # How it ended is said at the end.
            return
        if self._show.has_heard(message) or _is_starting(kind, name, message):
            return
        if event.get("reason") == CUT_DOWN:
            # The same holds for all replicas of a role.
            role = stem_of(name).removeprefix(f"{view.name}-")
            self._show.note_once(f"{view}: {role}: {one_line(message)}")
        else:
            self._show.warn_once(f"{kind}/{name}: {one_line(message)}")


def _is_starting(kind: str, name: str, message: str) -> bool:
    """A TensorBoard that doesn't answer yet: it takes seconds to start, and nobody waits for it."""
    is_probe = message.startswith("Readiness probe failed")
    return kind == PODS.kind and is_probe and "-tensorboard" in name
