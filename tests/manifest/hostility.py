"""Values that somebody may write where a sensible one is expected, repeatable from a seed.

Numbers of up to ten thousand digits, exponents, other scripts' digits, halves of characters, depth.
What an API server makes of each is its own business; nothing of ours may stumble over any.
"""

from __future__ import annotations

import random
from typing import Any

# As deep as a real API server takes JSON, less the levels around it.
DEPTH_MAX = 9_990
DIGITS = (
    1,
    2,
    3,
    5,
    9,
    10,
    11,
    18,
    19,
    20,
    21,
    39,
    100,
    308,
    309,
    310,
    1_000,
    4_300,
    4_301,
    10_000,
)
DEPTHS = (10, 100, 150, 190, 199, 200, 201, 300, 480, 900, 1_000, 3_000, DEPTH_MAX, 10_000, 100_000)
EXPONENTS = (
    *("0", "1", "3", "-3", "18", "19", "30", "300", "308", "309", "400", "-400", "1000", "99999"),
    *("3000000", "-3000000", "2147483647", "2147483648", "4294967297", "9223372036854775807"),
    *("9223372036854775808", "9" * 25, "-" + "9" * 25, "9" * 5_000),
)
# Digits to Python, to Go none of them.
ODD_DIGITS = (
    *("²", "³", "٣", "۴", "৫", "१", "𝟑", "１", "①", "½", "Ⅷ", "三"),
    *("1_000", "0x1F", "0b1", "0o7"),
)
SUFFIXES = ("", "", "m", "Gi", "Ei", "E", "n", "k", "kk", "i", "s", "h", "ms", "%")
# Around a number, where a number in a text is meant.
FRAMES = (
    "{}", "{}", "{}", "-{}", "+{}", "{}.5", ".{}", "{}.", " {}", "{} ", "{}\n", "0{}", "-N", "-np",
    "$(service.worker[{}].host)", "$(replicas[{}])", "$(service.port[{}])", "ppr:{}:node",
    "{}-{}", "{}:{}", "v{}", "{}/{}", "{}.{}.{}", "1e{}", "--nproc_per_node={}",
)  # fmt: skip
# Half of a pair, alone and in company; and characters that are more than one of something.
ODD_TEXTS = (
    *("\ud800", "\udc00", "a\ud83d", "\udfffz"),
    *("\x00", "\u2028", "\U0010ffff", "\ufeff", "\x1b[2J"),
)


class Raw:
    """JSON as it stands, for what no Python value is encoded to."""

    def __init__(self, text: str) -> None:
        self.text = text


class Hostility:
    """Draws them."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def digits(self) -> str:
        count = self._dice.choice(DIGITS)
        kind = self._dice.choice(("9" * count, "1" + "0" * (count - 1), "0" * count + "1"))
        return self._dice.choice((kind, str(self._dice.randrange(10 ** min(count, 4_000)))))

    def text(self) -> str:
        """A text with a number in it, or what looks like one."""
        match self._dice.randrange(6):
            case 0:
                return f"{self._dice.choice(('1', '9.5', '0', '.1', '-1'))}{self._power()}"
            case 1:
                return self._dice.choice(ODD_DIGITS)
            case 2:
                return self._dice.choice(ODD_TEXTS)
            case 3:
                return self.digits() + self._dice.choice(SUFFIXES)
            case _:
                frame = self._dice.choice(FRAMES)
                return frame.replace("{}", self.digits())

    def _power(self) -> str:
        return self._dice.choice("eE") + self._dice.choice(EXPONENTS)

    def amount(self) -> str:
        """What may stand where a quantity is meant."""
        if self._dice.random() < 0.5:
            return self.digits() + self._dice.choice(("", "m", "Gi", "E", ".5"))
        return f"{self._dice.choice(('1', '9.5', '.1'))}{self._power()}"

    def number(self) -> Raw:
        """A number as JSON may have it, of any size."""
        digits = self.digits().lstrip("0") or "0"
        sign = self._dice.choice(("", "", "-"))
        return Raw(sign + self._dice.choice((digits, f"1{self._power()}", f"0.{self.digits()}")))

    def depth(self) -> Raw:
        depth = self._dice.choice(DEPTHS)
        opening, closing = self._dice.choice((('{"a":', "}"), ("[", "]"), ('[{"":', "}]")))
        return Raw(opening * depth + "1" + closing * depth)

    def value(self) -> Any:
        return self._dice.choice((self.text, self.text, self.text, self.number, self.depth))()
