"""get, list and watch: answers from memory, each about one moment.

A list says the version it shows; it may leave as soon as that version is on disk, which is at
once unless its own kind has just been written to. While nothing gets to the disk, all that is
shown is what is on it.
"""

from __future__ import annotations

from typing import Any

from jobyard.server.call import Call, Reply
from jobyard.server.kinds.types.go_numbers import parsed_uint
from jobyard.server.messages.conversion import shelf_of
from jobyard.server.messages.paging import (
    Page,
    check_not_ahead,
    integer,
    moment_of_watch,
    page_of,
    token_of,
    too_old_list,
    too_old_token,
    version_of,
)
from jobyard.server.messages.rendering import View, list_body, negotiated, object_body
from jobyard.server.messages.routing import Route
from jobyard.server.messages.selectors import Selection, selection
from jobyard.server.problem import ProblemError, conflict, expired, not_found
from jobyard.server.resource import ServedResource
from jobyard.server.site import Site
from jobyard.server.store.watch_cache import Shelf, Stored
from jobyard.server.verbs.watch import Form, Watch


def found(site: Site, route: Route) -> Stored:
    """The object that a path names; raises 404 if there is none."""
    item = site.store.get(shelf_of(route.resource), route.key)
    if item is None:
        raise not_found(route.resource.group, route.resource.plural, route.name)
    return item


def other_than_meant(
    route: Route, item: Stored, what: str, wanted: str, there: str
) -> ProblemError:
    """There is an object of that name, but not the one, or not as, the client took it for."""
    resource = route.resource
    group = f"{resource.group}/" if resource.is_custom else ""
    return conflict(
        resource.group,
        resource.plural,
        route.name,
        "StorageError: invalid object, Code: 4,"
        f" Key: /registry/{group}{resource.plural}/{item.key},"
        f" ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition:"
        f" {wanted}, {what} in object meta: {there}",
    )


def got(site: Site, route: Route, call: Call) -> Reply:
    view = negotiated(call, route.resource)
    if call.query and (text := call.option("resourceVersion")):
        check_not_ahead(version_of(text), site.store.version)
    store = site.store
    if not store.trouble:
        return shown(site, view, route.resource, found(site, route))
    item = store.shelf(shelf_of(route.resource)).one_at(route.key, store.committed)
    if item is None:
        raise not_found(route.resource.group, route.resource.plural, route.name)
    return shown(site, view, route.resource, item)


def shown(
    site: Site, view: View, resource: ServedResource, item: Stored, status: int = 200
) -> Reply:
    return Reply(
        status=status,
        body=object_body(view, resource, item, site.now()),
        content_type=view.content_type,
        version=item.version,
    )


def selected(call: Call, route: Route) -> Selection:
    if not call.query and not route.name:
        return Selection()
    chosen = selection(call.option("labelSelector"), call.option("fieldSelector"), route.resource)
    if route.name:
        # `/watch/…/name`: one object, by its path.
        by_name = ((".metadata.name",), True, route.name)
        return Selection(chosen.labels, (*chosen.fields, by_name), route.name)
    return chosen


def listed(site: Site, route: Route, call: Call) -> Reply:
    view = negotiated(call, route.resource, is_list=True)
    shelf = site.store.shelf(shelf_of(route.resource))
    # Of its own kind a list shows the newest; of the others it shows nothing.
    newest = max(shelf.version, shelf.floor)
    if site.store.trouble:
        newest = min(newest, site.store.committed)
    current = max(site.store.committed, newest)
    page = page_of(call, site.store.version)
    chosen = selected(call, route)
    version = current if page.version is None else page.version
    if page.version is not None and version < shelf.floor:
        token = call.option("continue")
        raise too_old_token(token) if token else too_old_list()
    items = candidates(shelf, route, chosen, version)
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    items = _paged(items, page, route, chosen, metadata)
    return Reply(
        status=200,
        body=list_body(view, route.resource, items, metadata, site.now()),
        content_type=view.content_type,
        version=min(version, newest),
    )


def candidates(shelf: Shelf, route: Route, chosen: Selection, version: int) -> list[Stored]:
    """The objects that a list is about, in order."""
    if chosen.name is not None and route.namespace and version >= shelf.version:
        only = shelf.objects.get(f"{route.namespace}/{chosen.name}")
        items = [] if only is None else [only]
    else:
        items = shelf.at(version, route.prefix)
    if chosen.selects:
        return [item for item in items if chosen.matches(item.value)]
    return items


def _paged(
    items: list[Stored], page: Page, route: Route, chosen: Selection, metadata: dict[str, Any]
) -> list[Stored]:
    if page.after:
        after = route.prefix + page.after
        items = [item for item in items if item.key > after]
    if not page.limit or len(items) <= page.limit:
        return items
    first, rest = items[: page.limit], len(items) - page.limit
    metadata["continue"] = token_of(
        parsed_uint(metadata["resourceVersion"]), first[-1].key, route.prefix
    )
    if not chosen.selects:
        metadata["remainingItemCount"] = rest
    return first


def watched(site: Site, route: Route, call: Call) -> Watch:
    if route.must_exist:
        found(site, route)
    view = negotiated(call, route.resource, is_stream=True)
    store = site.store
    shelf = store.shelf(shelf_of(route.resource))
    chosen = selected(call, route)
    moment = moment_of_watch(call)
    timeout = integer(call, "timeoutSeconds")
    watch = Watch(
        Form(route.resource, view, site.now),
        chosen,
        route.prefix,
        allows_bookmarks=call.flag("allowWatchBookmarks"),
    )
    if timeout:
        watch.timeout_seconds = max(timeout, 0)
    if moment.since is None:
        items = shelf.at(store.committed, route.prefix)
        watch.start(items, store.committed, marks_start=moment.marks_start)
    elif moment.since == 0:
        # Nothing of what is there, but all that comes.
        pass
    elif moment.since < shelf.floor:
        text = f"too old resource version: {moment.since} ({shelf.floor})"
        watch.fail(expired(text))
        return watch
    else:
        for change in shelf.since(moment.since, store.committed):
            watch.offer(change)
    watch.attach(store, shelf)
    return watch
