"""The same writes on a real API server and through our functions, compared after each one.

What the real server stores is what both go on from; our part is what a patch or an apply makes
of the object before defaults, the managed fields, and the answer when something is refused.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from conformance.normal import reworded
from rig.kube.api import Answer, ApiCaller

from jobyard.server.apply import applied, tracked
from jobyard.server.apply.applying import BEFORE_FIRST_APPLY
from jobyard.server.patching import patched
from jobyard.server.problem import ProblemError
from jobyard.server.resource import (
    Admitted,
    JSONSchema,
    Object,
    Part,
    ServedResource,
    Subresource,
)

Json = dict[str, Any]
# What a server changes on its own with every write.
KEPT_BY_SERVER = ("resourceVersion", "generation", "managedFields", "uid", "creationTimestamp")
ANY_TIME = "2001-02-03T04:05:06Z"


class RawCaller(ApiCaller):
    """An ApiCaller that also sends bodies that aren't JSON."""

    async def raw(self, path: str, data: bytes, content_type: str) -> Json:
        async with self._open_session.request(
            "PATCH", path, data=data, headers={"Content-Type": content_type}
        ) as response:
            body: Json = await response.json()
            return body


class Unasked:
    """A strategy that nobody may ask: the real server has admitted everything already."""

    def created(self, obj: Object) -> Admitted:
        raise AssertionError("the strategy was asked")

    def updated(self, obj: Object, old: Object, part: Part) -> Admitted:
        raise AssertionError("the strategy was asked")


class OpenApi:
    """The schemas of Kubernetes' own kinds: those of the package, or as a real server has them."""

    def __init__(self, packaged: Mapping[str, JSONSchema] | None = None) -> None:
        self._schemas: dict[str, JSONSchema] = dict(packaged or {})

    async def load(self, api: ApiCaller, *groups: str) -> None:
        for group in groups:
            answer = await api.request("GET", f"/openapi/v3/{group}")
            assert answer.status == 200, answer.text
            self._schemas |= answer.body["components"]["schemas"]

    def resolved(self, schema: JSONSchema) -> JSONSchema:
        reference = schema.get("$ref")
        return schema if reference is None else self._schemas[reference.rpartition("/")[2]]

    def resource(self, definition: str, plural: str, *, has_status: bool) -> ServedResource:
        schema = self._schemas[definition]
        (kind,) = schema["x-kubernetes-group-version-kind"]
        return served(
            (kind["group"], kind["version"], kind["kind"], plural), schema, has_status=has_status
        )


def served(
    names: tuple[str, str, str, str],
    schema: JSONSchema,
    *,
    has_status: bool,
    is_custom: bool = False,
) -> ServedResource:
    group, version, kind, plural = names
    doors = (Subresource(name="status", verbs=("get", "patch", "update")),) if has_status else ()
    return ServedResource(
        group=group,
        version=version,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=True,
        strategy=Unasked(),
        schema=schema,
        subresources=doors,
        is_custom=is_custom,
    )


def entries(obj: Json | None) -> list[Json]:
    found: list[Json] = ((obj or {}).get("metadata") or {}).get("managedFields", [])
    return found


def stamped_alike(ours: list[Json], theirs: list[Json]) -> list[Json]:
    """Ours, with the real server's time at what was there before the first apply.

    It looks at the clock again for the apply itself, and a second may begin in between.
    """
    times = {entry["manager"]: entry["time"] for entry in theirs if "time" in entry}
    return [
        {**entry, "time": times.get(BEFORE_FIRST_APPLY, entry["time"])}
        if entry["manager"] == BEFORE_FIRST_APPLY and "time" in entry
        else entry
        for entry in ours
    ]


