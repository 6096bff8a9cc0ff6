"""What happened around the samples: lost boots, their order, looks at unfinished data. Campaigns of no true effect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from prologue_bench.analysis.compare import Comparison, Report, compare
from prologue_bench.analysis.withheld import why_withheld
from prologue_bench.results.merge import merge
from prologue_bench.results.model import LOST, NOTHING, Boot, ResultSet
from tests.support.result_sets import BASE, BUILD, CONTROL, HACKBENCH, Made, campaign, write
from tests.support.tool import Tool

CAMPAIGNS = 150
MOST = 12  # of 150 false alarms, where 7.5 are to be expected: more are seen once in twenty times
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def a_boot(variant: str, number: int, value: float | None, block: int | None = None, position: int = 0) -> Boot:
    """A boot of one run, three minutes after the one before it; lost without a value."""
    return Boot(
        block=block,
        position=position,
        variant=variant,
        number=number,
        started=(DAY + timedelta(minutes=3 * number)).isoformat(),
        values=NOTHING if value is None else MappingProxyType({HACKBENCH.name: (value,)}),
        void=f"{LOST}no power-off within 600 s" if value is None else None,
    )


def verdicts(reports: Iterable[Report]) -> list[str]:
    return [of_build(report).verdict for report in reports]


def of_build(report: Report) -> Comparison:
    return next(c for c in report.workloads[0].comparisons if c.variant == BUILD)


def with_slow_mode(rng: np.random.Generator, slow: float, mode: float, pairs: int = 20, lose: float = 1.0) -> ResultSet:
    """Any boot may be slow; those of ``build`` time out then, and are made again."""
    boots: list[Boot] = []
    for block in range(pairs):
        for position, variant in enumerate(rng.permutation([BASE, CONTROL, BUILD]).tolist()):
            while True:
                is_slow = rng.random() < mode
                value = float(5.7 * (1 + slow * is_slow) * np.exp(0.003 * rng.standard_normal()))
                lost = is_slow and variant == BUILD and rng.random() < lose
                boots.append(a_boot(variant, len(boots) + 1, None if lost else value, block, position))
                if not lost:
                    break
    return ResultSet(campaign=campaign(Made(pairs=pairs)), boots=tuple(boots))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mode", "unseen"), [(0.1, MOST), (0.33, 100)], ids=["one boot in ten is slow", "one boot in three is slow"]
)
def test_slow_boots_that_are_lost_make_no_variant_fast(mode: float, unseen: int) -> None:
    """As the samples alone would, without a word of the losses."""
    rng = np.random.default_rng(55)
    made = [with_slow_mode(rng, 0.02, mode) for _ in range(CAMPAIGNS)]
    seen = verdicts(map(compare, made))
    kept = (replace(results, boots=tuple(boot for boot in results.boots if not boot.is_lost)) for results in made)
    alone = verdicts(map(compare, kept)).count("different")
    print(f"\n{mode:.0%} slow: different in {seen.count('different')} of {CAMPAIGNS}, by the samples alone in {alone}")
    assert seen.count("different") <= MOST
    assert alone > unseen


@pytest.mark.thorough
def test_losses_that_all_variants_have_leave_the_verdict() -> None:
    rng = np.random.default_rng(56)
    lost = [with_equal_losses(rng) for _ in range(CAMPAIGNS)]
    seen = verdicts(map(compare, lost))
    print(f"\nequal losses: different in {seen.count('different')} of {CAMPAIGNS}, no verdict in {seen.count('none')}")
    assert seen.count("different") <= MOST
    assert seen.count("none") <= CAMPAIGNS * 0.3  # the control, and losses that are unequal by chance


def with_equal_losses(rng: np.random.Generator) -> ResultSet:
    """Every tenth boot hangs, whatever its variant."""
    boots: list[Boot] = []
    for block in range(20):
        for position, variant in enumerate(rng.permutation([BASE, CONTROL, BUILD]).tolist()):
            while rng.random() < 0.1:
                boots.append(a_boot(variant, len(boots) + 1, None, block, position))
            value = float(5.7 * np.exp(0.003 * rng.standard_normal()))
            boots.append(a_boot(variant, len(boots) + 1, value, block, position))
    return ResultSet(campaign=campaign(Made(pairs=20)), boots=tuple(boots))


def test_lost_boots_are_named_above_everything_else() -> None:
    """10 of 30 boots of ``build``, 0 of 40 others: what made it different in 136 of 150 campaigns."""
    places = [
        (block, position, variant) for block in range(20) for position, variant in enumerate((BASE, CONTROL, BUILD))
    ]
    boots = [a_boot(v, k, 5.7 - 0.05 * (v == BUILD) + 0.001 * (k % 7), b, p) for k, (b, p, v) in enumerate(places, 1)]
    lost = [a_boot(BUILD, 100 + block, None, block, 2) for block in range(10)]
    report = compare(ResultSet(campaign=campaign(Made(pairs=20)), boots=(*boots, *lost)))
    assert (of_build(report).verdict, of_build(compare(without(lost, report))).verdict) == ("none", "different")
    assert report.first_lines[0].startswith(
        f"NO VERDICT: {BUILD} was lost in 10 of 30 boots, {BASE} in 0 of 20, {CONTROL} in 0 of 20 (Fisher's exact test"
    )


def without(lost: list[Boot], report: Report) -> ResultSet:
    return replace(report.results, boots=tuple(boot for boot in report.results.boots if boot not in lost))


def unpaired(values: np.ndarray[tuple[int], np.dtype[np.float64]], order: str) -> ResultSet:
    """Boots that were recorded one at a time, in an order of A and B."""
    labels = {"A": BASE, "B": BUILD}
    boots = [
        a_boot(labels[letter], k + 1, value, position=k)
        for k, (letter, value) in enumerate(zip(order, values.tolist(), strict=True))
    ]
    plan = replace(campaign(Made(control=False)), boots_planned=None, aa=None)
    return ResultSet(campaign=plan, boots=tuple(boots))


def drifting(rng: np.random.Generator, boots: int = 20) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A machine that gets slower by 1% in the course of a day."""
    return np.asarray(43.6 * np.exp(np.linspace(0, 0.01, boots) + 0.0015 * rng.standard_normal(boots)))


