"""Kinds that aren't ours: which are somebody else's, and which are a mistake.

The platforms' files hold more than jobs. What the platform has and Jobyard hasn't (workflows,
notebooks) is left out by every command that reads files; a kind of ours with a letter wrong
must not be taken for one of those. See decision 43.
"""

from __future__ import annotations

from typing import Any, Final

from jobyard.api.kinds import KINDS, Group
from jobyard.schema.finding import Finding, enumerated, error
from jobyard.schema.wording import suggestion

# The platform's own group; the others end with it.
_PLATFORM: Final = "tensorstack.dev"
# What the platform has in groups of ours, by its published API references.
_PLATFORM_KINDS: Final = {
    Group.BATCH: ("WorkflowTemplate", "WorkflowRun", "CronWorkflowRun"),
}


def is_platforms(manifest: dict[str, Any]) -> bool:
    """Whether it is a kind that the platform has and Jobyard hasn't."""
    group, name = _group(manifest), manifest.get("kind")
    if group in tuple(Group):
        return name in _PLATFORM_KINDS.get(Group(group), ())
    return (group == _PLATFORM or group.endswith(f".{_PLATFORM}")) and not _apis(str(name))


def mistakes(manifest: dict[str, Any]) -> tuple[Finding, ...]:
    """What is wrong with the kind of an object that is none of ours; of somebody else's nothing."""
    api_version, name, group = manifest["apiVersion"], manifest["kind"], _group(manifest)
    is_near = group in tuple(Group) or group == _PLATFORM or group.endswith(f".{_PLATFORM}")
    if not is_near or is_platforms(manifest):
        return ()
    apis = _apis(name)
    if apis:
        return (error(("apiVersion",), f"is {api_version}; {name} is in {apis[0]}"),)
    ours = [kind.name for kind in KINDS if kind.group == group]
    text = f"is {name}; the kinds of {group} are {enumerated(ours, 'and')}"
    known = (*ours, *_PLATFORM_KINDS.get(Group(group), ()))
    return (error(("kind",), text + suggestion(name, known)),)


def _group(manifest: dict[str, Any]) -> str:
    group, slash, _ = str(manifest.get("apiVersion")).partition("/")
    # Kubernetes' own first kinds have a version and no group.
    return group if slash or group in tuple(Group) else ""


def _apis(name: str) -> list[str]:
    """The apiVersion of a kind of ours."""
    return [kind.api_version for kind in KINDS if name in (kind.name, *kind.aliases)]
