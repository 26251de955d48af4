"""Numbers in texts: what is read, within which bounds, and that nothing else reads them."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.places import ROOT

from jobyard.api.parts.quantity import AMOUNT_MAX, Quantity, QuantityError
from jobyard.numerals import (
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    UINT64_MAX,
    decimal_number,
    digits_value,
    port_number,
    signed_number,
    whole_number,
)

SOURCE = ROOT / "src" / "jobyard"
# Digits of other scripts, and what Python's own `int` takes besides.
NO_DIGITS = (
    "²",
    "٣",
    "𝟑",
    "１",
    "①",
    "1_0",
    " 1",
    "1 ",
    "1\n",
    "0x1",
    "1e1",
    "1.0",
    "",
    "+",
    "-",
    "\udc80",
)
HUGE = ("9" * 20, "9" * 4_301, "9" * 10_000, "1" + "0" * 1_000_000)


@pytest.mark.parametrize("text", [*NO_DIGITS, *HUGE], ids=lambda text: ascii(text[:12]))
def test_what_is_no_number_of_64_bits_is_none(text: str) -> None:
    assert whole_number(text) is None
    assert signed_number(text) is None
    assert signed_number(f"-{text}") is None
    assert port_number(text) is None


@given(st.integers(0, UINT64_MAX), st.integers(0, 5_000))
def test_numbers_are_read_whatever_zeros_stand_before_them(number: int, zeros: int) -> None:
    text = "0" * zeros + str(number)
    assert whole_number(text, UINT64_MAX) == number
    assert whole_number(text, INT32_MAX) == (number if number <= INT32_MAX else None)
    assert signed_number(f"-{text}") == (-number if -number >= INT64_MIN else None)
    assert signed_number(f"+{text}") == (number if number <= INT64_MAX else None)
    assert port_number(text) == (number if 0 < number <= 65535 else None)
    assert digits_value(f"{'0' * zeros}{number:x}", 16) == number


@pytest.mark.parametrize("text", ["nan", "inf", "1_0", "٣", "", ".", "1e", " 1", "1 ", "9" * 2_000])
def test_what_is_no_decimal_number_is_none(text: str) -> None:
    assert decimal_number(text) is None


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", Decimal("0.5")),
        ("4Gi", Decimal(4 * 2**30)),
        ("+1.50", Decimal("1.5")),
        (".5", Decimal("0.5")),
        ("5.", Decimal(5)),
        ("1e3", Decimal(1000)),
        ("1E-3", Decimal("0.001")),
        ("-1", Decimal(-1)),
        ("0.0000000001E", Decimal(100_000_000)),
        # As an API server does: nothing is rounded away, and a binary suffix has 63 bits.
        ("0.1n", Decimal("1e-9")),
        ("1e-3000000", Decimal("1e-9")),
        ("9223372036854775807Ei", Decimal(2**63 - 1)),
        # And as no server needs to: more than there is anywhere.
        ("1e3000000", AMOUNT_MAX),
        ("-1e3000000", -AMOUNT_MAX),
        ("9" * 10_000, AMOUNT_MAX),
        ("9" * 10_000 + "Ki", Decimal(2**63 - 1)),
        ("1e9223372036854775807", AMOUNT_MAX),
        ("0e9223372036854775807", Decimal(0)),
        ("0." + "0" * 10_000 + "1e10002", Decimal(10)),
        ("0" * 10_000 + "1", Decimal(1)),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_quantity_of_any_size_is_read_at_once(text: str, amount: Decimal) -> None:
    begun = time.monotonic()
    assert Quantity.of(text).amount == amount
    assert int(Quantity.of(text).amount) == int(amount)
    assert time.monotonic() - begun < 0.5


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "1.2.3", "1e", "1e1e1", "²", "٣", "1 ", "1_0", "1kk"),
        *("1e9223372036854775808", "1e" + "9" * 5_000),
    ],
    ids=lambda text: text[:24],
)
def test_what_an_api_server_takes_for_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity, such as 500m, 2 or 4Gi"):
        Quantity.of(text)


# Where conversions are no matter of what somebody wrote, and why.
ALLOWED = {
    "numerals.py": "the one place for it",
    "api/parts/quantity.py": "looks at the size of a number before it is one",
    "manifest/json_stream.py": "four hexadecimal digits; and `float` of what a pattern has taken",
    "manifest/scalars.py": "a float's own digits; and `float` of what a pattern has taken",
    "jobs/explaining/queues.py": "a share of numbers",
    "node/network/addresses.py": "addresses, which are numbers",
    "node/logs/file_changes.py": "what a call into C gave back",
    "node/hub/starting.py": "what our own child wrote into a pipe; and of the kernel's",
    "node/isolation/forking.py": "what our own child wrote into a pipe",
    "node/isolation/kernel.py": "what a call into C gave back",
    "node/isolation/rootfs/layers.py": "three octal digits of the kernel's",
    "node/isolation/processes.py": "/proc is written by the kernel",
    "node/shared/locks.py": "what the kernel says about a lock",
    "node/agent/pod_step.py": "seconds that are numbers already",
    "plan/facts/log_tail.py": "patterns that know a line when they see one; nothing is converted",
    "plan/facts/ends.py": "a power of two, with a bound",
    "plan/lowering/sharing.py": "a share of numbers",
    "plan/facts/failure_signs.py": "as in `log_tail`",
    "server/messages/json_text.py": "looks at the length of a number before it is one",
    "server/kinds/types/quantities.py": "a number in its parts",
    "server/printing/custom.py": "the digits of a float's own repr",
    "server/verbs/surrounding.py": "addresses, which are numbers",
}
CONVERSIONS = ("int", "float", "Decimal", "Fraction")
PREDICATES = ("isdecimal", "isdigit", "isnumeric")


def is_constant(node: ast.expr) -> bool:
    """Nothing in it but what the program itself says."""
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    return not any(isinstance(each, ast.Call) for each in ast.walk(node)) and all(
        name.isupper() for name in names
    )


def conversions(text: str) -> Iterator[tuple[int, str]]:
    """Where a text may become a number, or is looked at for digits, by line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in PREDICATES:
            yield node.lineno, ast.unparse(node)
        # In a pattern it stands for the digits of every script.
        if isinstance(node, ast.Constant) and "\\d" in str(node.value):
            yield node.lineno, ast.unparse(node)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in CONVERSIONS and not all(map(is_constant, node.args)):
            yield node.lineno, ast.unparse(node)


def test_texts_become_numbers_in_one_place_only() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {what}"
        for path in sorted(SOURCE.rglob("*.py"))
        if str(path.relative_to(SOURCE)) not in ALLOWED
        for line, what in conversions(path.read_text())
    ]
    assert not found, "use jobyard.numerals (a text), or math.trunc (a number):\n" + "\n".join(
        found
    )


@pytest.mark.parametrize(
    "text",
    [
        "int(label)",
        "int(found[1], 16)",
        "float(parameter)",
        "Decimal(amount)",
        "Fraction(f'{whole}')",
        "label.isdecimal()",
        "filter(str.isdigit, words)",
        r"re.compile(r'v(\d+)')",
    ],
)
def test_the_scan_for_conversions_can_fail(text: str) -> None:
    assert [*conversions(text)]


def test_whatever_is_allowed_to_convert_does() -> None:
    assert not [name for name in ALLOWED if not [*conversions((SOURCE / name).read_text())]]
