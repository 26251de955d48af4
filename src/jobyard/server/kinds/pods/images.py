"""Names of images: `registry/path:tag@digest`, as far as the tag matters."""

from __future__ import annotations


def tag_of(image: str) -> str:
    """The tag; `latest` where neither a tag nor a digest is given, nothing for no image."""
    if not image or image != image.strip():
        return ""
    name, at, _ = image.partition("@")
    _, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        return tag
    return "" if at else "latest"