@pytest.mark.thorough
@pytest.mark.parametrize("order", ["A" * 10 + "B" * 10, "AAAAABBBBBAAAAABBBBB", "AAAAAAAABABABBBBBBBB"])
def test_variants_that_were_separated_in_time_have_no_verdict(order: str) -> None:
    rng = np.random.default_rng(57)
    seen = verdicts(compare(unpaired(drifting(rng), order)) for _ in range(CAMPAIGNS))
    print(f"\n{order}: no verdict in {seen.count('none')} of {CAMPAIGNS}")
    assert set(seen) == {"none"}


@pytest.mark.thorough
def test_variants_in_random_order_keep_their_verdict_however_the_machine_drifts() -> None:
    rng = np.random.default_rng(58)
    orders = ["".join(rng.permutation([*"AB" * 10])) for _ in range(CAMPAIGNS)]
    seen = verdicts(compare(unpaired(drifting(rng), order)) for order in orders)
    print(f"\nrandom order: different in {seen.count('different')} of {CAMPAIGNS}, no verdict in {seen.count('none')}")
    assert seen.count("none") <= 8  # chance makes one order in fifty look like no chance
    assert seen.count("different") <= MOST


def test_the_log_of_a_board_that_was_measured_variant_by_variant(tool: Tool) -> None:
    """Ten boots of each, one kernel after the other."""
    log = Path(__file__).with_name("order_aaabbb.log")
    printed = " ".join(tool("bench", "compare", log).out.split())
    assert (
        "NO VERDICT: nop-nop and build were separated in time: their 20 boots changed from one to the other 1 time"
        in (printed)
    )
    assert "different, " not in printed
    assert "from the first boot to the last (Kendall's tau" in " ".join(tool("bench", "table", log).out.split())


