"""What stands in for an image: nothing but the machine's own files, or a folder that was named.

Images aren't pulled. A rule maps names of images to a virtualenv, whose commands then come
first, or to a root folder, which is all that the container sees. `rule_of` alone looks at the
disk, once, when the engine starts.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from jobyard.node.ordering.environment import DEFAULT_PATH
from jobyard.node.ordering.surroundings import ImageRule, ImageTarget, Setup


class ImageRuleError(Exception):
    """A rule that says nothing usable; the message names it and what would do."""


def rule_of(text: str) -> ImageRule:
    """Reads `PATTERN=FOLDER`."""
    pattern, sign, folder = text.rpartition("=")
    if not sign or not pattern or not folder:
        raise ImageRuleError(f"image rule {text!r}: must look like 'pytorch/*=./venv'")
    path = Path(folder).expanduser().resolve()
    if (path / "pyvenv.cfg").is_file() or (path / "conda-meta").is_dir():
        return ImageRule(pattern=pattern, folder=str(path))
    if (path / "usr").is_dir() or ((path / "bin").is_dir() and (path / "etc").is_dir()):
        return ImageRule(pattern=pattern, folder=str(path), type=ImageTarget.ROOT)
    raise ImageRuleError(
        f"image rule {text!r}: {path} is neither a virtualenv (no pyvenv.cfg)"
        " nor a root folder (no usr)"
    )


def rule_for(image: str, setup: Setup) -> ImageRule | None:
    """The first rule that fits; a pattern without a tag fits every tag."""
    for rule in setup.image_rules:
        if fnmatchcase(image, rule.pattern) or fnmatchcase(_without_tag(image), rule.pattern):
            return rule
    return None


def base_variables(rule: ImageRule | None, setup: Setup) -> dict[str, str]:
    """What a program finds in its environment before the pod says anything."""
    if rule is not None and rule.type is ImageTarget.ROOT:
        # Nothing of the machine's folders is in there, so nothing may point to them.
        kept = {name: value for name, value in setup.environment.items() if _is_wording(name)}
        return {"HOME": "/root", **kept, "PATH": DEFAULT_PATH}
    folder = rule.folder if rule is not None else setup.virtualenv
    base: dict[str, str] = dict(setup.environment)
    base.pop("VIRTUAL_ENV", None)
    path = base.get("PATH") or DEFAULT_PATH
    if not folder:
        return {**base, "PATH": path}
    if rule is not None:
        # Those of the engine's own environment must not win over the mapped one.
        base.pop("PYTHONPATH", None)
        path = _without(path, setup)
    first = f"{folder}/bin"
    rest = [part for part in path.split(":") if part != first]
    return {**base, "PATH": ":".join([first, *rest]), "VIRTUAL_ENV": folder}


def image_note(image: str, rule: ImageRule | None) -> str:
    """The one line that tells what was done with an image."""
    if rule is None:
        return f"image {image} is not pulled: the command runs with this machine's own files"
    what = "virtualenv" if rule.type is ImageTarget.VIRTUALENV else "root folder"
    return f"image {image} is not pulled: the command runs with the {what} {rule.folder}"


def _without(path: str, setup: Setup) -> str:
    own = f"{setup.virtualenv}/bin" if setup.virtualenv else ""
    return ":".join(part for part in path.split(":") if part != own)


def _is_wording(name: str) -> bool:
    return name in ("LANG", "LANGUAGE", "TZ", "TERM") or name.startswith("LC_")


def _without_tag(image: str) -> str:
    head, _, last = image.rpartition("/")
    last = last.partition("@")[0].partition(":")[0]
    return f"{head}/{last}" if head else last
