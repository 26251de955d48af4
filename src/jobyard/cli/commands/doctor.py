"""`jobyard doctor`: what this machine can do for jobs, and how to get what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from jobyard.cli.arguments.mappings import all_image_rules, image_folder
from jobyard.cli.arguments.needs import Check, kind_checks, own_environment
from jobyard.cli.arguments.options import output_option
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.output.style import Palette, table


@click.command("doctor")
@output_option()
def command(output: str) -> None:
    """Show what this machine can and can't do, and how to get what is missing."""
    isolation = [*_isolation()]
    checks = [*isolation, *_hardware(), *_kinds(isolation)]
    if output == "json":
        say_json([msgspec.to_builtins(check) for check in checks], indent=2)
        return
    palette = Palette()
    for group in dict.fromkeys(check.group for check in checks):
        say(palette.bold(group))
        rows = [_row(check, palette) for check in checks if check.group == group]
        for line in table(["", "", "", ""], rows)[1:]:
            say(f"  {line}")
        say()
    _verdict(checks, palette)


def _row(check: Check, palette: Palette) -> list[str]:
    mark = palette.phase("yes").strip() if check.is_there else palette.warning("no")
    told = check.detail if check.is_there else (check.remedy or check.detail)
    return [mark, check.name, told, check.needed_for]


def _verdict(checks: list[Check], palette: Palette) -> None:
    missing = [check for check in checks if check.group == "Sandboxes" and not check.is_there]
    vital = [check for check in missing if check.needed_for == "sandboxes"]
    if vital:
        say(
            palette.warning("Replicas run as plain processes here: ")
            + f"{vital[0].name}: {vital[0].detail}"
        )
    else:
        say("Replicas run in sandboxes here, each with a network of its own.")


def _isolation() -> Iterator[Check]:
    # Imported here: only the doctor and the engine look.
    from jobyard.node.runtime.abilities import look, missing_for_sandbox

    abilities = look()
    vital = missing_for_sandbox(abilities)
    for ability in abilities:
        is_vital = vital is not None and ability == vital
        yield Check(
            group="Sandboxes",
            name=str(ability.what),
            is_there=ability.is_there,
            detail=ability.reason,
            remedy=ability.remedy,
            needed_for="sandboxes" if is_vital else "",
        )
    if vital is None:
        yield Check(
            group="Sandboxes",
            name="the way out",
            is_there=True,
            detail=_way_out(),
            needed_for="data sets, model hubs",
        )


def _way_out() -> str:
    from jobyard.node.hub.outside import NO_WAY, chosen

    program, _ = chosen(is_mapped=os.geteuid() != 0)
    if program != NO_WAY:
        return f"all of the network, through {program}; the machine's loopback is out of reach"
    return "HTTP and HTTPS alone, through a proxy of the engine (http_proxy, https_proxy)"


def _hardware() -> Iterator[Check]:
    from jobyard.node.agent.capacity import capacity_of_machine

    has = capacity_of_machine(Path.cwd())
    yield Check(group="Machine", name="cores", is_there=True, detail=str(has.cpus))
    memory = f"{has.memory_bytes / 2**30:.1f} GiB"
    yield Check(group="Machine", name="memory", is_there=True, detail=memory)
    yield Check(
        group="Machine", name="GPUs", is_there=has.gpus > 0, detail=str(has.gpus or "none seen")
    )


def _kinds(isolation: list[Check]) -> Iterator[Check]:
    vital = [each.name for each in isolation if each.needed_for == "sandboxes"]
    rules = all_image_rules((), os.environ)
    environments = dict.fromkeys([own_environment(), *map(image_folder, rules)])
    yield from kind_checks(
        environments, is_root=os.geteuid() == 0, sandboxes_lack=vital[0] if vital else ""
    )
    yield Check(
        group="Beside them",
        name="kubectl",
        is_there=shutil.which("kubectl") is not None,
        detail=shutil.which("kubectl") or "not found",
        needed_for="looking at the engine as at a cluster",
        remedy="see kubernetes.io/docs/tasks/tools",
    )
