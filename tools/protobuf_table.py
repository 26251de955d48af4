"""Which number each field of Kubernetes' own types has on the wire of protobuf.

`python tools/protobuf_table.py FOLDER` writes `src/jobyard/server/messages/protobuf.json`. FOLDER
holds the Go modules api, apimachinery and apiextensions-apiserver of k8s.io, each with its version
(`api@v…`), as the build of the control plane (`tools/get_kube.py`) leaves them. The struct tags
there say everything: name, number, whether a field is a pointer, whether it is inlined. Only facts
are taken, no texts.

A field is `[number, name, type]`. A type is a letter (`s` text, `i` number, `b` truth, `y` bytes,
`t` Time, `m` MicroTime, `q` Quantity, `o` IntOrString, `r` raw JSON, `d` float) or the name of a
message, after `*` if it is a pointer, `[` if repeated, `{` if a map of texts, `^` if inlined.
The fields of `UNIONS` have no names in JSON, where such a value is one of them; here they have
those of the wire.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

OUTPUT = Path(__file__).parent.parent / "src/jobyard/server/messages/protobuf.json"
META = "apimachinery/pkg/apis/meta/v1"
EXTENSIONS = "apiextensions-apiserver/pkg/apis/apiextensions/v1"
# What a package is called in the table, where it isn't the rest of its path.
SHORT = {META: "meta/v1", EXTENSIONS: "apiextensions/v1"}
UNIONS = ("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
# By import name, where a type of another package is.
PACKAGES = {
    "metav1": META,
    "v1": "api/core/v1",
    "corev1": "api/core/v1",
    "core": "api/core/v1",
    "apiv1": "api/core/v1",
}
ROOTS = {
    "api/core/v1": (
        *("Binding", "ConfigMap", "Endpoints", "Event", "Namespace", "Node"),
        *("PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount"),
    ),
    "api/events/v1": ("Event",),
    "api/coordination/v1": ("Lease",),
    "api/discovery/v1": ("EndpointSlice",),
    "api/scheduling/v1": ("PriorityClass",),
    "api/policy/v1": ("Eviction",),
    "api/autoscaling/v1": ("Scale",),
    "api/authentication/v1": ("SelfSubjectReview", "TokenRequest", "TokenReview"),
    "api/authorization/v1": (
        *("LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview"),
        "SubjectAccessReview",
    ),
    EXTENSIONS: ("CustomResourceDefinition",),
    META: ("DeleteOptions",),
}
SPECIAL = {
    "metav1.Time": "t",
    "metav1.MicroTime": "m",
    "resource.Quantity": "q",
    "intstr.IntOrString": "o",
    "metav1.FieldsV1": "r",
    "runtime.RawExtension": "r",
    "JSON": "r",
    "string": "s",
    "bool": "b",
    "[]byte": "y",
    "int32": "i",
    "int64": "i",
    "float64": "d",
    "types.UID": "s",
    "types.NodeName": "s",
    "types.NamespacedName": "s",
}
_STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\n(.*?)^)?\}", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) ([\w.\[\]*]+)$", re.MULTILINE)
_FIELD = re.compile(r"^\t(?:\w+\s+)?(\S+)\s+`(.*)`\s*(?://.*)?$", re.MULTILINE)


class Package:
    """The types of one Go package, by name."""

    def __init__(self, folder: Path, path: str) -> None:
        module, _, rest = path.partition("/")
        # The newest, where a build of something else has left another.
        found = max(folder.glob(f"{module}@*"), key=lambda each: _numbers(each.name))
        files = sorted((found / rest).glob("*types*.go"))
        text = "".join(f.read_text() for f in files if not f.name.endswith("_test.go"))
        self.path = path
        self.structs = dict(_STRUCT.findall(text))
        self.aliases = dict(_ALIAS.findall(text))


class Table:
    """Grows with every message that another one needs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packages: dict[str, Package] = {}
        self.messages: dict[str, list[list[object]]] = {}

    def package(self, path: str) -> Package:
        if path not in self._packages:
            self._packages[path] = Package(self._folder, path)
        return self._packages[path]

    def add(self, path: str, name: str) -> str:
        """The name of a message in the table."""
        key = f"{SHORT.get(path, path.removeprefix('api/'))}.{name}"
        if key not in self.messages:
            self.messages[key] = []
            body = self.package(path).structs[name]
            fields = [
                self._field(path, *match, is_union=name in UNIONS) for match in _FIELD.findall(body)
            ]
            self.messages[key] = [field for field in fields if field is not None]
        return key

    def _field(self, path: str, kind: str, tags: str, *, is_union: bool) -> list[object] | None:
        wire = re.search(r'protobuf:"\w+,(\d+),', tags)
        said = re.search(r"name=(\w+)" if is_union else r'json:"([^",]*)', tags)
        if wire is None or said is None:
            return None
        inlined = "^" if not said[1] else ""
        return [int(wire[1]), said[1], inlined + self._type(path, kind)]

    def _type(self, path: str, kind: str) -> str:
        if kind in SPECIAL:
            return SPECIAL[kind]
        if path == META and f"metav1.{kind}" in SPECIAL:
            return SPECIAL[f"metav1.{kind}"]
        if kind.startswith("*"):
            return "*" + self._type(path, kind[1:])
        if kind.startswith("[]"):
            return "[" + self._type(path, kind[2:])
        if kind.startswith("map["):
            return "{" + self._type(path, kind.partition("]")[2])
        prefix, dot, name = kind.rpartition(".")
        home = PACKAGES[prefix] if dot else path
        package = self.package(home)
        if name in package.aliases:
            return self._type(home, package.aliases[name])
        return self.add(home, name)


def _numbers(name: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"[0-9]+", name.partition("@")[2])]


def main() -> None:
    table = Table(Path(sys.argv[1]))
    for path, names in ROOTS.items():
        for name in names:
            table.add(path, name)
    lines = [
        f"{json.dumps(key)}: {json.dumps(table.messages[key])}" for key in sorted(table.messages)
    ]
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
