"""What a YAML scalar means, by go-yaml v2's rules, because kubectl reads with them.

PyYAML would read the same words otherwise: `y` as text, `1:30` as 90, `1e3` as text,
`2001-01-01` as a date. The composer calls `resolve` for every scalar and `key_text` for
every key. Behaviour is that of `resolve` in go.yaml.in/yaml/v2 and of
`convertToJSONableObject` in sigs.k8s.io/yaml v1.6; tests hold the table of spellings.
Positions are the caller's: a `ScalarError` only says what is wrong.
"""

import math
import re
import struct
from base64 import b64decode
from typing import Final, TypeAlias

from jobyard.numerals import (
    INT64_MAX,
    INT64_MIN,
    UINT64_MAX,
    digits_value,
    signed_number,
    whole_number,
)

Scalar: TypeAlias = bool | int | float | str | None

_STANDARD: Final = "tag:yaml.org,2002:"
MERGE_TAG: Final = _STANDARD + "merge"
COLLECTION_TAGS: Final = frozenset({"!", _STANDARD + "map", _STANDARD + "seq"})

_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_NAN = (".nan", ".NaN", ".NAN")
_INFINITE = (".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF")
_MINUS_INFINITE = ("-.inf", "-.Inf", "-.INF")
_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
    **dict.fromkeys(_NAN, math.nan),
    **dict.fromkeys(_INFINITE, math.inf),
    **dict.fromkeys(_MINUS_INFINITE, -math.inf),
}
_NUMBER_LEADS: Final = frozenset("+-.0123456789")

# Go's strconv with base 0: the group that matched tells the base.
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]([0-7]+)|0([0-7]*)|([1-9][0-9]*))"
)
_BASES: Final = {2: 16, 3: 2, 4: 8, 5: 8, 6: 10}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# A leading dot takes another way in go-yaml, on which underscores must stand between digits.
_DOT_FLOAT: Final = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
# These are rare and compiled when needed, which keeps the import short.
# go-yaml hands what follows "0b" to a parser that takes a sign of its own.
_SIGN_AFTER_PREFIX: Final = r"0b([-+])([01]+)"
_TIMESTAMP: Final = (
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:[.,][0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_UNDECODED: Final = "[\udc80-\udcff]"


class ScalarError(ValueError):
    """The scalar has no JSON value; the text says what was found and what would be right."""


def resolve(text: str, tag: str | None, plain: bool) -> Scalar:
    """The value of a scalar; `plain` is false for quoted and block scalars."""
    if tag is None:
        return _guess(text) if plain else text
    if tag == "!":
        return text
    name = tag.removeprefix(_STANDARD) if tag.startswith(_STANDARD) else None
    match name:
        case "str" | "merge":
            return text
        case "binary":
            return _binary(text)
        case "timestamp":
            if re.fullmatch(_TIMESTAMP, text):
                return text
            raise ScalarError(f"found {text!r} tagged !!timestamp; write it like 2006-01-02")
        case "int" | "float" | "bool" | "null":
            return _tagged(text, name)
        case _:
            raise unknown_tag(tag)


def unknown_tag(tag: str) -> ScalarError:
    """go-yaml would drop the tag without a word; whoever wrote it meant something by it."""
    name = tag.replace(_STANDARD, "!!", 1) if tag.startswith(_STANDARD) else tag
    return ScalarError(f"found the tag {name}, which Kubernetes does not know; remove it")


def key_text(value: Scalar) -> str:
    """A key as a string, since JSON has no other keys."""
    if isinstance(value, str):
        return value
    if value is None:
        raise ScalarError("found an empty field name; write a name before the colon, or quote it")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value > INT64_MAX:
            raise ScalarError(f"found the number {value} as a field name; quote it")
        return str(value)
    return _single_precision(value)


def number(value: float) -> int | float:
    """A float as JSON carries it: Go writes 3.0 as 3, and so the API server sees an integer."""
    if not math.isfinite(value):
        raise ScalarError(
            "found an infinite number or NaN, which JSON has not; quote it if it's text"
        )
    if not value.is_integer():
        return value
    # Go writes the shortest digits that mean this float and fills up with zeros, so that
    # 2**62 as a float is 4611686018427388000 to the API server.
    digits, _, power = repr(value).partition("e")
    whole, _, fraction = digits.partition(".")
    shortest = int(whole + fraction) * 10 ** (int(power) - len(fraction)) if power else int(whole)
    return shortest if INT64_MIN <= shortest <= INT64_MAX else value


def integer(digits: str) -> int | None:
    """A decimal integer with an optional sign, or None if it's too large for 64 bits."""
    return signed_number(digits) if digits[0] in "+-" else whole_number(digits, UINT64_MAX)


def _guess(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_LEADS:
        return text
    if text[0] == ".":
        return _finite(text) if _DOT_FLOAT.fullmatch(text) else text
    digits = text.replace("_", "")
    found = _integer(digits)
    if found is not None:
        return found
    if _FLOAT.fullmatch(digits):
        value = _finite(digits)
        return text if value is digits else value
    return text


def _integer(digits: str) -> int | None:
    parts = _INTEGER.fullmatch(digits)
    if parts is None:
        signed = re.fullmatch(_SIGN_AFTER_PREFIX, digits)
        return _with_sign(signed[1], digits_value(signed[2], 2)) if signed else None
    group = parts.lastindex
    assert group is not None
    if _BASES[group] == 10:
        return integer(digits)
    return _with_sign(parts[1], digits_value(parts[group] or "0", _BASES[group]))


def _with_sign(sign: str, value: int | None) -> int | None:
    """A number of 64 bits; with a sign one of them is the sign's."""
    if value is None or not sign:
        return value
    value = -value if sign == "-" else value
    return value if INT64_MIN <= value <= INT64_MAX else None


def _finite(digits: str) -> float | str:
    """The number, or the text itself when it is too large: Go's parser refuses it then."""
    value = float(digits)
    return value if math.isfinite(value) else digits


def _tagged(text: str, name: str) -> Scalar:
    value = _guess(text)
    found = _kind(value)
    if found == name:
        return value
    if name == "float" and isinstance(value, int) and found == "int" and value <= INT64_MAX:
        return float(value)
    raise ScalarError(f"found {text!r} tagged !!{name}, but it is a !!{found}; remove the tag")


def _kind(value: Scalar) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "str"


def _binary(text: str) -> str:
    joined = text.replace("\n", "").replace("\r", "")
    if not re.fullmatch(_BASE64, joined):
        raise ScalarError("found a !!binary value that is not base64; encode it, or remove the tag")
    # Go replaces byte by byte; Python's own "replace" would take some bytes together.
    return re.sub(_UNDECODED, "\ufffd", b64decode(joined).decode("utf-8", "surrogateescape"))


def _single_precision(value: float) -> str:
    """Go's FormatFloat(value, 'g', -1, 32), which sigs.k8s.io/yaml takes for keys."""
    if math.isnan(value):
        return ".nan"
    try:
        (single,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    for precision in range(9):
        shortest = f"{single:.{precision}e}"
        if struct.pack("f", float(shortest)) == struct.pack("f", single):
            break
    mantissa, _, exponent = shortest.partition("e")
    power = int(exponent)
    if power < -4 or power >= 6:
        return f"{mantissa}e{power:+03d}"
    return f"{single:.{max(precision - power, 0)}f}"
