"""Tables that the server prints itself: `kubectl get` with our columns and Kubernetes' own.

`table` puts rows together; `pods` and `kinds` know Kubernetes' own kinds, `custom` those of
CRDs, by the JSONPaths of their columns. All of it is pure: an object and the time give cells.
"""

from jobyard.server.printing.table import table_of

__all__ = ["table_of"]
