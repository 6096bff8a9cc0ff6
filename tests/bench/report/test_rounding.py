"""Digits that an error allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prologue_bench.report.rounding import decimals, rounded, rounded_p
from prologue_bench.report.words import per_cent


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (43.6813, 0.045, "43.681"),
        (43.6813, 0.0996, "43.68"),  # as rounded the error is 0.10
        (43.6813, 0.1, "43.68"),
        (43.6813, 1, "43.7"),
        (43.6813, 12, "44"),
        (4103322, 1234, "4103300"),
        (-0.0004, 0.1, "0.00"),
        (5.75, 0, "5.75"),
        (5.75, float("nan"), "5.75"),
        (1 / 3, 1e-30, "0.333333333"),
        (3.14159e-10, 1e-12, "3.142e-10"),
        (-2e-30, 1.04e-31, "-2.00e-30"),
        (9.9996e-10, 1e-12, "1.0000e-09"),
        (2e-14, 1e-12, "0.000000000"),
        (1 / 3e6, 1e-30, "3.333333333e-07"),
        (5.731234567, 0, "5.73123"),
        (-100 / 3, 0, "-33.3333"),
        (48643112, 0, "48643112"),
        (48643112.25, 0, "48643112"),
        (0.000123456789, 0, "0.000123457"),
        (0, 0, "0"),
    ],
)
def test_two_digits_of_the_error(value: float, error: float, text: str) -> None:
    assert rounded(value, error) == text


def test_a_small_difference_that_can_be_seen_is_not_0() -> None:
    assert per_cent(3.24e-13) == "3.2e-11%"


def test_signs() -> None:
    assert rounded(2e-30, 1.04e-31, sign=True) == "+2.00e-30"
    assert rounded(1.08, 0.27, sign=True) == "+1.08"
    assert rounded(-1.08, 0.27, digits=1, sign=True) == "-1.1"
    assert rounded(-0.001, 0.27, sign=True) == "0.00"


@pytest.mark.thorough
@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e5))
def test_nothing_but_the_error_is_lost(value: float, error: float) -> None:
    text = rounded(value, error)
    unit = 10.0 ** -decimals(error)
    assert abs(float(text) - value) <= 0.51 * unit + 1e-9 * abs(value)
    assert 9.9 * unit <= error * 1.01
    assert error < 100 * unit


@pytest.mark.parametrize("error", [0.0, -1.0, float("inf"), float("nan")])
def test_no_error_no_digits(error: float) -> None:
    with pytest.raises(ValueError, match="no error to round by"):
        decimals(error)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1.0, "= 1.00"),
        (28 / 512, "> 0.05"),  # 0.0547: no difference by the rule, which is p <= 0.05
        (0.056, "= 0.06"),
        (0.05, "= 0.05"),
        (0.031, "= 0.03"),
        (0.0099, "= 0.01"),
        (0.004, "= 0.004"),
        (0.00056, "= 0.0006"),
        (1e-9, "< 0.0001"),
    ],
)
def test_p(p: float, text: str) -> None:
    assert rounded_p(p) == text
