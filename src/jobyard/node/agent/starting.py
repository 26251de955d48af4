"""Gets a pod going: looks up what it refers to, puts its volumes on disk, orders it.

The agent calls it in a pass, again and again until it succeeds. Everything it does may be done
twice: the address stays the pod's, files are written only where they differ, and a runtime
starts a pod once. What stands in the way comes back as a value, `Outcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial

import msgspec

from jobyard.node.agent.container_status import Waiting
from jobyard.node.agent.lookups import Lookups
from jobyard.node.agent.options import AgentOptions
from jobyard.node.agent.pod_status import Refusal
from jobyard.node.network.addresses import AddressPool, NoAddressError
from jobyard.node.network.directory import Directory
from jobyard.node.objects.events import Reason
from jobyard.node.objects.pod_object import PodObject
from jobyard.node.objects.surroundings import Found, Placed, Setup
from jobyard.node.ordering.images import image_note, rule_for
from jobyard.node.ordering.plain_network import Known, PlainNetwork
from jobyard.node.ordering.pods import order_of
from jobyard.node.ordering.problems import NeverError, NotYetError
from jobyard.node.ordering.references import mounted_wanted, variables_wanted
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import PodOrder
from jobyard.node.shared.runtime import Runtime
from jobyard.node.volumes.claims import ClaimFolders
from jobyard.node.volumes.contents import About, VolumeError
from jobyard.node.volumes.patience import Begin, Patience
from jobyard.node.volumes.placing import Site, make_sub_paths, place_all, told, update

# A reason and a text, for an event and for whoever started the engine.
Hint = tuple[Reason, str]


class Hindrance(StrEnum):
    """Where a pod got stuck."""

    MOUNT = "mount"
    CONTAINER = "container"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How far it came: started if none is set, else waiting or refused for good."""

    hindrance: Hindrance | None = None
    message: str = ""
    waiting: dict[str, Waiting] = {}
    refusal: Refusal | None = None
    # Of one that started: what its author should know.
    hints: tuple[Hint, ...] = ()


