"""What is derived from a resource's schema once and used by every write to it.

Kept by the identity of the schema, because deriving it costs more than most writes; a CRD that
changes has a new schema. Decides nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from jobyard.server.apply.shape import Resolve, Shape, root_shape
from jobyard.server.apply.zero import zero_object
from jobyard.server.resource import JSONSchema, Object, ServedResource

FORMS_KEPT_MAX: Final = 512


class Form(msgspec.Struct, frozen=True):
    """How objects of a resource merge, and what they are before they are created."""

    schema: JSONSchema
    shape: Shape
    zero: Object


_kept: OrderedDict[tuple[int, int], Form] = OrderedDict()


def form_of(resource: ServedResource, resolve: Resolve) -> Form:
    """The form of a resource's objects, derived when it is first asked for."""
    # A bound method is a new object each time; what it is bound to isn't.
    key = (id(resource.schema), id(getattr(resolve, "__self__", resolve)))
    found = _kept.get(key)
    # An id is only as good as the object behind it.
    if found is not None and found.schema is resource.schema:
        return found
    shape = root_shape(resource.schema, resolve)
    zero = {} if resource.is_custom else zero_object(resource.schema, resolve)
    form = _kept[key] = Form(resource.schema, shape, zero)
    while len(_kept) > FORMS_KEPT_MAX:
        _kept.popitem(last=False)
    return form
