"""OpenAPI v2 and v3 of everything that is served: for `explain`, `apply` and their validation.

`documents` answers; `schemas` publishes the schemas of kinds and `operations` what can be done
with them. Nothing is computed before a client asks, and nothing twice while the rows stay.
"""

from jobyard.server.discovery.openapi.documents import openapi_reply

__all__ = ["openapi_reply"]
