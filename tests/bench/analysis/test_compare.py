"""Verdicts: which one, when none, and on what grounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy

from prologue_bench.analysis.compare import Comparison, Report, compare, faster_or
from prologue_bench.analysis.sources import open_results
from prologue_bench.analysis.stats import flip_p, outliers, paired, unpaired
from prologue_bench.errors import BenchError
from prologue_bench.results.model import Direction, ResultSet, Workload
from tests.support.result_sets import BASE, BUILD, CONTROL, HACKBENCH, Made, boots, campaign


def judged(made: Made, margin: float = 0.01) -> Report:
    return compare(ResultSet(campaign=campaign(made), boots=tuple(boots(made))), margin)


def of(report: Report, variant: str = BUILD) -> Comparison:
    return next(c for c in report.workloads[0].comparisons if c.variant == variant)


def test_random_flips_are_near_the_exact_and_the_same_every_time() -> None:
    rng = np.random.default_rng(3)
    differences = rng.standard_normal((50, 14)) + 0.5
    p = flip_p(differences)
    assert np.array_equal(p, flip_p(differences))
    half = flip_p(np.concatenate([differences[:, :13], differences[:, 13:] * 1e-12], axis=1))
    assert half == pytest.approx(flip_p(differences[:, :13]), abs=0.03)


def test_six_pairs_are_the_least() -> None:
    ones = np.ones(6) + np.arange(6) / 100
    assert flip_p(ones) == 2 / 2**6
    assert flip_p(ones[:5]) > 0.05


def test_intervals_are_those_of_scipy() -> None:
    rng = np.random.default_rng(4)
    one = rng.standard_normal(9)
    mine, theirs = paired(one), scipy.stats.ttest_1samp(one, 0).confidence_interval()
    assert (float(mine.low), float(mine.high)) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize("value", [0.0, 0.01])
def test_no_spread_at_all(value: float) -> None:
    for same in (paired(np.full(8, value)), unpaired(np.zeros(8), np.full(8, value))):
        assert float(same.low) == pytest.approx(float(same.high))
        assert (bool(same.varies), bool(same.different), bool(same.inside(0.5))) == (False, False, False)


COARSE = "samples do not vary: the clock or the number is too coarse"


def constant(values: dict[str, float], made: Made = Made(), *, in_blocks: bool = True) -> ResultSet:  # noqa: B008 - frozen
    """A campaign whose samples are all equal within each variant that is named."""
    recorded = tuple(
        replace(
            boot, block=boot.block if in_blocks else None,
            values={HACKBENCH.name: (values[boot.variant],) * 3} if boot.variant in values else boot.values,
        )
        for boot in boots(made)
    )  # fmt: skip
    return ResultSet(campaign=campaign(made), boots=recorded)


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize("value", [4.99, 5.0, 5.01])
def test_without_spread_there_is_no_verdict(value: float, in_blocks: bool) -> None:
    """An interval without width claims to know everything; it is the clock that knows nothing."""
    report = compare(constant({BASE: 4.99, BUILD: value}, Made(control=False), in_blocks=in_blocks))
    comparison = of(report)
    effect = comparison.effect
    assert effect is not None
    assert (comparison.verdict, comparison.reason, comparison.within_margin) == ("inconclusive", COARSE, False)
    assert (effect.detectable, effect.different, effect.low, effect.high) == (None, False, effect.ratio, effect.ratio)
    assert effect.ratio == pytest.approx(value / 4.99)


def test_too_few_boots_without_spread_are_too_few() -> None:
    assert of(compare(constant({BASE: 5.0, BUILD: 5.01}, Made(pairs=4, control=False)))).verdict == "too few boots"


def test_a_control_without_spread_is_none() -> None:
    report = compare(constant({BASE: 5.0, CONTROL: 5.01}, Made(effects={BUILD: 0.03})))
    assert (of(report, CONTROL).verdict, of(report, CONTROL).reason) == ("inconclusive", COARSE)
    assert (of(report).verdict, of(report).reason) == ("none", "samples of the A/A control do not vary")
    all_alike = compare(constant({BASE: 5.0, CONTROL: 5.0, BUILD: 5.01}))
    assert (of(all_alike).verdict, of(all_alike).reason) == ("inconclusive", COARSE)


@pytest.mark.parametrize(
    ("made", "verdict", "within"),
    [
        (Made(effects={BUILD: 0.03}), "different", False),
        (Made(effects={BUILD: 0.004}, pairs=20, seed=1), "different", True),
        (Made(), "equivalent", True),
        (Made(boot_noise=0.03), "inconclusive", False),
        (Made(pairs=5, effects={BUILD: 0.03}), "too few boots", False),
        (Made(pairs=1, effects={BUILD: 0.03}), "too few boots", False),
        (Made(effects={BUILD: 0.03, CONTROL: 0.03}), "none", False),
    ],
)
def test_verdicts(made: Made, verdict: str, within: bool) -> None:
    comparison = of(judged(made))
    assert (comparison.verdict, comparison.within_margin) == (verdict, within)


def test_the_effect_is_found_where_it_was_put() -> None:
    effect = of(judged(Made(effects={BUILD: -0.02}))).effect
    assert effect is not None
    assert effect.low < 0.98 < effect.high
    assert effect.error < 0.004  # blocks take the drift away
    assert effect.test == "sign flips"


def test_no_larger_than_the_floor_is_not_called_different() -> None:
    made = Made(pairs=20, effects={CONTROL: 0.02, BUILD: 0.004}, seed=1)
    report = judged(made)
    assert of(report).verdict == "none"  # such a control is different itself
    noisy = tuple(
        replace(boot, values={HACKBENCH.name: tuple(v * (1.08 if boot.block == 3 else 1) for v in values)})
        if boot.variant == CONTROL and (values := boot.values[HACKBENCH.name])
        else boot
        for boot in boots(Made(pairs=20, effects={BUILD: 0.003}, seed=1))
    )
    comparison = of(compare(ResultSet(campaign=campaign(made), boots=noisy), margin=0.001))
    assert comparison.effect is not None
    assert comparison.effect.different
    assert (comparison.verdict, comparison.reason) == (
        "inconclusive", "no larger than the difference of the A/A control",
    )  # fmt: skip
    within = of(compare(ResultSet(campaign=campaign(made), boots=noisy), margin=0.01))
    assert within.effect == comparison.effect
    assert (within.verdict, within.reason, within.within_margin) == ("equivalent", None, True)


def test_a_control_with_too_few_boots_allows_no_verdict() -> None:
    made = Made(effects={BUILD: 0.03})
    few = tuple(
        b if b.variant != CONTROL or (b.block or 0) < 4 else replace(b, void="read-back: no") for b in boots(made)
    )
    comparison = of(compare(ResultSet(campaign=campaign(made), boots=few)))
    assert (comparison.verdict, comparison.reason) == ("none", "the A/A control has too few boots")
    none = tuple(b for b in boots(made) if b.variant != CONTROL)
    assert of(compare(ResultSet(campaign=campaign(made), boots=none))).verdict == "none"


def test_only_whole_pairs_are_compared_and_void_boots_never() -> None:
    made = Made(effects={BUILD: 0.03})
    recorded = tuple(
        replace(b, void="throttled", values={HACKBENCH.name: (1000.0,)}) if b.variant == BUILD and b.block == 2 else b
        for b in boots(made)
    )
    comparison = of(compare(ResultSet(campaign=campaign(made), boots=recorded)))
    assert comparison.units == 11
    assert comparison.effect is not None
    assert comparison.effect.high < 1.04


def test_without_blocks_boots_are_unpaired() -> None:
    recorded = tuple(replace(boot, block=None) for boot in boots(Made()))
    effect = of(compare(ResultSet(campaign=campaign(Made()), boots=recorded))).effect
    assert effect is not None
    assert effect.test == "Mann-Whitney"


def test_several_boots_of_a_variant_in_a_block_count_as_one() -> None:
    made = Made(pairs=6)
    again = tuple(replace(boot, position=boot.position + 3, number=boot.number + 90) for boot in boots(made))
    assert (
        of(compare(ResultSet(campaign=campaign(made), boots=(*boots(made), *again)))).effect == of(judged(made)).effect
    )


@pytest.mark.parametrize(
    ("unit", "direction", "change", "word"),
    [
        ("seconds", "lower", -0.01, "faster"), ("seconds", "lower", 0.01, "slower"),
        ("messages/s", "higher", 0.01, "faster"), ("messages/s", "higher", -0.01, "slower"),
        ("bytes", "lower", -0.01, "better"), ("joules", "lower", 0.01, "worse"),
    ],
)  # fmt: skip
def test_direction_in_words(unit: str, direction: Direction, change: float, word: str) -> None:
    assert faster_or(Workload("w", "w", unit, direction), change) == word


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((5.0, 6.0), "runs differ"),
        ((5.5, 5.5), "5.5 is not a count"),
        ((5.0,), "counted once"),
        ((2.0**53, 2.0**53), "is not a count"),
    ],
)
def test_exact_counts_that_are_none(values: tuple[float, ...], said: str) -> None:
    made = Made(pairs=1, runs=2, evidence="exact", control=False)
    recorded = tuple(replace(boot, values={HACKBENCH.name: values}) for boot in boots(made))
    with pytest.raises(BenchError, match=said):
        compare(ResultSet(campaign=campaign(made), boots=recorded))


def test_nothing_to_compare() -> None:
    made = Made(pairs=2)
    with pytest.raises(BenchError, match="no valid boot of the base"):
        compare(ResultSet(campaign=campaign(made), boots=()))
    zero = tuple(replace(boot, values={HACKBENCH.name: (0.0,)}) for boot in boots(made))
    with pytest.raises(BenchError, match="a median of 0 has no ratio"):
        compare(ResultSet(campaign=campaign(made), boots=zero))


@pytest.mark.parametrize(("name", "low", "high", "faster"), [("a57", -1.46, -0.28, True), ("a53", 1.67, 2.57, False)])
def test_the_tables_of_2019(name: str, low: float, high: float, faster: bool) -> None:
    report = compare(open_results([f"example:2019-{name}"]))
    comparison = of(report)
    effect = comparison.effect
    assert effect is not None
    assert comparison.verdict == "different"
    assert (100 * (effect.low - 1), 100 * (effect.high - 1)) == pytest.approx((low, high), abs=0.005)
    assert round(abs(100 * effect.change), 1) == (0.9 if faster else 2.1)
    assert (effect.change < 0) == faster
    if faster:
        assert effect.p == pytest.approx(0.0006, abs=0.00005)


def test_outliers_are_flagged_by_tukeys_rule() -> None:
    values = np.array([1.0, 2, 3, 4, 5, 9.1, -3])
    assert outliers(values).tolist() == [False] * 5 + [True, False]
