"""What stands in for an image: nothing but the machine's own files, or a folder that was named.

Images aren't pulled. A rule maps names of images to a virtualenv, whose commands then come
first, or to a root folder, which is all that the container sees. What the image of a root folder
says of itself is read from a file beside it, and from the rule. `rule_of` alone looks at the disk,
once, when the engine starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from jobyard.node.objects.surroundings import ImageConfig, ImageRule, ImageTarget, Setup
from jobyard.node.ordering.environment import DEFAULT_PATH
from jobyard.node.ordering.image_config import (
    ImageConfigError,
    config_in,
    home_of,
    ids_of,
    parts_of,
    variables_in,
)

# Tells start scripts that programs are where this machine has them, not where an image would; and
# the variable by which they are known.
_WITHOUT_IMAGE: Final = "JOBYARD_WITHOUT_IMAGE"
_OF_START_SCRIPTS: Final = "JOBYARD_SSH_DIR"
CONFIG_BYTES_MAX: Final = 4 * 2**20
_LINES_BYTES_MAX: Final = 4 * 2**20
_LOOKS: Final = "must look like 'pytorch/*=./venv' or 'pytorch/*=./root,workdir=/workspace'"


class ImageRuleError(Exception):
    """A rule that says nothing usable; the message names it and what would do."""


def rule_of(text: str) -> ImageRule:
    """Reads `PATTERN=FOLDER[,OPTION=VALUE...]`."""
    pattern, folder, options = parts_of(text)
    if not pattern or not folder:
        raise ImageRuleError(f"image rule {text!r}: {_LOOKS}")
    path = Path(folder).expanduser().resolve()
    if (path / "pyvenv.cfg").is_file() or (path / "conda-meta").is_dir():
        if options:
            raise ImageRuleError(
                f"image rule {text!r}: {path} is a virtualenv; {options[0]!r} is for root folders"
            )
        return ImageRule(pattern=pattern, folder=str(path))
    # A bundle, as umoci and runc have it: the files, and what else there is to know, beside them.
    root = path / "rootfs" if (path / "rootfs").is_dir() else path
    if (root / "usr").is_dir() or ((root / "bin").is_dir() and (root / "etc").is_dir()):
        try:
            config = _config_of(root, options)
        except ImageConfigError as problem:
            raise ImageRuleError(f"image rule {text!r}: {problem}") from problem
        return ImageRule(pattern=pattern, folder=str(root), type=ImageTarget.ROOT, config=config)
    raise ImageRuleError(
        f"image rule {text!r}: {path} is neither a virtualenv (no pyvenv.cfg)"
        " nor a root folder (no usr)"
    )


def _config_of(root: Path, options: tuple[str, ...]) -> ImageConfig:
    """What the file says, and over it what the options say."""
    words = [option.partition("=")[::2] for option in options]
    said = dict(words)
    named = Path(said["config"]).expanduser() if "config" in said else None
    file = named or next((each for each in _beside(root) if each.is_file()), None)
    config = ImageConfig()
    if file is not None:
        try:
            config = config_in(_text(file, CONFIG_BYTES_MAX))
        except (ImageConfigError, OSError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            raise ImageConfigError(f"{file}: {reason}") from problem
    env = tuple(value for option, value in words if option == "env")
    for variable in env:
        if not variable.partition("=")[0] or "=" not in variable:
            raise ImageConfigError(f"env={variable} is not env=NAME=VALUE")
    config = msgspec.structs.replace(
        config,
        env={**config.env, **variables_in(env)},
        working_folder=said.get("workdir", config.working_folder),
        user=said.get("user", config.user),
    )
    if config.working_folder and not config.working_folder.startswith("/"):
        raise ImageConfigError(f"the working folder {config.working_folder!r} is not absolute")
    if not config.user:
        return config
    passwd = _lines(root / "etc/passwd")
    uid, gid = ids_of(config.user, passwd, _lines(root / "etc/group"))
    return msgspec.structs.replace(config, uid=uid, gid=gid, home=home_of(uid, passwd))


def _beside(root: Path) -> tuple[Path, ...]:
    """DIR.json, and of a bundle the config.json beside its rootfs."""
    bundle = (root.with_name("config.json"),) if root.name == "rootfs" else ()
    return (root.with_name(f"{root.name}.json"), *bundle)


def _text(file: Path, bytes_max: int) -> bytes:
    with file.open("rb") as opened:
        text = opened.read(bytes_max + 1)
    if len(text) > bytes_max:
        raise ImageConfigError(f"has more than {bytes_max} bytes")
    return text


def _lines(file: Path) -> str:
    """Of the image's own users or groups; a link would lead to the machine's."""
    if file.is_symlink() or not file.is_file():
        return ""
    return _text(file, _LINES_BYTES_MAX).decode(errors="replace")


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
        home = rule.config.home if setup.has_real_uids else "/root"
        return {"HOME": home, **kept, "PATH": DEFAULT_PATH, **rule.config.env}
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


def script_variables(rule: ImageRule | None, own: Mapping[str, str]) -> dict[str, str]:
    """What a container with a start script of ours is told of its image."""
    is_without = rule is None or rule.type is not ImageTarget.ROOT
    return {_WITHOUT_IMAGE: "1"} if is_without and _OF_START_SCRIPTS in own else {}


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
