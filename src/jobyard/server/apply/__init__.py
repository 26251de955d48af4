"""Field management: who owns which fields of an object, and server-side apply on top of it.

`tracked` is for ordinary writes, `applied` for apply patches; both are pure and return objects
with their `metadata.managedFields`. Merging goes by the schema (`shape`), sets of fields are
kept in the form in which clients see them (`field_sets`). Nothing here knows stores or HTTP.
"""

from __future__ import annotations

from jobyard.server.apply.applying import Apply, applied
from jobyard.server.apply.tracking import tracked

__all__ = ["Apply", "applied", "tracked"]
