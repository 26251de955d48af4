"""What an image says of itself beside its files: variables, folder, command, user.

A root folder has none of it, so it is read from a JSON file beside it, in the forms in which people
have it: of `docker inspect` (or podman's), of `skopeo inspect --config` and `crane config`, which
is the OCI image configuration, and the `config.json` of a bundle (umoci, runc). Only values are
here; `images` finds the file. What a rule says in place of such a file stands in its text,
`PATTERN=FOLDER,workdir=/workspace`.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from jobyard.node.objects.surroundings import ImageConfig
from jobyard.numerals import whole_number


class ImageConfigError(Exception):
    """A configuration that can't be read; the message says what was found."""


_OPTION: Final = re.compile(r",(?=(?:config|env|workdir|user)=)")


def parts_of(rule: str) -> tuple[str, str, tuple[str, ...]]:
    """Pattern, folder and options (NAME=VALUE) of a rule; empty where something is missing."""
    head, *options = _OPTION.split(rule)
    pattern, _, folder = head.rpartition("=")
    return pattern, folder, tuple(options)


class _Config(msgspec.Struct, rename="pascal"):
    """An image's own, by the names that Docker has given them; Go writes null for empty."""

    env: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    working_dir: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        _check_variables(self.env or ())


class _RuntimeUser(msgspec.Struct, frozen=True):
    uid: int = 0
    gid: int = 0


class _Process(msgspec.Struct):
    """Of a bundle: entrypoint and command are one."""

    env: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    cwd: str = ""
    user: _RuntimeUser = _RuntimeUser()

    def __post_init__(self) -> None:
        _check_variables(self.env or ())


_FIELDS: Final = frozenset({"Env", "Entrypoint", "Cmd", "WorkingDir", "User"})


def config_in(text: bytes) -> ImageConfig:
    """Raises ImageConfigError."""
    try:
        return _read(msgspec.json.decode(text))
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as problem:
        raise ImageConfigError(str(problem)) from problem


def _read(value: Any) -> ImageConfig:
    if isinstance(value, list):
        if len(value) != 1:
            raise ImageConfigError(f"tells of {len(value)} images, not of one")
        (value,) = value
    if isinstance(value, dict):
        for name in ("Config", "config"):
            if isinstance(value.get(name), dict):
                return _of_image(msgspec.convert(value[name], _Config))
        if isinstance(value.get("process"), dict):
            return _of_bundle(msgspec.convert(value["process"], _Process))
        if _FIELDS & set(value):
            return _of_image(msgspec.convert(value, _Config))
    raise ImageConfigError(
        "is no image configuration: neither Config (docker inspect), nor config (skopeo inspect"
        " --config), nor process (a bundle's config.json)"
    )


def _of_image(said: _Config) -> ImageConfig:
    return ImageConfig(
        env=variables_in(said.env or ()),
        entrypoint=said.entrypoint or (),
        cmd=said.cmd or (),
        working_folder=said.working_dir or "",
        user=said.user or "",
    )


def _of_bundle(said: _Process) -> ImageConfig:
    return ImageConfig(
        env=variables_in(said.env or ()),
        cmd=said.args or (),
        working_folder=said.cwd,
        user=f"{said.user.uid}:{said.user.gid}",
    )


def variables_in(words: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE each; the last of a name counts."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _check_variables(words: tuple[str, ...]) -> None:
    for word in words:
        name, sign, value = word.partition("=")
        if not name or not sign or "\0" in name + value:
            raise ValueError(f"variable {word[:64]!r}: must look like NAME=VALUE")


def ids_of(user: str, passwd: str, group: str) -> tuple[int, int]:
    """uid and gid of `USER[:GROUP]`, each a name or a number, by the image's own files.

    Raises ImageConfigError for a name that the files don't have.
    """
    who, _, with_group = user.partition(":")
    uid, gid = _looked_up(who, passwd, "user")
    if with_group:
        gid, _ = _looked_up(with_group, group, "group")
    return uid, gid


def _looked_up(name: str, lines: str, word: str) -> tuple[int, int]:
    """The numbers in the third and fourth field; of a plain number that and its group, or 0."""
    number = whole_number(name)
    for line in lines.splitlines():
        fields = [*line.split(":"), "", "", "", ""]
        if name in (fields[0], fields[2]) and (found := whole_number(fields[2])) is not None:
            return found, whole_number(fields[3]) or 0
    if number is None:
        raise ImageConfigError(f"the image has no {word} {name!r}")
    return number, 0


def home_of(uid: int, passwd: str) -> str:
    """The home of a user of the image; of one that it doesn't know, the root."""
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) > 5 and fields[2] == str(uid):
            return fields[5] or "/"
    return "/root" if uid == 0 else "/"
