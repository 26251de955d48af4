"""What the last stage of a Dockerfile says about its image, so that ours says the same.

Only the instructions that describe and don't do anything are read: whatever copies or runs is
left to the one who makes the layers.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping

from images.archive import Config


def config_of(text: str, base: Mapping[str, str]) -> Config:
    """`base` is the environment of the image that the stage begins with."""
    env = dict(base)
    labels: dict[str, str] = {}
    ports: list[str] = []
    said: dict[str, str] = {}
    for word, rest in _last_stage(text):
        match word:
            case "ENV":
                known = dict(env)
                env |= {name: _filled_in(value, known) for name, value in _pairs(rest)}
            case "LABEL":
                labels |= dict(_pairs(rest))
            case "EXPOSE":
                ports += [port if "/" in port else f"{port}/tcp" for port in rest.split()]
            case _:
                said[word] = rest
    return Config(
        env=env,
        entrypoint=_words(said.get("ENTRYPOINT", "[]")),
        command=_words(said.get("CMD", "[]")),
        user=said.get("USER", ""),
        folder=said.get("WORKDIR", ""),
        ports=tuple(ports),
        labels=labels,
    )


def _last_stage(text: str) -> list[tuple[str, str]]:
    stage: list[tuple[str, str]] = []
    for word, rest in _instructions(text):
        stage = [] if word == "FROM" else [*stage, (word, rest)]
    return stage


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        yield word.upper(), rest.strip()


def _pairs(rest: str) -> list[tuple[str, str]]:
    halves = [word.partition("=") for word in shlex.split(rest)]
    return [(name, value) for name, _, value in halves]


def _filled_in(value: str, known: Mapping[str, str]) -> str:
    return re.sub(
        r"\$(?:(\w+)|\{(\w+)\})", lambda found: known.get(found[1] or found[2], ""), value
    )


def _words(rest: str) -> tuple[str, ...]:
    words = json.loads(rest)
    if not isinstance(words, list):
        raise ValueError(f"{rest} is not a list of words, as an image's command has to be")
    return tuple(words)
