"""What the controller keeps of jobs and of their supporting objects.

Objects come as raw JSON and are decoded once per version. A job that can't be read as its
kind (an object from before a change of its CRD) is kept with the reason, so that it neither
stops the controller nor is silently passed over; a pod likewise. What raises here is an object
whose metadata can't be read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import msgspec

from jobyard.api.kinds import Kind
from jobyard.api.parts.status import Phase
from jobyard.api.parts.value import ObjectMeta, Value
from jobyard.client.deep_json import decoded_flat
from jobyard.client.unreadable import said
from jobyard.plan.facts.decision import Child
from jobyard.plan.facts.pod_facts import Meta, Pod, PodObject, facts_of, owner_of, unreadable_pod
from jobyard.plan.lowering.names import DIGEST
from jobyard.plan.moments import seconds_of
from jobyard.plan.table import status_type

# What TaskSets and BeamJobs call a job that has not started.
_NOT_STARTED = ("Waiting", "Initializing")


class JobKey(NamedTuple):
    """Which job, as people name it."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One job, in its kind's own type; None where it can't be read, for `problem`."""

    kind: Kind
    metadata: ObjectMeta
    job: Any = None
    problem: str = ""
    # The status of a job that can't be read, if that alone can.
    bare_status: Value | None = None

    @property
    def key(self) -> JobKey:
        return JobKey(self.kind.name, self.namespace, self.name)

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def job_uid(self) -> str:
        return self.metadata.uid

    @property
    def version(self) -> str:
        return self.metadata.resource_version

    @property
    def created_at(self) -> float:
        created = self.metadata.creation_timestamp
        return seconds_of(created) if created else 0.0

    @property
    def is_deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def status(self) -> Value | None:
        status: Value | None = self.job.status if self.job is not None else self.bare_status
        return status

    @property
    def phase(self) -> str:
        """For metrics, in the words that most kinds have; a TaskSet's is its state."""
        status = self.status
        phase = getattr(status, "state", None) or getattr(status, "phase", None)
        return str(phase) if phase and phase not in _NOT_STARTED else Phase.PENDING.value


class ChildRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One supporting object."""

    namespace: str
    version: str
    job_uid: str
    child: Child

    @property
    def name(self) -> str:
        return self.child.name

    @property
    def uid(self) -> str:
        return self.child.uid


class _Bare(msgspec.Struct, frozen=True):
    metadata: Meta


class _BareJob(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    status: msgspec.Raw = msgspec.Raw()


_bare_decoder = msgspec.json.Decoder(_Bare)
_bare_job_decoder = msgspec.json.Decoder(_BareJob)
_pod_decoder = msgspec.json.Decoder(PodObject)


def job_decoder(kind: Kind) -> Callable[[bytes], JobRecord]:
    @cache
    def decoder() -> msgspec.json.Decoder[Any]:
        """Made with the first job: looking into a kind's types takes a while."""
        return msgspec.json.Decoder(kind.type)

    def decode(raw: bytes) -> JobRecord:
        try:
            job = decoded_flat(decoder().decode, raw)
        except MemoryError:
            raise
        except Exception as problem:
            return _unreadable_job(kind, raw, problem)
        return JobRecord(kind=kind, metadata=job.metadata, job=job)

    return decode


def _unreadable_job(kind: Kind, raw: bytes, problem: Exception) -> JobRecord:
    bare = decoded_flat(_bare_job_decoder.decode, raw)
    status: Value | None = None
    if bytes(bare.status):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            status = msgspec.json.decode(bytes(bare.status), type=status_type(kind))
    return JobRecord(kind=kind, metadata=bare.metadata, problem=said(problem), bare_status=status)


def pod_of(raw: bytes) -> Pod:
    try:
        return facts_of(decoded_flat(_pod_decoder.decode, raw))
    except MemoryError:
        raise
    except Exception as problem:
        return unreadable_pod(meta_of(raw), said(problem))


def child_decoder(kind: str) -> Callable[[bytes], ChildRecord]:
    def decode(raw: bytes) -> ChildRecord:
        meta = meta_of(raw)
        child = Child(
            kind=kind,
            name=meta.name,
            uid=meta.uid,
            digest=(meta.annotations or {}).get(DIGEST, ""),
            is_terminating=meta.deletion_timestamp is not None,
        )
        return ChildRecord(
            namespace=meta.namespace,
            version=meta.resource_version,
            job_uid=owner_of(meta).uid,
            child=child,
        )

    return decode


def meta_of(raw: bytes) -> Meta:
    return decoded_flat(_bare_decoder.decode, raw).metadata
