"""Pods: the strategy, put together from defaults, checks and what may change."""

from __future__ import annotations

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.pods.changes import change_faults, status_faults
from jobyard.server.kinds.pods.defaults import DEFAULTS, admit, tolerate_troubles
from jobyard.server.kinds.pods.pod_faults import pod_faults
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.surroundings import Surroundings
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.problem import forbidden
from jobyard.server.resource import Admitted, Object, Part


def pod_strategy(surroundings: Surroundings) -> PodStrategy:
    return PodStrategy(surroundings)


class PodStrategy(KubernetesStrategy):
    """The frame, and what admission refuses before any field is looked at."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(
            Particulars(
                definition=CORE + "Pod",
                kind="Pod",
                has_status=True,
                defaults=DEFAULTS,
                prepare=lambda pod: admit(pod, surroundings),
                prepare_change=lambda pod, _: tolerate_troubles(pod["spec"]),
                check=_created_faults,
                check_change=change_faults,
                check_status=status_faults,
                checks_change_alone=True,
            )
        )
        self._surroundings = surroundings

    def created(self, obj: Object) -> Admitted:
        admitted = super().created(obj)
        self._refuse_unknown_priority(admitted.value)
        return admitted

    def updated(self, obj: Object, old: Object, part: Part) -> Admitted:
        if part is Part.STATUS and isinstance(obj.get("status") or {}, dict):
            status = _with_addresses(obj.get("status") or {})
            if not status.get("qosClass") and "qosClass" in old.get("status", {}):
                status["qosClass"] = old["status"]["qosClass"]
            obj = {**obj, "status": status}
        return super().updated(obj, old, part)

    def _refuse_unknown_priority(self, pod: Object) -> None:
        spec, name = pod["spec"], pod["metadata"].get("name", "")
        wanted = spec.get("priorityClassName")
        if not wanted:
            found = self._surroundings.default_priority_class()
        else:
            found = self._surroundings.priority_class(wanted)
            if found is None:
                why = f"no PriorityClass with name {wanted} was found"
                raise forbidden("", "pods", name, why)
        computed = found.get("value", 0) if found else 0
        if spec["priority"] != computed:
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod"
                f" spec; priority admission controller computed {computed} from the given"
                " PriorityClass name"
            )
            raise forbidden("", "pods", name, why)


def _with_addresses(status: Object) -> Object:
    """One address and the list of them say the same; the one comes first."""
    single, several = status.get("podIP"), status.get("podIPs")
    if single and (not several or several[0] != {"ip": single}):
        return {**status, "podIPs": [{"ip": single}]}
    if several and not single and isinstance(several[0], dict):
        return {**status, "podIP": several[0].get("ip")}
    return {**status}


def _created_faults(pod: Object, faults: Faults) -> None:
    pod_faults(pod, faults)
    if pod["spec"].get("ephemeralContainers"):
        faults.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        faults.forbidden("spec.nodeName", text)
