"""Making a job's objects, and finding out why one can't be made.

An object whose name is taken is looked at: one of the job's own (made before a crash, or not
yet seen) counts as made; anybody else's is left alone and noted as an obstacle. What the API
server refuses is noted in its own words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from jobyard.client.request import Answer, Request, create, get, resource_named
from jobyard.controller.notes import Note
from jobyard.controller.objects import owned
from jobyard.controller.records import JobRecord, meta_of
from jobyard.controller.world import World
from jobyard.plan.decision import (
    INVALID_TEMPLATE,
    NAME_TAKEN,
    QUOTA_EXCEEDED,
    Child,
    ChildKey,
    Obstacle,
    child_key,
)
from jobyard.plan.description import JSON
from jobyard.plan.naming import DIGEST
from jobyard.plan.pod_facts import Meta, owner_of

Outcome = Answer | None
# An earlier object of the same name is on its way out: nothing to put right, only to wait.
STILL_THERE = "StillThere"
_CONFLICT = 409
_FORBIDDEN = 403
_REFUSED = (400, _FORBIDDEN, 422)
# Kubernetes' own words; the status code alone doesn't tell it from a policy about pods.
_QUOTA = "exceeded quota"


class Creating:
    """What was made, and what stood in the way, in one pass over a job."""

    def __init__(
        self,
        record: JobRecord,
        note: Note,
        world: World,
        perform: Callable[[Sequence[Request]], Awaitable[Sequence[Outcome]]],
    ) -> None:
        self._record = record
        self._note = note
        self._world = world
        self._perform = perform
        self.made = 0

    async def make(self, manifests: Sequence[JSON]) -> bool:
        """Whether all of them are there now."""
        outcomes = await self._sent(manifests, dry_run=False)
        is_well = True
        for manifest, outcome in zip(manifests, outcomes, strict=True):
            if outcome is not None and outcome.is_ok:
                self.made += 1
                self._absorb(child_key(manifest), outcome)
            elif outcome is not None and outcome.status == _CONFLICT:
                is_well = await self._look_at_holder(manifest) and is_well
            else:
                self._refused(child_key(manifest), outcome)
                is_well = False
        return is_well

    async def probe(self, manifests: Sequence[JSON]) -> bool:
        """Whether the API server would take all of them."""
        outcomes = await self._sent(manifests, dry_run=True)
        is_well = True
        for manifest, outcome in zip(manifests, outcomes, strict=True):
            if outcome is not None and outcome.is_ok:
                self._note.obstacles.pop(child_key(manifest), None)
            elif outcome is not None and outcome.status == _CONFLICT:
                is_well = await self._look_at_holder(manifest) and is_well
            else:
                self._refused(child_key(manifest), outcome)
                is_well = False
        self._note.is_probed = is_well
        return is_well

    async def _sent(self, manifests: Sequence[JSON], *, dry_run: bool) -> Sequence[Outcome]:
        return await self._perform(
            [
                create(
                    resource_named(manifest["apiVersion"], manifest["kind"]),
                    self._record.namespace,
                    owned(self._record, manifest),
                    dry_run=dry_run,
                )
                for manifest in manifests
            ]
        )

    def _refused(self, key: ChildKey, outcome: Outcome) -> None:
        if outcome is None or outcome.status not in _REFUSED:
            # Not known, or not the object's fault: tried again, and told by metrics and logs.
            return
        said = outcome.problem.message
        is_forbidden = outcome.status == _FORBIDDEN
        reason = QUOTA_EXCEEDED if is_forbidden and _QUOTA in said else INVALID_TEMPLATE
        self._note.obstacles[key] = Obstacle(reason, said, may_pass=is_forbidden)

    async def _look_at_holder(self, manifest: JSON) -> bool:
        """Who has the name: whether it is us."""
        key = child_key(manifest)
        resource = resource_named(manifest["apiVersion"], manifest["kind"])
        request = get(resource, self._record.namespace, key[1])
        (outcome,) = await self._perform([request])
        if outcome is None or not outcome.is_ok:
            # Gone in the meantime, most likely: the next pass finds out.
            return False
        meta = meta_of(outcome.body)
        if self._is_ours(meta, manifest):
            if meta.deletion_timestamp is None:
                self._absorb(key, outcome)
                return True
            self._note.obstacles.pop(key, None)
            return False
        self._note.obstacles[key] = self._holder(key, meta)
        return False

    def _is_ours(self, meta: Meta, manifest: JSON) -> bool:
        (reference,) = owned(self._record, manifest)["metadata"]["ownerReferences"]
        return owner_of(meta).uid == str(reference["uid"])

    def _holder(self, key: ChildKey, meta: Meta) -> Obstacle:
        kind, name = key
        owner = owner_of(meta)
        what = f"{kind} {self._record.namespace}/{name}"
        if meta.deletion_timestamp is not None:
            return Obstacle(STILL_THERE, f"an earlier {what} is still being deleted")
        whose = f"{owner.kind} {owner.name}" if owner.uid else "nobody's job"
        return Obstacle(
            NAME_TAKEN,
            f"{what} is there already and belongs to {whose}: delete or rename it; the job goes"
            " on by itself once the name is free",
        )

    def _absorb(self, key: ChildKey, answer: Answer) -> None:
        self._note.obstacles.pop(key, None)
        kind, name = key
        if kind == "Pod":
            self._world.pods.absorb(self._world.decode_pod(answer.body))
        elif kind == "Secret":
            meta = meta_of(answer.body)
            digest = (meta.annotations or {}).get(DIGEST, "")
            self._note.secrets[name] = Child(kind=kind, name=name, uid=meta.uid, digest=digest)
        else:
            self._world.children[kind].absorb(self._world.decode_child[kind](answer.body))
