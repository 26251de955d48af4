"""How names, labels and keys must look, with Kubernetes' words for what is wrong.

Every function takes a text and gives what is wrong with it, nothing if it is fine. The
words and expressions are the API server's own, because clients and people look for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

NameRule = Callable[[str], tuple[str, ...]]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_HEADER: Final = "[-A-Za-z0-9]+"

LABEL_LENGTH_MAX: Final = 63
SUBDOMAIN_LENGTH_MAX: Final = 253
PORT_NAME_LENGTH_MAX: Final = 15
PORT_MAX: Final = 65535
ID_MAX: Final = 2**31 - 1

_CHARACTERS: Final = "alphanumeric characters"
_ENDS: Final = "must start and end with an alphanumeric character"
_LABEL_TEXT: Final = (
    f"a lowercase RFC 1123 label must consist of lower case {_CHARACTERS} or '-', and {_ENDS}"
)
_LABEL_1035_TEXT: Final = (
    f"a DNS-1035 label must consist of lower case {_CHARACTERS} or '-', start with an"
    " alphabetic character, and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    f"a lowercase RFC 1123 subdomain must consist of lower case {_CHARACTERS}, '-' or '.', and"
    f" {_ENDS}"
)
_KEY_WORDS: Final = f"{_CHARACTERS}, '-', '_' or '.', and {_ENDS}"
_KEY_TEXT: Final = f"must consist of {_KEY_WORDS}"
_VALUE_TEXT: Final = f"a valid label must be an empty string or consist of {_KEY_WORDS}"


def _matches(value: str, expression: str) -> bool:
    # None of the expressions can go back and forth: for them Python's own are quicker than RE2.
    return re.fullmatch(expression, value) is not None


def _regex_text(text: str, expression: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{expression}')"


def _length(value: str, length_max: int, unit: str = "bytes") -> tuple[str, ...]:
    too_long = len(value.encode()) > length_max
    return (f"must be no more than {length_max} {unit}",) if too_long else ()


def dns_label(value: str) -> tuple[str, ...]:
    wrong = _length(value, LABEL_LENGTH_MAX, "characters")
    if _matches(value, _LABEL):
        return wrong
    if _matches(value, _SUBDOMAIN):
        return (*wrong, "must not contain dots")
    return (*wrong, _regex_text(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))


def dns_1035_label(value: str) -> tuple[str, ...]:
    wrong = _length(value, LABEL_LENGTH_MAX, "characters")
    if _matches(value, _LABEL_1035):
        return wrong
    return (*wrong, _regex_text(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"))


def dns_subdomain(value: str, unit: str = "characters") -> tuple[str, ...]:
    wrong = _length(value, SUBDOMAIN_LENGTH_MAX, unit)
    if _matches(value, _SUBDOMAIN):
        return wrong
    return (*wrong, _regex_text(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))


def label_key(value: str) -> tuple[str, ...]:
    """Also called a qualified name: `name` or `domain/name`."""
    examples = ("MyName", "my.name", "123-abc")
    if value.count("/") > 1:
        return (
            f"a valid label key {_regex_text(_KEY_TEXT, _KEY, *examples)} with an optional DNS"
            " subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    prefix, slash, name = value.rpartition("/")
    wrong: list[str] = []
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash:
        wrong += [f"prefix part {text}" for text in dns_subdomain(prefix, "bytes")]
    if not name:
        wrong.append("name part must be non-empty")
    else:
        wrong += [f"name part {text}" for text in _length(name, LABEL_LENGTH_MAX)]
    if not _matches(name, _KEY):
        wrong.append(f"name part {_regex_text(_KEY_TEXT, _KEY, *examples)}")
    return tuple(wrong)


def label_value(value: str) -> tuple[str, ...]:
    wrong = _length(value, LABEL_LENGTH_MAX)
    if _matches(value, _VALUE):
        return wrong
    return (*wrong, _regex_text(_VALUE_TEXT, _VALUE, "MyValue", "my_value", "12345"))


def config_key(value: str) -> tuple[str, ...]:
    """A key of a ConfigMap or Secret, which becomes the name of a file."""
    wrong = list(_length(value, SUBDOMAIN_LENGTH_MAX, "characters"))
    if not _matches(value, _CONFIG_KEY):
        text = f"a valid config key must consist of {_CHARACTERS}, '-', '_' or '.'"
        wrong.append(_regex_text(text, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value == ".":
        wrong.append("must not be '.'")
    elif value == "..":
        wrong.append("must not be '..'")
    elif value.startswith(".."):
        wrong.append("must not start with '..'")
    return tuple(wrong)


def env_name(value: str) -> tuple[str, ...]:
    if not value:
        return ("environment variable name must be non-empty",)
    if all(" " <= char <= "~" and char != "=" for char in value):
        return ()
    return (
        "a valid environment variable name must consist only of printable ASCII characters"
        " other than '='",
    )


def port_name(value: str) -> tuple[str, ...]:
    wrong = list(_length(value, PORT_NAME_LENGTH_MAX, "characters"))
    if not _matches(value, "[-a-z0-9]+"):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return tuple(wrong)


def header_name(value: str) -> tuple[str, ...]:
    if _matches(value, _HEADER):
        return ()
    text = f"a valid HTTP header must consist of {_CHARACTERS} or '-'"
    return (_regex_text(text, _HEADER, "X-Header-Name"),)


def within(value: int, low: int, high: int) -> tuple[str, ...]:
    return () if low <= value <= high else (f"must be between {low} and {high}, inclusive",)


def port_number(value: int) -> tuple[str, ...]:
    return within(value, 1, PORT_MAX)


def user_id(value: int) -> tuple[str, ...]:
    return within(value, 0, ID_MAX)


def path_segment(value: str) -> tuple[str, ...]:
    """The least that any name must be: one step of a URL."""
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in value)


def as_prefix(rule: NameRule, value: str) -> tuple[str, ...]:
    """What is wrong with the beginning of a generated name, which may end with a dash."""
    masked = f"{value[:-2]}a" if len(value) > 1 and value.endswith("-") else value
    return rule(masked)
