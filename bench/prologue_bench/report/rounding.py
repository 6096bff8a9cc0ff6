"""Rounds numbers: at most two digits that their own error reaches.

``43.6813 +- 0.045`` becomes ``43.681``; further digits mean nothing.
"""

from __future__ import annotations

import math
from typing import Final

from prologue_bench.analysis.stats import ALPHA

_DIGITS: Final = 2  # of the error
_MOST: Final = 9  # decimals, whatever the error
_SMALL: Final = 1e-4  # of which so many decimals show too little: powers of ten
_UNKNOWN: Final = 6  # digits of a number without an error


def decimals(error: float, digits: int = _DIGITS) -> int:
    """Return the decimals at which ``error`` shows that many significant digits; negative: tens, hundreds and so on.

    Raises:
        ValueError: the error is not a positive number.

    """
    if not (error > 0 and math.isfinite(error)):
        raise ValueError(f"no error to round by: {error}")
    # As rounded: 0.0996 with two digits is 0.10, one decimal less than its first digit says.
    exponent = int(f"{error:.{digits - 1}e}".partition("e")[2])
    return digits - 1 - exponent


def rounded(value: float, error: float, digits: int = _DIGITS, *, sign: bool = False) -> str:
    """Write a value with no more digits than its error allows; without an error six, or all of its whole part.

    Args:
        value: the number, in any unit.
        error: half the width of its interval, or its standard error, in the same unit.
        digits: how many significant digits of the error to show.
        sign: show a plus, too.

    """
    plus = "+" if sign else ""
    if not (error > 0 and math.isfinite(error)):
        places = max(_UNKNOWN - 1 - math.floor(math.log10(abs(value))), 0) if value else 0
        return f"{round(value, places):{plus}.15g}" if value else "0"
    places = decimals(error, digits)
    shown = round(value, places)
    if shown and abs(shown) < _SMALL and places > _MOST:
        power = math.floor(math.log10(abs(shown)))
        return f"{shown:{plus}.{min(places + power, _MOST)}e}"
    text = f"{shown:{plus}.{min(max(places, 0), _MOST)}f}"
    # -0.00 and +0.00 claim a direction that the digits do not show.
    return text.lstrip("+-") if not text.strip("+-0.") else text


def rounded_p(p: float) -> str:
    """Write a p-value with its comparison: ``= 0.03``, ``= 0.0006``, ``< 0.0001``; ``> 0.05``, not 0.05."""
    if p < 0.0001:
        return "< 0.0001"
    if p > ALPHA and round(p, 2) <= ALPHA:
        return f"> {ALPHA}"
    return f"= {p:.2f}" if p >= 0.0095 else f"= {float(f'{p:.0e}'):.4f}".rstrip("0")
