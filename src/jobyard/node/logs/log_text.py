"""From stored records to the text that the process wrote: headers off, parts of lines joined.

Pure. A part of a line is shown at once, as it was on the process' terminal. When the other
stream speaks in the middle of a line, that line is broken, so that two are never mixed.
"""

from __future__ import annotations

from jobyard.node.logs.log_files import HEADER_BYTES, STAMP_BYTES, STREAM_AT, TAG_AT

_FULL = ord("F")


class LogText:
    """The text of one log, from its beginning or from a place within it."""

    def __init__(self, *, timestamps: bool) -> None:
        self._timestamps = timestamps
        # The stream whose line is open; empty between lines.
        self._open = b""

    def show(self, records: bytes) -> bytes:
        """The text of whole records."""
        lines = records.split(b"\n")
        assert not lines[-1], "a record that is not whole"
        del lines[-1]
        out: list[bytes] = []
        for line in lines:
            # Only after a disk was full at a kill: half a record, and the next one behind it.
            if len(line) < HEADER_BYTES:
                continue
            stream = line[STREAM_AT : TAG_AT - 1]
            if self._open != stream:
                if self._open:
                    out.append(b"\n")
                if self._timestamps:
                    out.append(line[: STAMP_BYTES + 1])
            out.append(line[HEADER_BYTES:])
            if line[TAG_AT] == _FULL:
                out.append(b"\n")
                self._open = b""
            else:
                self._open = stream
        return b"".join(out)
