"""The whole server as one object: a `Call` in, a `Reply` or a `Watch` out.

Synchronous and with no clock or dice of its own, so that the same calls always have the same
answers. What follows from a call later (garbage, namespaces that end) is done by `tidy`, in steps,
by whoever runs the server. HTTP, the disk's pace and the loop are in `live` and `serving`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from jobyard.server.built_in_kinds import builtin_resources
from jobyard.server.call import Call, Reply
from jobyard.server.discovery.documents import described
from jobyard.server.discovery.health import (
    HEALTH,
    METRICS,
    METRICS_TYPE,
    TEXT_TYPE,
    health_reply,
)
from jobyard.server.discovery.unserved import hint
from jobyard.server.kinds.types.kubernetes_schemas import resolved
from jobyard.server.messages.rendering import problem_reply
from jobyard.server.messages.routing import NoSuchPathError, Route, Verb, routed, unknown_resource
from jobyard.server.problem import Details, ProblemError, bad_request
from jobyard.server.resource import Object
from jobyard.server.site import Site
from jobyard.server.store.catalogue import RowsOf, ServedCatalogue
from jobyard.server.store.store import Store, StoreFailedError
from jobyard.server.upkeep.garbage_collection import Collector
from jobyard.server.upkeep.namespace_lifecycle import Sweeper
from jobyard.server.verbs.deleting import deleted, deleted_collection
from jobyard.server.verbs.namespaces import furnish
from jobyard.server.verbs.pod_actions import bound, bound_by_collection, evicted
from jobyard.server.verbs.reading import got, listed, watched
from jobyard.server.verbs.requesting import requested_create, requested_patch, requested_update
from jobyard.server.verbs.scaling import scaled
from jobyard.server.verbs.surrounding import StoreSurroundings
from jobyard.server.verbs.watch import Watch

Answer = Callable[[Site, Route, Call], Reply]
# The characters of a generated suffix: nothing that looks like something else, and no vowels.
SUFFIX_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5
_BINDINGS: Final = re.compile("/api/v1/namespaces/([^/]+)/bindings")
NOT_FOUND: Final = 404
# What is asked of the node and not of the store; see `streaming`.
STREAMED: Final = frozenset({"log", "exec", "attach", "portforward", "proxy"})
_STREAMED_STEP: Final = re.compile(f"/({'|'.join(sorted(STREAMED))})")

_ON_OBJECTS: Final[Mapping[Verb, Answer]] = {
    Verb.GET: got,
    Verb.LIST: listed,
    Verb.CREATE: requested_create,
    Verb.UPDATE: requested_update,
    Verb.PATCH: requested_patch,
    Verb.DELETE: deleted,
    Verb.DELETE_COLLECTION: deleted_collection,
}
_ON_STATUS: Final[Mapping[Verb, Answer]] = {
    Verb.GET: got,
    Verb.UPDATE: requested_update,
    Verb.PATCH: requested_patch,
}
_ON_SCALE: Final[Mapping[Verb, Answer]] = dict.fromkeys((Verb.GET, Verb.UPDATE, Verb.PATCH), scaled)
_SUBRESOURCES: Final[Mapping[str, Mapping[Verb, Answer]]] = {
    "": _ON_OBJECTS,
    "status": _ON_STATUS,
    "scale": _ON_SCALE,
    "binding": {Verb.CREATE: bound},
    "eviction": {Verb.CREATE: evicted},
}


class ApiServer:
    """Everything that is served, on one store."""

    def __init__(
        self,
        store: Store,
        *,
        now: Callable[[], float],
        new_uid: Callable[[], str],
        new_suffix: Callable[[], str],
        custom: RowsOf | None = None,
    ) -> None:
        rows = builtin_resources(StoreSurroundings(store))
        catalogue = ServedCatalogue(rows, custom or _custom_rows(), resolved)
        catalogue.follow(store)
        self.site = Site(store, catalogue, now, new_uid, new_suffix)
        self._collector = Collector(self.site)
        self._sweeper = Sweeper(self.site)
        # What isn't at work around the server, by name, and why; told by /readyz.
        self.troubles: dict[str, str] = {}
        # What is measured around the server, by whom, as texts for Prometheus; told by /metrics.
        self.figures: dict[str, Callable[[], str]] = {}
        furnish(self.site)

    @property
    def store(self) -> Store:
        return self.site.store

    @property
    def catalogue(self) -> ServedCatalogue:
        return self.site.catalogue

    def handle(self, call: Call) -> Reply | Watch:
        """Answer one call; a refusal is an answer too."""
        try:
            self.store.check()
            return self._answered(call)
        except ProblemError as problem:
            if problem.code == NOT_FOUND and (advice := hint(call.path)):
                problem.warnings = (*problem.warnings, advice)
            return problem_reply(problem, call.accept)
        except NoSuchPathError:
            if advice := hint(call.path):
                # With a Status: of a plain text kubectl shows nothing.
                text = f"the server could not find the requested resource: {advice}"
                missing = ProblemError(NOT_FOUND, "NotFound", text, Details())
                return problem_reply(missing, call.accept)
            return Reply(status=404, body=b"404 page not found\n", content_type=TEXT_TYPE)
        except StoreFailedError as problem:
            return failure_reply(problem)
        except RecursionError:
            # A depth that is read and can't be walked: refused, as one that is too deep to read.
            return problem_reply(bad_request("the object is nested too deep"), call.accept)

    def _answered(self, call: Call) -> Reply | Watch:
        if call.path.startswith(HEALTH):
            troubles = {**self.troubles, "store": self.store.trouble}
            if (told := health_reply(call, troubles)) is None:
                raise NoSuchPathError(call.path)
            return told
        if call.path == METRICS and call.method == "GET":
            text = "".join(told() for told in self.figures.values())
            return Reply(status=200, body=text.encode(), content_type=METRICS_TYPE)
        reply = described(call, self.catalogue)
        if reply is not None:
            return reply
        binding = _BINDINGS.fullmatch(call.path) if call.method == "POST" else None
        if binding is not None:
            pods = self.catalogue.find("", "v1", "pods")
            assert pods is not None, "pods are always served"
            return bound_by_collection(self.site, pods, binding[1], call)
        route = routed(call, self.catalogue)
        advice = route.resource.deprecation
        if not advice:
            return self._routed(route, call)
        try:
            answer = self._routed(route, call)
        except ProblemError as problem:
            problem.warnings = (*problem.warnings, advice)
            raise
        if isinstance(answer, Watch):
            answer.warnings = (advice,)
        elif advice not in answer.warnings:
            return msgspec.structs.replace(answer, warnings=(*answer.warnings, advice))
        return answer

    def _routed(self, route: Route, call: Call) -> Reply | Watch:
        if route.verb is Verb.WATCH:
            return watched(self.site, route, call)
        answer = _SUBRESOURCES.get(route.subresource, {}).get(route.verb)
        if answer is None:
            raise unknown_resource()
        return answer(self.site, route, call)

    def streamed_route(self, call: Call) -> Route | None:
        """Where a call goes that the node has to answer; None for all others. May raise."""
        if _STREAMED_STEP.search(call.path) is None:
            return None
        route = routed(call, self.catalogue)
        is_streamed = route.resource.storage_key == "pods" and route.subresource in STREAMED
        return route if is_streamed else None

    @property
    def has_work(self) -> bool:
        return self._collector.has_work or self._sweeper.has_work

    def tidy(self, steps_max: int = 1_000_000) -> None:
        """Do what follows from earlier calls, up to a number of steps."""
        for _ in range(steps_max):
            if self._collector.has_work:
                self._collector.step()
            elif self._sweeper.has_work:
                self._sweeper.step()
            else:
                return

    def expire(self) -> None:
        """Forget what is only kept for a while; to be called now and then."""
        self._sweeper.expire_events()

    def install(self, objects: Iterable[Object], manager: str) -> None:
        """Make sure that objects are there and as given, such as the CRDs of our own kinds."""
        for value in objects:
            group, _, version = value["apiVersion"].rpartition("/")
            row = self.catalogue.of_kind(group, value["kind"])
            assert row is not None, f"{value['kind']} isn't served"
            prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
            namespace = value["metadata"].get("namespace")
            home = f"/namespaces/{namespace}" if namespace else ""
            call = Call(
                method="PATCH",
                path=f"{prefix}{home}/{row.plural}/{value['metadata']['name']}",
                query=(("fieldManager", manager), ("force", "true")),
                body=msgspec.json.encode(value),
                content_type="application/apply-patch+yaml",
            )
            reply = self.handle(call)
            if isinstance(reply, Reply) and reply.status >= 400:
                raise ValueError(f"{call.path}: {reply.body.decode()}")


def _custom_rows() -> RowsOf:
    from jobyard.server.crds.definitions import custom_resources

    return custom_resources


def failure_reply(problem: Exception) -> Reply:
    """What is answered when the server itself is at fault."""
    text = f"Internal error occurred: {problem}"
    return problem_reply(ProblemError(500, "InternalError", text), "")