def content(obj: Json) -> Json:
    """An object without what a server changes on its own."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in KEPT_BY_SERVER}
    return {**obj, "metadata": metadata}


def lean(value: Any) -> Any:
    """A value without nulls and without what is empty: decoding drops or adds those."""
    if isinstance(value, dict):
        # Directives inside of what is new stay, and are dropped as unknown fields.
        parts = {key: lean(child) for key, child in value.items() if key[:1] != "$"}
        return {key: child for key, child in parts.items() if child not in (None, {}, [], "")}
    if isinstance(value, list):
        return [lean(item) for item in value]
    # A body that passes as YAML loses the point of 1.0.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def dropped(value: Json, path: list[str]) -> Json:
    """The value without the field at a path."""
    first, *rest = path
    if first not in value:
        return value
    if rest:
        return {**value, first: dropped(value[first], rest)}
    return {name: child for name, child in value.items() if name != first}


def covered(made: Any, stored: Any) -> Any:
    """What is stored, cut down to what was made: to compare the two where more was filled in."""
    if isinstance(made, dict) and isinstance(stored, dict):
        return {name: covered(child, stored.get(name)) for name, child in made.items()}
    if isinstance(made, list) and isinstance(stored, list) and len(made) == len(stored):
        return [covered(a, b) for a, b in zip(made, stored, strict=True)]
    return stored


class Mirror:
    """One object on a real server, and our idea of it."""

    def __init__(
        self, api: ApiCaller, resource: ServedResource, open_api: OpenApi, where: tuple[str, str]
    ) -> None:
        self.api = api
        self.resource = resource
        self.resolve = open_api.resolved
        self.namespace, self.name = where
        base = f"/apis/{resource.group}" if resource.group else "/api"
        self.folder = f"{base}/{resource.version}/namespaces/{self.namespace}/{resource.plural}"
        self.path = f"{self.folder}/{self.name}"
        # What defaults make of an object, for comparing what has none yet.
        self.defaulted: Callable[[Json], Json] = lambda obj: obj
        # What admission and storage add when an object is created, which is nobody's.
        self.added: tuple[str, ...] = ()
        # Whether the server stores exactly what a patch makes, or fills in more.
        self.is_filled_in = False
        self.mine: Json | None = None
        self.steps: list[str] = []

    def head(self, **metadata: Any) -> Json:
        """The beginning of a manifest."""
        names = {"name": self.name, "namespace": self.namespace}
        kind = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        return {**kind, "metadata": {**names, **metadata}}

    async def create(self, obj: Json, manager: str) -> Answer:
        self._note("create", manager, obj)
        answer = await self._send("POST", self.folder, obj, manager)
        if answer.status == 201:
            self._keep(answer, obj, manager, Part.WHOLE)
        return answer

    async def update(self, obj: Json, manager: str, part: Part = Part.WHOLE) -> Answer:
        self._note(f"update {part}", manager, obj)
        answer = await self._send("PUT", self._door(part), obj, manager)
        if answer.status == 200:
            self._keep(answer, obj, manager, part)
        return answer

    async def patch(self, body: Any, kind: str, manager: str, part: Part = Part.WHOLE) -> Answer:
        """A patch of any sort but apply; both must agree on the object or on the refusal."""
        self._note(f"patch {kind} {part}", manager, body)
        content_type = f"application/{kind}+json"
        answer = await self._send("PATCH", self._door(part), body, manager, content_type)
        assert self.mine is not None
        before = msgspec.json.encode(self.mine)
        try:
            made = patched(
                self.mine, json.dumps(body).encode(), content_type, self.resource, self.resolve
            )
        except ProblemError as problem:
            self._agree_on_refusal(answer, problem)
            return answer
        assert msgspec.json.encode(self.mine) == before, "the old object was changed"
        if answer.status == 200:
            if part == Part.WHOLE:
                self._agree_on_object(made, answer.body)
            self._keep(answer, made, manager, part)
        else:
            # Both could read the patch; what the object then lacks is for a strategy to say.
            assert answer.body.get("details", {}).get("causes"), self._told(answer.text)
        return answer

    async def apply(
        self, obj: Json, manager: str, *, force: bool = False, part: Part = Part.WHOLE
    ) -> Answer:
        self._note(f"apply {part}{' force' if force else ''}", manager, obj)
        answer = await self._send(
            "PATCH",
            self._door(part),
            obj,
            manager,
            "application/apply-patch+yaml",
            {"force": "true"} if force else {},
        )
        before = msgspec.json.encode((self.mine, obj))
        try:
            made = applied(
                self.mine,
                obj,
                manager=manager,
                force=force,
                time=self._time(answer),
                part=part,
                resource=self.resource,
                resolve=self.resolve,
            )
        except ProblemError as problem:
            self._agree_on_refusal(answer, problem)
            return answer
        assert msgspec.json.encode((self.mine, obj)) == before, "an argument was changed"
        if answer.status == 422 and answer.body["details"].get("causes"):
            # It could be merged; what the object then lacks is for a strategy to say.
            return answer
        assert answer.status in (200, 201), self._told(answer.text)
        mine = stamped_alike(entries(made), entries(answer.body))
        self._agree(mine, entries(answer.body), "the managed fields")
        if part == Part.WHOLE:
            self._agree_on_object(made, answer.body)
        self._take(answer, mine)
        return answer

    async def forget(self) -> None:
        """Delete it; the next write begins anew."""
        answer = await self.api.request("DELETE", self.path)
        assert answer.status in (200, 404), answer.text
        self.mine = None

    def _door(self, part: Part) -> str:
        return f"{self.path}/{part}" if part else self.path

    async def _send(
        self,
        method: str,
        path: str,
        body: Any,
        manager: str,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        told = {"fieldManager": manager, **(query or {})}
        return await self.api.request(
            method, path, body=body, query=told, content_type=content_type
        )

    def _time(self, answer: Answer) -> str:
        """The time of the write: the latest that the real server has written down."""
        return max([entry.get("time", "") for entry in entries(answer.body)] + [ANY_TIME])

    def _keep(self, answer: Answer, sent: Json, manager: str, part: Part) -> None:
        """Track the write, and agree with the real server on who owns what."""
        new = content(answer.body)
        kept = {k: answer.body["metadata"][k] for k in ("uid", "creationTimestamp")}
        new["metadata"] |= kept
        if "managedFields" in sent.get("metadata", {}):
            new["metadata"]["managedFields"] = sent["metadata"]["managedFields"]
        if self.mine is None:
            for path in self.added:
                new = dropped(new, path.split("."))
        made = tracked(
            self.mine,
            new,
            manager=manager,
            time=self._time(answer),
            part=part,
            resource=self.resource,
            resolve=self.resolve,
        )
        self._agree(entries(made), entries(answer.body), "the managed fields")
        self._take(answer, entries(made))

    def _take(self, answer: Answer, mine: list[Json]) -> None:
        metadata = {k: v for k, v in answer.body["metadata"].items() if k != "managedFields"}
        if mine:
            metadata["managedFields"] = mine
        self.mine = {**answer.body, "metadata": metadata}

    def _note(self, what: str, manager: str, body: Any) -> None:
        self.steps.append(f"{manager}: {what} {json.dumps(body)}")

    def _told(self, what: str) -> str:
        return "\n".join([what, "after:", *self.steps])

    def _agree(self, ours: Any, theirs: Any, what: str) -> None:
        # Order counts, so texts are compared; managed fields aren't sorted by a client.
        ordered = what == "the managed fields"
        texts = [json.dumps(each, indent=1, sort_keys=not ordered) for each in (ours, theirs)]
        if texts[0] != texts[1]:
            lines = difflib.unified_diff(
                texts[1].splitlines(), texts[0].splitlines(), "real", "ours", lineterm=""
            )
            raise AssertionError(self._told(f"{what} differ:\n" + "\n".join(lines)))

    def _agree_on_object(self, made: Json, stored: Json) -> None:
        ours, theirs = lean(content(self.defaulted(made))), lean(content(stored))
        self._agree(ours, covered(ours, theirs) if self.is_filled_in else theirs, "the object")

    def _agree_on_refusal(self, answer: Answer, problem: ProblemError) -> None:
        ours, theirs = json.loads(json.dumps([problem.status, answer.body]))
        for status in (ours, theirs):
            # A real server goes through conflicting managers in any order.
            causes = (status.get("details") or {}).get("causes")
            if causes:
                causes.sort(key=lambda cause: (cause.get("message", ""), cause.get("field", "")))
            # And through the fields of an intent.
            status["message"] = sorted(reworded(status["message"]).split("\n"))
        self._agree(ours, theirs, "the refusals")
