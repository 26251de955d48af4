"""The variables of a container: what Kubernetes gives it, and below that what it inherits.

Order, later wins: the machine's (a short list, `INHERITED`), those of the image's folder, those
of services, `envFrom`, `env`. Only what Kubernetes would know can be named as `$(NAME)`. The
engine's other variables are not passed on: they may hold secrets that are none of the pod's.
"""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Final

from jobyard.api.parts.quantity import Quantity
from jobyard.node.objects.pod_object import Container, PodObject, Reference, ValueSource, Variable
from jobyard.node.objects.surroundings import ConfigMap, Found, ServiceLink, Setup
from jobyard.node.ordering.downward import field_text, resource_text
from jobyard.node.ordering.expansion import Room, expanded
from jobyard.node.ordering.problems import NeverError, NotYetError
from jobyard.numerals import whole_number

# Who and where the user is, how text is written, and where the machine keeps libraries, caches
# and certificates: what makes a program started by hand behave as it does.
INHERITED: Final = frozenset(
    {
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "PATH",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONUNBUFFERED",
        "CONDA_PREFIX",
        "CUDA_HOME",
        "CUDA_PATH",
        "JAVA_HOME",
        "MPI_HOME",
        "XDG_CACHE_HOME",
        "HF_HOME",
        "TORCH_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
    }
)
DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GPU_DEVICES: Final = "jobyard.dev/gpu-devices"
GPU: Final = "nvidia.com/gpu"
# How much of a name is told.
_SHOWN: Final = 64
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
# What Kubernetes takes as a name: anything printable but the sign that ends it.
_NAME: Final = re.compile(r"[ -<>-~]+")


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Of the engine's own variables, those that containers get."""
    return {
        name: value
        for name, value in environment.items()
        if (name in INHERITED or name.startswith("LC_"))
        # A proxy's address may have a password in it.
        and not (name.lower().endswith("_proxy") and "@" in value)
    }


def pod_variables(
    pod: PodObject, container: Container, setup: Setup, found: Found
) -> dict[str, str]:
    """What Kubernetes gives the container, which is what `$(NAME)` can mean.

    Raises TooLongError.
    """
    links = (
        dict(variable for link in found.services for variable in _service_variables(link))
        if pod.spec.enable_service_links is not False
        else {}
    )
    room, out = Room("the environment"), dict[str, str]()
    known = ChainMap(out, links)
    for name, value in _from_sources(container, found):
        out[name] = _placed(room, name, value)
    for variable in container.env:
        name = variable.name
        if variable.value_from is None:
            value = expanded(variable.value, known, f"variable {name[:_SHOWN]}")
            out[name] = _placed(room, name, value)
            continue
        value_or_none = _value(pod, container, variable, setup, found)
        if value_or_none is not None:
            out[name] = _placed(room, name, value_or_none)
    return {**links, **out}


def _placed(room: Room, name: str, value: str) -> str:
    room.take(f"{name}={value}", f"variable {name[:_SHOWN]}")
    return value


def device_variables(
    pod: PodObject, container: Container, setup: Setup, own: Mapping[str, str]
) -> dict[str, str]:
    """Which GPUs the container sees: those of the pod, cut up among its containers in order.

    Sidecars come first. An init container runs before the containers and may have theirs.
    """
    text = pod.metadata.annotations.get(GPU_DEVICES)
    if text is None:
        return {_VISIBLE: ""} if setup.has_gpus and _VISIBLE not in own else {}
    devices = [device for device in text.split(",") if device.strip()]
    count = _gpu_count(container)
    before = takewhile(
        lambda other: other.name != container.name,
        (*pod.spec.init_containers, *pod.spec.containers),
    )
    beside = {other.name for other in pod.spec.side_by_side}
    first = sum(_gpu_count(other) for other in before if other.name in beside)
    mine = devices[first : first + count]
    wished = own.get(_VISIBLE, "")
    numbers = [whole_number(part.strip()) for part in wished.split(",")]
    if None not in numbers:
        # In a cluster the pod would count its own devices from 0.
        mine = [mine[number] for number in numbers if number is not None and number < len(mine)]
    return {_VISIBLE: ",".join(mine)}