@pytest.mark.thorough
def test_campaigns_that_are_added_until_one_pleases_have_no_verdict() -> None:
    """Six blocks, and six more after each look, five looks: 12 to 18% of campaigns would come out different."""
    rng = np.random.default_rng(59)
    looks = [
        [(f"campaign-{look}/", one_campaign(rng, first=1000 * look)) for look in range(5)] for _ in range(CAMPAIGNS)
    ]
    alone = verdicts(compare(sets[0][1]) for sets in looks).count("different")  # nothing was added to these
    blind = (any(_different(merge(sets[:look])) for look in range(1, 6)) for sets in looks)
    print(f"\ndifferent at the first look in {alone} of {CAMPAIGNS}, at one of five looks in {sum(blind)}")
    assert alone <= MOST
    for sets in looks:
        assert all(BUILD in why_withheld(merge(sets[:look])) for look in range(2, 6))
    report = compare(merge(looks[0]))
    assert of_build(report).verdict == "none"
    assert report.first_lines[0].startswith("NO VERDICT: campaign-1/ was begun when campaign-0/ had ended; campaign-2/")


def _different(results: ResultSet) -> bool:
    """What would be said if nobody knew that boots were added."""
    planned = replace(results.campaign, boots_planned=6)
    return of_build(compare(replace(results, campaign=planned, added=()))).verdict == "different"


def one_campaign(rng: np.random.Generator, first: int, pairs: int = 6, planned: int = 6) -> ResultSet:
    places = [(b, p, v) for b in range(pairs) for p, v in enumerate(rng.permutation([BASE, CONTROL, BUILD]).tolist())]
    values = (5.7 * np.exp(0.003 * rng.standard_normal(len(places)))).tolist()
    boots = (a_boot(v, first + k, values[k], b, p) for k, (b, p, v) in enumerate(places))
    return ResultSet(campaign=campaign(Made(pairs=planned)), boots=tuple(boots))


@pytest.mark.parametrize(("pairs", "verdict"), [(19, "none"), (20, "equivalent")], ids=["unfinished", "finished"])
def test_an_unfinished_campaign_has_no_verdict(pairs: int, verdict: str) -> None:
    report = compare(one_campaign(np.random.default_rng(5), first=1, pairs=pairs, planned=20))
    assert of_build(report).verdict == verdict
    assert report.first_lines == (
        ("NO VERDICT: unfinished: 19 of 20 planned blocks, a number that was fixed beforehand",) if pairs < 20 else ()
    )


def test_outlying_pairs_bring_a_second_line(tool: Tool, tmp_path: Path) -> None:
    rng = np.random.default_rng(60)
    boots = one_campaign(rng, first=1, pairs=20, planned=20).boots
    outlying = {4, 23, 41}
    slow = [
        replace(boot, values=MappingProxyType({HACKBENCH.name: (boot.values[HACKBENCH.name][0] * factor,)}))
        for boot in boots
        if (factor := (1.15 if boot.number in outlying else 1) * (1.01 if boot.variant == BUILD else 1))
    ]
    comparison = of_build(compare(ResultSet(campaign=campaign(Made(pairs=20)), boots=tuple(slow))))
    assert comparison.effect is not None
    assert comparison.robust is not None
    assert comparison.verdict != "different"
    assert 1.005 < comparison.robust.low < 1.01 < comparison.robust.high < comparison.effect.high
    printed = " ".join(tool("bench", "compare", write(tmp_path, campaign(Made(pairs=20)), slow)).out.split())
    assert "(Hodges-Lehmann, signed ranks, p = 0.0005); the verdict is the mean's" in printed, printed
    quiet = of_build(compare(ResultSet(campaign=campaign(Made(pairs=20)), boots=boots)))
    assert quiet.robust is None
