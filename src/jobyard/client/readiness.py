"""Whether a server is ready, asked once and with no loop: for `status`, which is quick to start.

Decides nothing: what the server says against itself is handed on in its own words.
"""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_OK: Final = 200
_TEXT_BYTES_MAX: Final = 4096


def not_ready(server: str, authority: Path, token: Path, seconds: float) -> str:
    """What keeps the server from its work; empty if nothing does."""
    url = urlsplit(server)
    try:
        context = ssl.create_default_context(cafile=str(authority))
        headers = {"Authorization": f"Bearer {token.read_text()}"}
        line = http.client.HTTPSConnection(
            url.hostname or "", url.port, context=context, timeout=seconds
        )
        try:
            line.request("GET", "/readyz", headers=headers)
            answer = line.getresponse()
            text = answer.read(_TEXT_BYTES_MAX).decode(errors="replace").strip()
        finally:
            line.close()
    except (OSError, ValueError, http.client.HTTPException) as problem:
        return f"the API server doesn't answer: {problem}"
    return "" if answer.status == _OK else text