def _gpu_count(container: Container) -> int:
    resources = container.resources
    return math.trunc(
        Quantity.of(resources.limits.get(GPU) or resources.requests.get(GPU) or 0).amount
    )


def _service_variables(link: ServiceLink) -> Iterator[tuple[str, str]]:
    prefix = link.name.upper().replace("-", "_")
    if not link.ports:
        return
    first = link.ports[0]
    yield f"{prefix}_SERVICE_HOST", link.address
    yield f"{prefix}_SERVICE_PORT", str(first[1])
    for name, port, _ in link.ports:
        if name:
            yield f"{prefix}_SERVICE_PORT_{name.upper().replace('-', '_')}", str(port)
    yield f"{prefix}_PORT", f"{first[2].lower()}://{link.address}:{first[1]}"
    for _, port, protocol in link.ports:
        below = f"{prefix}_PORT_{port}_{protocol.upper()}"
        yield below, f"{protocol.lower()}://{link.address}:{port}"
        yield f"{below}_PROTO", protocol.lower()
        yield f"{below}_PORT", str(port)
        yield f"{below}_ADDR", link.address


def _from_sources(container: Container, found: Found) -> Iterator[tuple[str, str]]:
    for source in container.env_from:
        if source.config_map_ref is not None:
            where = _found(found.config_maps, "configmap", source.config_map_ref, container)
        elif source.secret_ref is not None:
            where = _found(found.secrets, "secret", source.secret_ref, container)
        else:
            continue
        for key, value in (where.data if where is not None else {}).items():
            name = source.prefix + key
            if _NAME.fullmatch(name):
                yield name, value.decode(errors="replace")


def _found(
    among: Mapping[str, ConfigMap], word: str, reference: Reference, container: Container
) -> ConfigMap | None:
    found = among.get(reference.name)
    if found is None and not reference.optional:
        raise NotYetError(f'{word} "{reference.name}" not found', container=container.name)
    return found


def _value(
    pod: PodObject, container: Container, variable: Variable, setup: Setup, found: Found
) -> str | None:
    source = variable.value_from
    assert source is not None, f"variable {variable.name} has a value of its own"
    if source.field_ref is not None:
        return field_text(pod, found.address, setup, source.field_ref.field_path)
    if source.resource_field_ref is not None:
        return _resource(pod, container, source, setup)
    namespace = pod.metadata.namespace
    if source.config_map_key_ref is not None:
        reference, word, kind = source.config_map_key_ref, "configmap", "ConfigMap"
        where = _found(found.config_maps, word, reference, container)
    elif source.secret_key_ref is not None:
        reference, word, kind = source.secret_key_ref, "secret", "Secret"
        where = _found(found.secrets, word, reference, container)
    else:
        raise NeverError(
            f"variable {variable.name}: valueFrom names nothing that is served here",
            container=container.name,
        )
    value = where.data.get(reference.key) if where is not None else None
    if value is None and not reference.optional:
        raise NotYetError(
            f"couldn't find key {reference.key} in {kind} {namespace}/{reference.name}",
            container=container.name,
        )
    return None if value is None else value.decode(errors="replace")


def _resource(pod: PodObject, container: Container, source: ValueSource, setup: Setup) -> str:
    reference = source.resource_field_ref
    assert reference is not None, "asked for a resource that isn't referred to"
    of = container
    if reference.container_name:
        everyone = (*pod.spec.containers, *pod.spec.init_containers)
        named = next((each for each in everyone if each.name == reference.container_name), None)
        if named is None:
            raise NeverError(
                f"resourceFieldRef: the pod has no container {reference.container_name!r}",
                container=container.name,
            )
        of = named
    return resource_text(of, setup, reference.resource, reference.divisor)
