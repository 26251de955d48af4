"""What a pass needs to know that isn't watched: it is looked up when a decision asks for it.

Secrets, nodes, the events of pods, and pods that may have been made although no answer came, are
asked of the API server, the page of a job's program of the program's own cluster. What is learned
goes into the job's note, for the next decision.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobyard.client.deep_json import decoded_json
from jobyard.client.request import NODES, PODS, SECRETS, Answer, Request, get
from jobyard.controller.asking import Ask
from jobyard.controller.notes import Note, Notes
from jobyard.controller.performing import Outcome, Perform, as_it_is
from jobyard.controller.records import JobRecord
from jobyard.controller.warnings import last_warning, warnings_about
from jobyard.controller.world import World
from jobyard.plan.facts.slow_starts import ASK_AGAIN_SECONDS
from jobyard.plan.lowering.ssh import keys_name

_NOT_FOUND = 404


class Lookups:
    """Looks things up for passes."""

    def __init__(self, world: World, notes: Notes, perform: Perform, ask: Ask) -> None:
        self._world = world
        self._notes = notes
        self._perform = perform
        self._ask = ask

    async def find_unanswered(self, record: JobRecord, note: Note) -> bool:
        """Pods that may have been made, although nobody said so. Whether it is known now.

        Nothing can be said of a job, such as that it is paused, while one may be there unseen.
        """
        note.unanswered -= {pod.name for pod in self._world.pods.of_job(record.uid)}
        names = sorted(note.unanswered)

        def take(n: int, outcome: Outcome) -> bool:
            is_known = outcome is not None and (outcome.is_ok or outcome.status == _NOT_FOUND)
            if outcome is not None and outcome.is_ok:
                self._world.pods.absorb(self._world.decode_pod(outcome.body))
            if is_known:
                note.unanswered.discard(names[n])
            return is_known

        asked = [get(PODS, record.namespace, name) for name in names]
        return all(await self._perform(record.key, asked, take)) if asked else True

    async def ask_nodes(self, record: JobRecord, nodes: Sequence[str]) -> bool:
        """Whether any is lost. An answer is for the next pass only."""

        def take(n: int, outcome: Outcome) -> str:
            return nodes[n] if outcome is not None and is_lost(outcome) else ""

        asked = [get(NODES, "", node) for node in nodes]
        lost = [*filter(None, await self._perform(record.key, asked, take) if asked else ())]
        self._notes.of(record).lost_nodes = frozenset(lost)
        return bool(lost)

    def ask_for_page(self, record: JobRecord) -> None:
        """The answer comes some time later, into the notes, and wakes the job if it is news."""
        note, page = self._notes.of(record), self._notes.lowered(record).description.page
        assert page is not None, "nobody asks for a page that a kind doesn't have"
        path = PODS.item(record.namespace, f"{page.pod}:{page.port}", f"proxy/{page.path}")

        def answered(body: bytes | None) -> None:
            before, note.job_url = note.job_url, page.url(body)
            if note.job_url != before:
                self._world.wake(record.key)

        self._ask(record.key, Request(method="GET", path=path), answered)

    async def ask_about(self, record: JobRecord, uids: Sequence[str], now: float) -> bool:
        """Whether the events of pods that don't start have something new to say."""
        note = self._notes.of(record)
        for known in (note.asked_about, note.pod_warnings):
            for gone in known.keys() - set(uids):
                del known[gone]
        due = [uid for uid in uids if now - note.asked_about.get(uid, 0) >= ASK_AGAIN_SECONDS]
        if not due:
            return False

        def take(n: int, outcome: Outcome) -> bool:
            if outcome is None or not outcome.is_ok:
                return False
            note.asked_about[due[n]] = now
            told = last_warning(outcome.body)
            before = note.pod_warnings.get(due[n])
            if told is not None:
                note.pod_warnings[due[n]] = told
            return told is not None and told != before

        requests = [warnings_about(record.namespace, uid) for uid in due]
        return any(await self._perform(record.key, requests, take))

    async def find_secrets(self, record: JobRecord, note: Note) -> bool:
        """Secrets are read by name, not watched. Whether it is known now.

        Asked for while the job has no pods: those that are made then need them.
        """
        description = self._notes.lowered(record).description
        has_pods = bool(self._world.pods.of_job(record.uid))
        if not description.ssh_files or (note.has_asked_for_secrets and has_pods):
            return True
        name = keys_name(description.identity)
        asked = get(SECRETS, record.namespace, name)
        (outcome,) = await self._perform(record.key, [asked], as_it_is)
        if outcome is None or (not outcome.is_ok and outcome.status != _NOT_FOUND):
            return False
        note.has_asked_for_secrets = True
        note.secrets.pop(name, None)
        if outcome.is_ok:
            found = self._world.decode_child["Secret"](outcome.body)
            if found.job_uid == record.uid:
                note.secrets[name] = found.child
        return True


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    status: _NodeStatus = _NodeStatus()


def is_lost(outcome: Answer) -> bool:
    """A node that is gone, or of which nothing is heard.

    One that says it isn't ready is heard of: its containers may well run.
    """
    if outcome.status == _NOT_FOUND:
        return True
    if not outcome.is_ok:
        return False
    node = decoded_json(outcome.body, type=_Node)
    return any(c.type == "Ready" and c.status == "Unknown" for c in node.status.conditions)
