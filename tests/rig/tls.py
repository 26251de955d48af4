"""TLS with a client certificate: the one way in which the rig calls an API server."""

import ssl
from functools import cache
from pathlib import Path


@cache
def client_context(ca: Path, cert: Path, key: Path) -> ssl.SSLContext:
    """Trust `ca` alone and show `cert`. Kept, because loading takes longer than a request."""
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(cert, key)
    return context
