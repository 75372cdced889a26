"""Quantities in Kubernetes's words: `500m`, `1Ki`, `2e3`, `1.5Gi`, exactly.

The grammar is that of resource.Quantity of the Kubernetes API: a decimal number, then a binary suffix, a
decimal one (`m` is a thousandth, `M` a million) or an exponent.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?\d{1,2}))?",
    re.ASCII,
)
_LONGEST: Final = 80
_SCALE: Final = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip


def parse_quantity(text: str) -> Fraction:
    """The number that a quantity stands for.

    Raises:
        ValueError: if it is no quantity.
    """
    if len(text) > _LONGEST:
        raise ValueError("a quantity has no more than a few digits")
    return _parsed(text)


@lru_cache(maxsize=2**12)
def _parsed(text: str) -> Fraction:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no quantity: 500m, 2, 1.5Gi")
    number = found["number"]
    value = Fraction(number + "0" if number.endswith(".") else number)
    if found["exponent"] is not None:
        return value * Fraction(10) ** int(found["exponent"])
    return value * _SCALE[found["suffix"] or ""]
