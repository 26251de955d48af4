"""Making a job's objects, and finding out why one can't be made.

They are made a few at first, then twice as many, as the built-in controllers do it: a template
that is refused costs a few calls and not thousands. An object whose name is taken is looked at:
one of the job's own (made before a crash, or not yet seen) counts as made; one of an earlier job
by the same name is waited for; anybody else's is left alone and noted as an obstacle. What the
API server refuses is noted in its own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import overload

import msgspec

from jobyard.client.request import Answer, Request, create, get, resource_named
from jobyard.controller.notes import Note
from jobyard.controller.objects import owned
from jobyard.controller.performing import Outcome, Perform, UnsendableError
from jobyard.controller.records import JobRecord, meta_of
from jobyard.controller.world import World
from jobyard.plan.facts.decision import (
    INVALID_TEMPLATE,
    NAME_TAKEN,
    QUOTA_EXCEEDED,
    Child,
    ChildKey,
    Obstacle,
    child_key,
)
from jobyard.plan.facts.pod_facts import Meta, owner_of
from jobyard.plan.lowering.description import JSON
from jobyard.plan.lowering.names import DIGEST

# An earlier object of the same name is on its way out: nothing to put right, only to wait.
STILL_THERE = "StillThere"
FIRST_BATCH = 4
# A refusal can quote all of an object, and is kept for as long as it stands.
MESSAGE_LENGTH_MAX = 1000
_CONFLICT = 409
_FORBIDDEN = 403
_TOO_LARGE = 413
_SERVER_ERROR = 500
_REFUSED = (400, _FORBIDDEN, _TOO_LARGE, 422)
# etcd's words for an object that it won't store, which come as an error of the server.
_UNSTORABLE = ("request is too large", "message larger than max")
# What an API server reads of a request.
BODY_BYTES_MAX = 3 * 2**20
# Kubernetes' own words; the status code alone doesn't tell it from a policy about pods.
_QUOTA = "exceeded quota"


class Wish(msgspec.Struct, frozen=True):
    """An object that was to be made: what it is, and the reference to its owner."""

    api_version: str
    key: ChildKey
    owner: JSON
    bytes: int


class Fate(Enum):
    """What became of it, if its name wasn't taken."""

    MADE = auto()
    # Refused, or nobody knows: others like it needn't be tried now.
    FAILED = auto()