class Starter:
    """Starts pods on a runtime, and brings changed config maps into running ones."""

    def __init__(
        self,
        runtime: Runtime,
        lookups: Lookups,
        directory: Directory,
        network: AddressPool | PlainNetwork,
        options: AgentOptions,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._lookups = lookups
        self._directory = directory
        self._pool = network if isinstance(network, AddressPool) else None
        self._plain = network if isinstance(network, PlainNetwork) else None
        self._options = options
        self._claims = ClaimFolders(options.data, options.claim_folders, options.claims_kept)
        self._patience = Patience()
        self._say = say
        self._said: set[str] = set()
        # By pod: what was put aside for its claims, and not told yet.
        self._aside: dict[str, list[Hint]] = {}

    @property
    def _setup(self) -> Setup:
        return self._options.setup

    async def start(self, pod: PodObject) -> Outcome:
        """Start it, or tell what is in the way."""
        try:
            order, hints = await self._ordered(pod)
        except VolumeError as error:
            return _of_volume(error)
        except NotYetError as error:
            waiting = {error.container: Waiting(reason=error.reason, message=str(error))}
            return Outcome(
                hindrance=Hindrance.CONTAINER, message=f"Error: {error}", waiting=waiting
            )
        except NeverError as error:
            return _never(error)
        await self._runtime.start(order)
        self._tell_of_images(pod)
        for _, text in hints:
            self._say_once(text)
        return Outcome(hints=hints)

    async def refresh(self, pod: PodObject) -> None:
        """Write mounted config maps and secrets anew where they changed."""
        found = await self._found(pod, with_variables=False)
        # An object that is missing now leaves the files as they were, as kubelet does.
        about, site = About(pod, self._setup, found), self._site(pod)
        await self._patience.do(pod.metadata.uid, partial(update, about, site))

    async def _ordered(self, pod: PodObject) -> tuple[PodOrder, tuple[Hint, ...]]:
        claims = await self._lookups.bind_claims(pod)
        known = Known()
        if self._plain is not None:
            known = Known(await self._plain.services(), await self._plain.replicas(pod))
        found = await self._found(pod, with_variables=True)
        if self._plain is not None:
            links = self._plain.links(pod.metadata.namespace, known.services)
            found = msgspec.structs.replace(found, services=links)
        about = About(pod, self._setup, found)
        uid = pod.metadata.uid
        if claims:
            await self._patience.do(uid, partial(self._bind, pod, claims))
        volumes = await self._patience.do(uid, partial(place_all, about, self._site(pod)))
        # Ordered before anything can be resolved: a pod that is refused leaves no name.
        order = order_of(pod, self._setup, msgspec.structs.replace(found, volumes=volumes))
        if self._plain is not None:
            order = self._plain.fitted(pod, order, self._setup, known)
        await self._patience.do(uid, partial(make_sub_paths, order))
        hosts_file = self._directory.prepare(pod, found.address)
        return msgspec.structs.replace(order, hosts_file=hosts_file), (
            *self._aside.pop(uid, ()),
            *_hints(pod, volumes),
        )

    def _bind(self, pod: PodObject, uids: Mapping[str, str], begin: Begin) -> None:
        """Which claim the files of a claim are for; what was put aside is told with the start."""
        namespace = pod.metadata.namespace
        for volume in pod.spec.volumes:
            source, uid = volume.persistent_volume_claim, uids.get(volume.name)
            if source is None or uid is None:
                continue
            begin(volume.name)
            name = source.claim_name
            with told(volume):
                aside = self._claims.bind(volume.name, namespace, name, uid)
            if aside is not None:
                text = (
                    f"claim {namespace}/{name} is a new one and begins empty; what the one before"
                )
                hint = (Reason.PUT_ASIDE, f"{text} it held is in {aside}")
                self._aside.setdefault(pod.metadata.uid, []).append(hint)

    async def _found(self, pod: PodObject, *, with_variables: bool) -> Found:
        wanted = mounted_wanted(pod)
        if with_variables:
            wanted |= variables_wanted(pod)
        namespace = pod.metadata.namespace
        looked = await self._lookups.find(namespace, wanted)
        has_links = with_variables and pod.spec.enable_service_links is not False
        return Found(
            config_maps=looked.config_maps,
            secrets=looked.secrets,
            services=self._directory.links(namespace) if has_links else (),
            address=self._address(pod),
            proxy=self._options.proxy() if with_variables else "",
            network=str(self._options.network or ""),
            names=self._directory.known_names(pod) if with_variables else (),
        )

    def _address(self, pod: PodObject) -> str:
        if self._pool is None:
            return ""
        try:
            return self._pool.take(pod.metadata.uid)
        except NoAddressError as error:
            # One comes free when another pod goes.
            raise NotYetError(str(error), reason="CreateContainerError") from error

    def _site(self, pod: PodObject) -> Site:
        folder = PodFolder(self._options.data, pod.metadata.uid)
        if self._plain is not None:
            # Nothing can stand in for a path where there are no mounts.
            return Site(folder, self._claims)
        return Site(folder, self._claims, (self._setup.start_folder, *self._setup.kept_folders))

    def _tell_of_images(self, pod: PodObject) -> None:
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            self._say_once(image_note(container.image, rule_for(container.image, self._setup)))

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)


def _hints(pod: PodObject, volumes: Mapping[str, Placed]) -> Iterator[Hint]:
    if pod.note:
        yield (Reason.LEFT_OUT, pod.note)
    for volume in pod.spec.volumes:
        if volume.host_path is not None and volumes[volume.name].stands_in:
            yield (
                Reason.MADE_INSIDE,
                f"hostPath {volume.host_path.path} is not on this machine: each pod has one of its"
                " own, which goes with it; make it, or use --pvc, to keep what is written there",
            )


def _of_volume(error: VolumeError) -> Outcome:
    if error.may_pass:
        message = f'MountVolume.SetUp failed for volume "{error.volume}" : {error}'
        return Outcome(hindrance=Hindrance.MOUNT, message=message)
    refusal = Refusal(reason="VolumeRefused", message=str(error))
    return Outcome(hindrance=Hindrance.MOUNT, message=str(error), refusal=refusal)


def _never(error: NeverError) -> Outcome:
    refusal = Refusal(reason=error.reason, message=str(error), container=error.container)
    return Outcome(hindrance=Hindrance.CONTAINER, message=f"Error: {error}", refusal=refusal)
