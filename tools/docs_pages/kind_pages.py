"""`docs/reference/<kind>.md` for each kind, and the index of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from docs_pages.markdown import code, page, slug, table
from docs_pages.tables import Requirement, Row, Section, requirements, sections
from jobyard.api.crd import schema_node
from jobyard.api.kinds import KINDS, Group, Kind, kind_of
from jobyard.api.parts.run_mode import Mode
from jobyard.manifest.reading import read
from jobyard.schema.node import Node

_ENABLED_BY = {
    Mode.DEBUG: "spec.runMode.debug.enabled: true",
    Mode.PAUSE: "spec.runMode.pause.enabled: true",
    Mode.ELASTIC: "spec.elastic.enabled: true",
}
_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata", "spec", "status")
_STATUS_NOTE = (
    "This page is about the API: what a manifest may say, and what the status tells. What a job "
    "does at run time is in [run modes](../modes.md) and [changing jobs](../changing-jobs.md)."
)


class Example(msgspec.Struct, frozen=True):
    """A file below `examples/`; `summary` is what its first comment says."""

    name: str
    summary: str


def kind_page(kind: Kind, examples: tuple[Example, ...]) -> str:
    node = schema_node(kind)
    found = [s for name in ("spec", "status") for s in sections(name, node.properties[name])]
    anchors = [slug(section.path) for section in found]
    assert len(set(anchors)) == len(anchors), f"{kind.name}: two sections share an anchor"
    return page(
        f"# {kind.name}",
        kind.summary,
        _STATUS_NOTE,
        _facts(kind),
        *_examples(examples),
        *_modes(kind),
        *_kubectl(kind),
        "## Fields",
        "`metadata` is that of every Kubernetes object. Types such as *PodTemplateSpec* are"
        " Kubernetes' own and are taken whole; `kubectl explain pod.spec` describes them."
        f" `jobyard explain {kind.short_name}.spec --recursive` tells the same in a terminal.",
        *(part for section in found for part in _section(section)),
        *_beside(node),
        *_rules(list(requirements(node))),
    )


def index_page() -> str:
    rows = [
        (_link(kind), code(kind.short_name), code(kind.api_version), kind.summary) for kind in KINDS
    ]
    matrix = [
        (_link(kind), "yes", *("yes" if mode in kind.modes else "" for mode in Mode))
        for kind in KINDS
        if _is_job(kind)
    ]
    return page(
        "# Reference",
        "Generated from the types and commands themselves by `python tools/make_docs.py`.",
        _STATUS_NOTE.replace("This page is", "These pages are"),
        "## Kinds",
        table(("kind", "short name", "apiVersion", "what it is"), rows),
        "## Run modes",
        "A mode that a kind does not have is refused, with a message that says so. What each"
        " mode means is told in [run modes](../modes.md).",
        table(("kind", "immediate", *map(str, Mode)), matrix),
        "## Commands",
        "[The command line](cli.md).",
    )


def examples_by_kind(folder: Path) -> dict[str, tuple[Example, ...]]:
    """The example files that hold an object of each kind, named relative to `folder`."""
    found: dict[str, list[Example]] = {kind.name: [] for kind in KINDS}
    for file in sorted(folder.glob("*/*.yaml")):
        text = file.read_text()
        kinds = {
            kind.name
            for document in read(text, file.name)
            if (kind := kind_of(document.value["apiVersion"], document.value["kind"]))
        }
        for name in kinds:
            example = Example(file.relative_to(folder).as_posix(), _first_sentence(text))
            found[name].append(example)
    return {name: tuple(examples) for name, examples in found.items()}


def _first_sentence(text: str) -> str:
    """That of the comment at the top of a file."""
    comment = []
    for line in text.splitlines():
        if not line.removeprefix("#").strip() or not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return re.split(r"(?<=\w)\.(?:\s|$)", " ".join(comment), maxsplit=1)[0]


def _is_job(kind: Kind) -> bool:
    return kind.group is not Group.SCHEDULER


def _link(kind: Kind) -> str:
    return f"[{kind.name}]({kind.singular}.md)"


def _facts(kind: Kind) -> str:
    rows = [
        ("apiVersion", code(kind.api_version)),
        ("kind", code(kind.name)),
        ("plural", code(kind.plural)),
        ("short name", ", ".join(map(code, kind.short_names))),
        ("scope", "namespaced" if kind.namespaced else "cluster"),
        ("CRD", f"[`crds/{crd_file(kind)}`](../../crds/{crd_file(kind)})"),
    ]
    if kind.aliases:
        told = ", ".join(map(code, kind.aliases))
        rows.append(("other spellings", f"{told}: taken by the tools, with a warning"))
    return table(("", ""), rows)


def crd_file(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}.yaml"


def _examples(examples: tuple[Example, ...]) -> Iterator[str]:
    if examples:
        yield "## Examples"
        yield table(
            ("file", "what it shows"),
            [(f"[{each.name}](../../examples/{each.name})", each.summary) for each in examples],
        )


def _modes(kind: Kind) -> Iterator[str]:
    if not _is_job(kind):
        return
    yield "## Run modes"
    if "runMode" not in schema_node(kind).properties["spec"].properties:
        yield f"A {kind.name} runs at once. It has no other mode, and no field for one."
        return
    rows = [("immediate", "yes", "no mode enabled")]
    rows += [
        (str(mode), "yes", code(enabled)) if mode in kind.modes else (str(mode), "no", "refused")
        for mode, enabled in _ENABLED_BY.items()
    ]
    yield table(("mode", "", "how"), rows)
    yield "What they mean: [run modes](../modes.md)."


def _kubectl(kind: Kind) -> Iterator[str]:
    yield "## kubectl"
    yield f"`kubectl get {kind.short_name}` shows:"
    yield table(
        ("column", "from"),
        [("Name", code(".metadata.name"))]
        + [(column.name, code(column.path)) for column in kind.columns],
    )
    if kind.scale is None:
        yield "Subresources: `status`."
        return
    yield (
        f"Subresources: `status` and `scale`. `kubectl scale {kind.short_name}/NAME"
        f" --replicas=N` writes `{kind.scale.spec_path}`; the current number is read from"
        f" `{kind.scale.status_path}`, the pods' labels from `{kind.scale.selector_path}`."
    )


def _section(section: Section) -> Iterator[str]:
    yield f"### {section.path}"
    yield section.description
    yield table(("field", "type", "default and bounds", "meaning"), map(_row, section.rows))


def _beside(node: Node) -> Iterator[str]:
    """Fields of the object itself that other objects don't have."""
    (root,) = [section for section in sections("", node) if not section.path]
    rows = [row for row in root.rows if row.name not in _OF_EVERY_OBJECT]
    if rows:
        yield "### Beside spec and status"
        yield table(("field", "type", "default and bounds", "meaning"), map(_row, rows))


def _row(row: Row) -> tuple[str, str, str, str]:
    shown = code(row.type)
    if row.section is not None:
        shown = f"[{shown}](#{slug(row.section)})"
    told = ["**required**"] if row.is_required else []
    return code(row.name), shown, "; ".join([*told, *row.notes]), row.description


def _rules(found: list[Requirement]) -> Iterator[str]:
    """Rules that stand at one place in several shapes of a kind are told once."""
    always = list(dict.fromkeys(r for r in found if not r.is_transition))
    on_change = list(dict.fromkeys(r for r in found if r.is_transition))
    yield "## Rules"
    if not found:
        yield "There are none beyond the types and bounds above."
    if always:
        yield "What a schema alone can't say, checked whenever an object is made or changed:"
        yield table(("reported at", "message"), map(_requirement, always))
    if on_change:
        yield "## Changes"
        yield (
            "Checked when an object takes the place of an older one; see"
            " [changing jobs](../changing-jobs.md):"
        )
        yield table(("reported at", "message"), map(_requirement, on_change))


def _requirement(found: Requirement) -> tuple[str, str]:
    return code(found.path) if found.path else "the object", found.text