class Creating:
    """What was made, and what stood in the way, in one pass over a job."""

    def __init__(self, record: JobRecord, note: Note, world: World, perform: Perform) -> None:
        self._record = record
        self._note = note
        self._world = world
        self._perform = perform
        self.made = 0

    async def make(self, manifests: Sequence[JSON]) -> bool:
        """Whether all of them are there now."""
        return await self._try(manifests, is_probe=False)

    async def probe(self, manifests: Sequence[JSON]) -> bool:
        """Whether the API server would take all of them."""
        self._note.is_probed = await self._try(manifests, is_probe=True)
        return self._note.is_probed

    async def _try(self, manifests: Sequence[JSON], *, is_probe: bool) -> bool:
        is_well, at, size = True, 0, FIRST_BATCH
        while at < len(manifests):
            creates = Creates(self._record, manifests[at : at + size], dry_run=is_probe)

            def take(n: int, outcome: Outcome, creates: Creates = creates) -> Fate | Wish:
                return self._taken(creates, n, outcome)

            fates = await self._perform(self._record.key, creates, take)
            is_well = await self._look_at_holders(fates) and is_well
            if Fate.FAILED in fates:
                return False
            at, size = at + size, size * 2
        return is_well

    def _taken(self, creates: Creates, n: int, outcome: Outcome) -> Fate | Wish:
        wish = creates.wishes.get(n)
        if wish is not None and wish.bytes > BODY_BYTES_MAX:
            said = f"it would have {wish.bytes} bytes, and an API server takes {BODY_BYTES_MAX}"
            self._note.obstacles[wish.key] = Obstacle(INVALID_TEMPLATE, said)
            return Fate.FAILED
        if wish is not None and wish.key[0] == "Pod" and not creates.dry_run:
            self._remember(wish.key[1], outcome)
        if outcome is None or wish is None:
            # Not known: tried again, and told by metrics and logs.
            return Fate.FAILED
        if outcome.status == _CONFLICT:
            return wish
        if creates.dry_run and wish.key in self._note.too_large:
            # Whoever doesn't store it doesn't know.
            return Fate.FAILED
        if not outcome.is_ok:
            self._refused(wish.key, outcome)
            return Fate.FAILED
        self._note.obstacles.pop(wish.key, None)
        if not creates.dry_run:
            self.made += 1
            self._absorb(wish.key, outcome)
        return Fate.MADE

    def _remember(self, name: str, outcome: Outcome) -> None:
        """Whether a pod is there is for a watch to tell, which may be behind: then it is asked."""
        is_unknown = outcome is None or outcome.status >= _SERVER_ERROR
        if is_unknown or (outcome is not None and outcome.status == _CONFLICT):
            self._note.unanswered.add(name)

    def _refused(self, key: ChildKey, outcome: Answer) -> None:
        said = outcome.problem.message[:MESSAGE_LENGTH_MAX]
        if outcome.status == _SERVER_ERROR and any(words in said for words in _UNSTORABLE):
            self._note.too_large.add(key)
        elif outcome.status not in _REFUSED:
            # Not the object's fault: tried again, and told by metrics and logs.
            return
        is_forbidden = outcome.status == _FORBIDDEN
        reason = QUOTA_EXCEEDED if is_forbidden and _QUOTA in said else INVALID_TEMPLATE
        self._note.obstacles[key] = Obstacle(reason, said, may_pass=is_forbidden)

    async def _look_at_holders(self, fates: Sequence[Fate | Wish]) -> bool:
        """Who has the names that were taken: whether it is us."""
        wishes = [fate for fate in fates if isinstance(fate, Wish)]
        asked = [
            get(resource_named(wish.api_version, wish.key[0]), self._record.namespace, wish.key[1])
            for wish in wishes
        ]
        if not asked:
            return True
        return all(
            await self._perform(self._record.key, asked, lambda n, o: self._is_held(wishes[n], o))
        )

    def _is_held(self, wish: Wish, outcome: Outcome) -> bool:
        """Whether the name is in the job's own hands, with an object that stays."""
        if outcome is None or not outcome.is_ok:
            # Gone in the meantime, most likely: the next pass finds out.
            return False
        self._note.unanswered.discard(wish.key[1])
        meta = meta_of(outcome.body)
        if not _is_ours(meta, wish.owner):
            self._note.obstacles[wish.key] = self._holder(wish, meta)
            return False
        if meta.deletion_timestamp is None:
            self._absorb(wish.key, outcome)
            return True
        self._note.obstacles.pop(wish.key, None)
        return False

    def _holder(self, wish: Wish, meta: Meta) -> Obstacle:
        kind, name = wish.key
        owner = owner_of(meta)
        what = f"{kind} {self._record.namespace}/{name}"
        if meta.deletion_timestamp is not None:
            return Obstacle(STILL_THERE, f"an earlier {what} is still being deleted")
        if _is_of_earlier(meta, wish.owner):
            said = (
                f"{what} of an earlier {owner.kind} {owner.name} is still there, and goes with it"
            )
            return Obstacle(STILL_THERE, said)
        whose = f"belongs to {owner.kind} {owner.name}" if owner.uid else "has no owner"
        return Obstacle(
            NAME_TAKEN,
            f"{what} exists already and {whose}: delete or rename it;"
            " the job continues by itself once the name is free",
        )

    def _absorb(self, key: ChildKey, answer: Answer) -> None:
        self._note.obstacles.pop(key, None)
        kind, name = key
        if kind == "Pod":
            self._note.unanswered.discard(name)
            self._world.pods.absorb(self._world.decode_pod(answer.body))
        elif kind == "Secret":
            meta = meta_of(answer.body)
            digest = (meta.annotations or {}).get(DIGEST, "")
            self._note.secrets[name] = Child(kind=kind, name=name, uid=meta.uid, digest=digest)
        else:
            self._world.children[kind].absorb(self._world.decode_child[kind](answer.body))


class Creates(Sequence[Request]):
    """The requests that make objects, each built when it is to be sent."""

    def __init__(self, record: JobRecord, manifests: Sequence[JSON], *, dry_run: bool) -> None:
        self._record = record
        self._manifests = manifests
        self.dry_run = dry_run
        # Of those that were built.
        self.wishes: dict[int, Wish] = {}

    def __len__(self) -> int:
        return len(self._manifests)

    @overload
    def __getitem__(self, place: int) -> Request: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Request]: ...
    def __getitem__(self, place: int | slice) -> Request | Sequence[Request]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        manifest = owned(self._record, self._manifests[place])
        api_version, key = manifest["apiVersion"], child_key(manifest)
        (owner,) = manifest["metadata"]["ownerReferences"]
        resource = resource_named(api_version, key[0])
        request = create(resource, self._record.namespace, manifest, dry_run=self.dry_run)
        size = len(request.body or b"")
        self.wishes[place] = Wish(api_version, key, owner, size)
        if size > BODY_BYTES_MAX:
            raise UnsendableError
        return request


def _is_ours(meta: Meta, owner: JSON) -> bool:
    return owner_of(meta).uid == str(owner["uid"])


def _is_of_earlier(meta: Meta, owner: JSON) -> bool:
    """Its owner had the name and kind of ours: a job that was deleted and made again."""
    return any(
        reference.get("controller")
        and all(reference.get(field) == owner[field] for field in ("apiVersion", "kind", "name"))
        for reference in meta.owner_references
    )
