"""Which container of a pod is meant, and whether there is a node to ask.

The texts and their order are a real API server's. Which container is the default one is the
client's affair there: kubectl looks at the annotation and names the container.
"""

from __future__ import annotations

from jobyard.server.problem import bad_request
from jobyard.server.resource import Object

_FIELDS = ("initContainers", "containers", "ephemeralContainers")


def chosen_container(pod: Object, asked: str) -> str:
    """The container that was named, or the only one there is."""
    name = pod["metadata"]["name"]
    spec = pod["spec"]
    every = [each["name"] for field in _FIELDS for each in spec.get(field) or ()]
    if asked:
        if asked not in every:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(spec["containers"]) == 1:
        return str(spec["containers"][0]["name"])
    choices = " ".join(every)
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{choices}]"
    )


def is_placed(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def check_placed(pod: Object) -> None:
    """Refuses a pod that no node has."""
    if not is_placed(pod):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
