"""Where on an API server the objects of a manifest's kind are."""

from api.wrong_manifests.edits import Manifest
from jobyard.api.kinds import Kind, kind_of


def address(manifest: Manifest, namespace: str) -> str:
    """The path of the collection; the namespace counts only for kinds that live in one."""
    kind = _kind(manifest)
    place = f"/namespaces/{namespace}" if kind.namespaced else ""
    return f"/apis/{kind.api_version}{place}/{kind.plural}"


def _kind(manifest: Manifest) -> Kind:
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    return kind
