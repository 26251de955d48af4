"""Which fields of Kubernetes' own types tell "not set" from their zero value.

The published schemas don't say it, but it shows in what the API server stores: `tty: false`
is the same as nothing, `optional: false` is not. Facts about the types, nothing else.
"""

from __future__ import annotations

from typing import Final

# Wherever they occur (but see below), these keep a zero that was said.
_TOLD_APART: Final = frozenset(
    [
        "activeDeadlineSeconds",
        "allocateLoadBalancerNodePorts",
        "allowPrivilegeEscalation",
        "apiGroup",
        "appProtocol",
        "automountServiceAccountToken",
        "blockOwnerDeletion",
        "cachingMode",
        "capacity",
        "controller",
        "currentVolumeAttributesClassName",
        "defaultMode",
        "deletionGracePeriodSeconds",
        "deprecationWarning",
        "enableServiceLinks",
        "expirationSeconds",
        "fsGroup",
        "fsGroupChangePolicy",
        "gmsaCredentialSpec",
        "gmsaCredentialSpecName",
        "gracePeriodSeconds",
        "holderIdentity",
        "hostProcess",
        "hostUsers",
        "hostnameOverride",
        "immutable",
        "initiatorName",
        "internalTrafficPolicy",
        "ipFamilyPolicy",
        "ipMode",
        "labelSelectorPath",
        "leaseDurationSeconds",
        "leaseTransitions",
        "loadBalancerClass",
        "localhostProfile",
        "lun",
        "maxExpirationSeconds",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minDomains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "mode",
        "mountPropagation",
        "multipleOf",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "optional",
        "optionalOldSelf",
        "orphanDependents",
        "port",
        "preemptionPolicy",
        "preferredHolder",
        "privileged",
        "procMount",
        "propagationPolicy",
        "readOnlyRootFilesystem",
        "ready",
        "recursiveReadOnly",
        "recursiveReadOnlyMounts",
        "remainingItemCount",
        "resourceClaimName",
        "resourceClaimTemplateName",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "runAsUserName",
        "runtimeClassName",
        "seLinuxChangePolicy",
        "serving",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "started",
        "stopSignal",
        "storageClassName",
        "strategy",
        "supplementalGroupsPolicy",
        "terminating",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
        "trafficDistribution",
        "userNamespaces",
        "volumeAttributesClassName",
        "volumeMode",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "zone",
    ]
)
# The same for fields whose name means something else in other types.
_TOLD_APART_IN: Final = frozenset(
    {
        ("CSIVolumeSource", "fsType"),
        ("CSIVolumeSource", "readOnly"),
        ("ClientIPConfig", "timeoutSeconds"),
        ("Container", "restartPolicy"),
        ("Endpoint", "hostname"),
        ("Endpoint", "nodeName"),
        ("EndpointAddress", "nodeName"),
        ("HostPathVolumeSource", "type"),
        ("PodDNSConfigOption", "value"),
        ("PodSpec", "priority"),
        ("PortStatus", "error"),
        ("Preconditions", "resourceVersion"),
        ("Preconditions", "uid"),
        ("ServiceReference", "path"),
        ("TypedObjectReference", "namespace"),
        ("ValidationRule", "reason"),
        ("WebhookClientConfig", "url"),
    }
)
_DISCOVERY_PORT: Final = "io.k8s.api.discovery.v1.EndpointPort"

# Times that are null where they aren't known, instead of absent.
TIMES_SHOWN_AS_NULL: Final = frozenset(
    [
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
        "finishedAt",
        "firstTimestamp",
        "lastHeartbeatTime",
        "lastObservedTime",
        "lastProbeTime",
        "lastTimestamp",
        "lastTransitionTime",
        "startedAt",
    ]
)


def tells_zero_apart(definition: str, field: str) -> bool:
    """Whether a zero, an empty text or false in this field is more than nothing."""
    if field in _TOLD_APART or definition == _DISCOVERY_PORT:
        return True
    return (definition.rpartition(".")[2], field) in _TOLD_APART_IN
