"""Objects of Kubernetes' own kinds, good and bad, for comparing two servers' verdicts.

Data and small builders only; who compares is in `test_server_kinds.py`. Conformance suites may
use it too.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def obj(kind: str, api_version: str = "v1", *, meta: Object | None = None, **rest: Any) -> Object:
    metadata = {"name": "sample"} if meta is None else meta
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def pod(*, container: Object | None = None, meta: Object | None = None, **spec: Any) -> Object:
    # No token: the real server would add a volume with a random name.
    base = {"containers": [{"name": "main", "image": "busybox"} | (container or {})]}
    return obj("Pod", meta=meta, spec=base | {"automountServiceAccountToken": False} | spec)


def _variable(**source: Any) -> Object:
    return {"name": "V", "valueFrom": source}


def _volume(name: str = "v", **source: Any) -> Object:
    return {"name": name, **source}


def _affinity(**node: Any) -> Object:
    return {"nodeAffinity": node}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

GOOD_PODS: dict[str, Object] = {
    "the least": pod(),
    "a full container": pod(
        container={
            "image": "registry:5000/a/b:1.2",
            "command": [],
            "args": ["x"],
            "ports": [{"containerPort": 80}, {"containerPort": 81, "name": "a", "protocol": "UDP"}],
            "env": [
                {"name": "EMPTY", "value": ""},
                _variable(fieldRef={"fieldPath": "metadata.name"}),
                _variable(resourceFieldRef={"resource": "limits.cpu"}),
                _variable(fieldRef={"fieldPath": "metadata.labels['a/b']"}),
            ],
            "resources": {"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": 0.5}},
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"exec": {"command": ["a"]}, "periodSeconds": 3},
            "lifecycle": {"preStop": {"httpGet": {"port": "a"}}},
            "tty": False,
            "stdin": True,
            "securityContext": {"runAsUser": 0, "privileged": False},
        }
    ),
    "a guaranteed one": pod(container={"resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}}),
    "quantities in every spelling": pod(
        container={
            "resources": {
                "requests": {"cpu": "0.1", "memory": "1500000000"},
                "limits": {"cpu": "2000m", "memory": "3e9", "ephemeral-storage": "0.5Gi"},
            }
        }
    ),
    "every volume that we run": pod(
        volumes=[
            _volume("a"),
            _volume("b", configMap={"name": "x", "optional": False}),
            _volume("c", secret={"secretName": "y", "items": [{"key": "a", "path": "b"}]}),
            _volume("d", hostPath={"path": "/x"}),
            _volume("e", emptyDir={"medium": "Memory", "sizeLimit": "1000m"}),
            _volume(
                "f",
                projected={
                    "sources": [
                        {"configMap": {"name": "a"}},
                        {"serviceAccountToken": {"path": "t"}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}
                                ]
                            }
                        },
                    ]
                },
            ),
            _volume("h", persistentVolumeClaim={"claimName": "p", "readOnly": False}),
            _volume("j", nfs={"server": "s", "path": "/p"}),
        ]
    ),
    "init containers and host network": pod(
        initContainers=[
            {"name": "i", "image": "x@sha256:" + "a" * 64},
            {
                "name": "s",
                "image": "y:latest",
                "restartPolicy": "Always",
                "startupProbe": {"tcpSocket": {"port": 1}},
            },
        ],
        hostNetwork=True,
        container={"ports": [{"containerPort": 80}]},
        restartPolicy="Never",
    ),
    "much of a spec": pod(
        nodeSelector={},
        tolerations=[{"operator": "Exists"}],
        affinity=_affinity(
            **{
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                    ]
                }
            }
        ),
        dnsConfig={"options": [{"name": "n"}]},
        hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a"]}],
        activeDeadlineSeconds=5,
        priorityClassName="system-cluster-critical",
        serviceAccount="default",
        imagePullSecrets=[{"name": "x"}],
        hostname="a",
        subdomain="b",
        terminationGracePeriodSeconds=0,
        readinessGates=[{"conditionType": "a/b"}],
    ),
    "fields that nobody knows": pod(
        container={"foo": 1, "env": [{"name": "a", "bar": {"x": 1}}]}, baz=[]
    ),
    "labels without a value, and a status": pod(
        meta={
            "name": "sample",
            "labels": {"a": None},
            "annotations": {},
            "finalizers": [],
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "a",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        }
    )
    | {"status": {"phase": "Running"}},
}

BAD_PODS: dict[str, Object] = {
    "a container's name": pod(container={"name": "A B"}),
    "no name and no image": pod(container={"name": "", "image": ""}),
    "an image with a space": pod(container={"image": " x"}),
    "no containers": pod(containers=[]),
    "containers are null": pod(containers=None),
    "two containers of a name": pod(
        containers=[{"name": "a", "image": "b"}, {"name": "a", "image": "b"}]
    ),
    "a mount of nothing": pod(container={"volumeMounts": [{"name": "v", "mountPath": "/x"}]}),
    "volumes and mounts twice": pod(
        volumes=[_volume(emptyDir={}), _volume(emptyDir={}), _volume("V")],
        container={
            "volumeMounts": [
                {"name": "v", "mountPath": "/x", "subPath": "../a"},
                {"name": "v", "mountPath": "/x"},
                {"name": "v", "mountPath": ""},
            ]
        },
    ),
    "policies that don't exist": pod(restartPolicy="Sometimes", dnsPolicy="x"),
    "pull and message policies": pod(
        container={"imagePullPolicy": "x", "terminationMessagePolicy": "y"}
    ),
    "requests above limits": pod(
        container={"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}
    ),
    "a negative quantity": pod(container={"resources": {"limits": {"cpu": "-1"}}}),
    "resources with strange names": pod(
        container={
            "resources": {
                "limits": {"foo": "1", "a.b/c": "1.5", "nvidia.com/gpu": 1},
                "requests": {"example.com/x": 2},
            }
        }
    ),
    "variables": pod(
        container={
            "env": [
                {"name": ""},
                {"name": "a=b"},
                _variable(),
                _variable(fieldRef={"fieldPath": "x.y"}) | {"value": "x"},
                _variable(fieldRef={"fieldPath": "metadata.labels"}),
                _variable(configMapKeyRef={"name": "a", "key": "/"}),
                _variable(secretKeyRef={"key": "a"}),
                _variable(resourceFieldRef={"resource": "x"}),
            ],
            "envFrom": [{}, {"configMapRef": {}}, {"secretRef": {"name": "a"}, "prefix": "="}],
        }
    ),
    "ports": pod(
        container={
            "ports": [
                {"containerPort": 0},
                {"containerPort": 70000},
                {"containerPort": 1, "name": "ABC"},
                {"containerPort": 1, "hostPort": 5, "protocol": "x"},
                {"containerPort": 1, "hostPort": 5, "protocol": "x"},
            ]
        }
    ),
    "a probe of nothing": pod(container={"livenessProbe": {}}),
    "probes": pod(
        container={
            "livenessProbe": {"exec": {}, "httpGet": {"port": 0}},
            "readinessProbe": {
                "httpGet": {"port": "ABC", "httpHeaders": [{"name": "a b", "value": "x"}]},
                "periodSeconds": -1,
            },
            "startupProbe": {"tcpSocket": {"port": 70000}, "successThreshold": 2},
        }
    ),
    "init containers": pod(
        initContainers=[
            {"name": "main", "image": "x"},
            {"name": "b", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}},
        ]
    ),
    "volumes": pod(
        volumes=[
            _volume("a", emptyDir={}, hostPath={"path": "/x"}),
            _volume("b", configMap={}),
            _volume("c", secret={"defaultMode": 0o1777}),
            _volume("d", hostPath={"path": "/a/../b", "type": "x"}),
            _volume("e", persistentVolumeClaim={}),
            _volume(
                "f",
                projected={
                    "sources": [
                        {"secret": {}},
                        {"configMap": {"name": "a", "items": [{"key": "", "path": "/x"}]}},
                    ]
                },
            ),
            _volume("g", downwardAPI={"items": [{"path": "..x"}]}),
        ]
    ),
    "names in the spec": pod(
        nodeSelector={"a b": "c", "d": "-"},
        nodeName="A",
        hostname="a.b",
        subdomain="B",
        activeDeadlineSeconds=0,
        securityContext={"runAsUser": -1, "supplementalGroups": [-2]},
    ),
    "tolerations": pod(
        tolerations=[
            {"key": "a b"},
            {"operator": "Exists", "value": "x"},
            {"key": "a", "operator": "x"},
            {"key": "a", "effect": "y", "tolerationSeconds": 1},
            {"key": "a", "value": "-"},
        ]
    ),
    "affinity": pod(
        affinity={
            **_affinity(
                **{
                    _REQUIRED: {"nodeSelectorTerms": []},
                    _PREFERRED: [
                        {
                            "weight": 0,
                            "preference": {"matchExpressions": [{"key": "a b", "operator": "x"}]},
                        }
                    ],
                }
            ),
            "podAffinity": {
                _REQUIRED: [
                    {"topologyKey": ""},
                    {
                        "topologyKey": "a",
                        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                    },
                ]
            },
        }
    ),
    "no name server": pod(dnsPolicy="None"),
    "host aliases": pod(hostAliases=[{"ip": "x", "hostnames": ["A"]}]),
    "an unknown priority class": pod(priorityClassName="nope"),
    "a priority of one's own": pod(priority=5),
    "ephemeral containers": pod(ephemeralContainers=[{"name": "e", "image": "x"}]),
    "an upper-case name": pod(meta={"name": "A_b"}),
    "no name": pod(meta={}),
    "a long name": pod(meta={"name": "a" * 254}),
    "metadata": pod(
        meta={
            "name": "a",
            "labels": {"a b": "c", "a/b/c": "d", "x": "-y", "/z": "", "A.b/c": "d"},
            "annotations": {"B b": ""},
            "finalizers": ["a b", "foo"],
            "ownerReferences": [
                {"apiVersion": "", "kind": "", "name": "", "uid": "", "controller": True},
                {"apiVersion": "v1", "kind": "A", "name": "n", "uid": "u", "controller": True},
            ],
        }
    ),
    "large annotations": pod(meta={"name": "a", "annotations": {"a": "x" * 300_000}}),
}

# Values of the wrong type: refused before anything is validated.
UNDECODABLE: dict[str, Object] = {
    "a number for an image": pod(container={"image": 5}),
    "a text for a list": pod(container={"command": "x"}),
    "a truth value for a text": pod(container={"env": [{"name": "a", "value": True}]}),
    "a text for a port": pod(container={"ports": [{"containerPort": "a"}]}),
    "a fraction for a port": pod(container={"ports": [{"containerPort": 1.5}]}),
    "a port beyond 32 bits": pod(container={"ports": [{"containerPort": 3_000_000_000}]}),
    "an object for a list": pod(container={"ports": {}}),
    "a list for an object": pod(container={"resources": []}),
    "a word for a quantity": pod(container={"resources": {"limits": {"cpu": "abc"}}}),
    "a truth value for a port": pod(container={"livenessProbe": {"httpGet": {"port": True}}}),
    "a number in a map of texts": pod(nodeSelector={"a": 1}),
    "a list for a map": pod(nodeSelector=[]),
    "a text in a list of objects": pod(containers=["x"]),
    "a number for metadata": pod() | {"metadata": 5},
    "a text for a spec": pod() | {"spec": "x"},
    "a number for a truth value": pod(hostNetwork=1),
    "a text for a volume's source": pod(volumes=[_volume(emptyDir="x")]),
    "a mode as a text": pod(volumes=[_volume(secret={"defaultMode": "0644"})]),
    "no base64": obj("Secret", data={"a": "!!"}),
    "base64 cut short": obj("Secret", data={"a": "eA"}),
    "a number for base64": obj("Secret", data={"a": 7}),
    "a number in a ConfigMap": obj("ConfigMap", data={"a": 7}),
    "a word for a time": obj("Lease", "coordination.k8s.io/v1", spec={"renewTime": "x"}),
    "a number for a time": obj("Lease", "coordination.k8s.io/v1", spec={"renewTime": 7}),
}


def _claim(**spec: Any) -> Object:
    return obj("PersistentVolumeClaim", spec=spec)


def _service(**spec: Any) -> Object:
    return obj("Service", spec=spec)


def _event(**rest: Any) -> Object:
    return obj("Event", **rest)


_STORAGE = {"requests": {"storage": "1024Mi"}}
_WHEN = "2024-01-01T00:00:00.000001Z"
_LEASES, _EVENTS, _PRIORITIES, _SLICES = (
    f"{group}.k8s.io/v1" for group in ("coordination", "events", "scheduling", "discovery")
)

OTHERS: dict[str, Object] = {
    "ConfigMap: empty": obj("ConfigMap"),
    "ConfigMap: full": obj(
        "ConfigMap", data={"a": "b", "c": "", "d": None}, binaryData={"e": "AAA="}, immutable=False
    ),
    "ConfigMap: keys": obj("ConfigMap", data={"a b": "c", "..": "", "d": ""}, binaryData={"d": ""}),
    "ConfigMap: unknown fields": obj("ConfigMap", meta={"name": "a", "bar": {"z": 1}}, foo=1),
    "Secret: stringData wins": obj(
        "Secret", stringData={"a": "b"}, data={"a": "eA==", "c": "eA=="}
    ),
    "Secret: tls": obj("Secret", type="kubernetes.io/tls"),
    "Secret: docker": obj(
        "Secret", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="}
    ),
    "Secret: no docker": obj("Secret", type="kubernetes.io/dockercfg", data={".dockercfg": "eA=="}),
    "Secret: ssh": obj("Secret", type="kubernetes.io/ssh-auth"),
    "Secret: basic": obj("Secret", type="kubernetes.io/basic-auth"),
    "Secret: key": obj("Secret", data={"a/b": ""}),
    "Namespace": obj("Namespace", meta={"name": "fresh"}),
    "Namespace: name": obj("Namespace", meta={"name": "a.b"}),
    "Namespace: label and finalizer": obj(
        "Namespace",
        meta={"name": "fresh", "labels": {"kubernetes.io/metadata.name": "z"}},
        spec={"finalizers": ["a"]},
    ),
    "ServiceAccount": obj(
        "ServiceAccount", imagePullSecrets=[{"name": "b"}], automountServiceAccountToken=False
    ),
    "PersistentVolumeClaim": _claim(accessModes=["ReadWriteOnce"], resources=_STORAGE),
    "PersistentVolumeClaim: source": _claim(
        accessModes=["ReadWriteOnce"],
        storageClassName="",
        resources={"requests": {"storage": "1.5Gi"}},
        dataSource={"kind": "PersistentVolumeClaim", "name": "z"},
    ),
    "PersistentVolumeClaim: nothing": obj("PersistentVolumeClaim"),
    "PersistentVolumeClaim: bad": _claim(
        accessModes=["x", "ReadWriteOncePod", "ReadWriteOnce"],
        resources={"requests": {"storage": "0"}},
        storageClassName="A",
        volumeMode="x",
        selector={"matchLabels": {"a b": "c"}},
    ),
    "Node": obj(
        "Node",
        meta={"name": "node"},
        status={
            "capacity": {"cpu": "2", "memory": "1024Ki"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
        },
        spec={"unschedulable": True},
    ),
    "Node: taints": obj(
        "Node",
        meta={"name": "node"},
        spec={
            "taints": [
                {"key": "a b", "effect": "x"},
                {"key": "a", "effect": "NoSchedule"},
                {"key": "a", "effect": "NoSchedule"},
            ]
        },
    ),
    "Lease: empty": obj("Lease", _LEASES),
    "Lease": obj(
        "Lease",
        _LEASES,
        spec={
            "holderIdentity": "",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "renewTime": "2024-01-01T02:00:00.123456+02:00",
            "acquireTime": None,
        },
    ),
    "Lease: bad": obj("Lease", _LEASES, spec={"leaseDurationSeconds": 0, "leaseTransitions": -1}),
    "Event": _event(
        involvedObject={"kind": "Pod", "namespace": "default", "name": "a"},
        reason="R",
        message="m",
        type="Normal",
        count=1,
        firstTimestamp="2024-01-01T00:00:00Z",
    ),
    "Event: elsewhere": _event(involvedObject={"namespace": "other"}),
    "Event: new and incomplete": _event(involvedObject={"namespace": "default"}, eventTime=_WHEN),
    "events.k8s.io Event": obj(
        "Event",
        _EVENTS,
        regarding={"namespace": "default"},
        eventTime=_WHEN,
        reportingController="a/b",
        reportingInstance="i",
        action="act",
        reason="r",
        type="Normal",
        note="n",
    ),
    "events.k8s.io Event: bad": obj(
        "Event",
        _EVENTS,
        regarding={"namespace": "default"},
        deprecatedCount=1,
        series={"count": 1},
    ),
    "PriorityClass": obj("PriorityClass", _PRIORITIES, value=5),
    "PriorityClass: too high": obj("PriorityClass", _PRIORITIES, value=2_000_000_000),
    "PriorityClass: reserved": obj(
        "PriorityClass", _PRIORITIES, meta={"name": "system-x"}, value=1, preemptionPolicy="x"
    ),
    "Endpoints": obj(
        "Endpoints",
        subsets=[{"addresses": [{"ip": "1.2.3.4", "nodeName": "n"}], "ports": [{"port": 1}]}],
    ),
    "Endpoints: bad": obj(
        "Endpoints",
        subsets=[
            {},
            {
                "addresses": [{"ip": "127.0.0.1"}, {"ip": "x", "hostname": "A"}],
                "ports": [{"port": 0}, {"port": 5, "name": "B", "protocol": "x"}],
            },
        ],
    ),
    "EndpointSlice": obj(
        "EndpointSlice",
        _SLICES,
        addressType="IPv4",
        endpoints=[{"addresses": ["1.2.3.4"], "conditions": {"ready": True}, "hostname": "a"}],
        ports=[{"port": 80}],
    ),
    "EndpointSlice: no type": obj("EndpointSlice", _SLICES),
    "Service": _service(ports=[{"port": 80}]),
    "Service: headless": _service(ports=[{"port": 80}], selector={"a": "b"}, clusterIP="None"),
    "Service: headless, no selector": _service(clusterIP="None"),
    "Service: no ports": _service(ports=[]),
    "Service: ports": obj(
        "Service",
        meta={"name": "1a"},
        spec={"ports": [{"port": 80, "name": "A"}, {"port": 80, "targetPort": "x_y"}]},
    ),
    "Service: node port": _service(type="NodePort", ports=[{"port": 80, "nodePort": 30080}]),
    "Service: load balancer": _service(
        type="LoadBalancer", ports=[{"port": 80, "nodePort": 30081}]
    ),
    "Service: external name": _service(type="ExternalName", externalName="a.b"),
    "Service: external name with address": _service(type="ExternalName", clusterIP="1.2.3.4"),
    "Service: words": _service(type="x", ports=[{"port": 0, "protocol": "y"}], sessionAffinity="z"),
    "Service: affinity": _service(
        sessionAffinity="ClientIP",
        ports=[
            {"port": 1, "name": "a", "appProtocol": "http"},
            {"port": 2, "name": "b", "targetPort": "web"},
        ],
        publishNotReadyAddresses=True,
    ),
    "Service: no address": _service(ports=[{"port": 80}], clusterIP="x", selector={"a b": "c"}),
    "Service: headless node port": _service(
        ports=[{"port": 80}], type="NodePort", clusterIP="None"
    ),
}
