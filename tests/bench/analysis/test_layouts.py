"""Results of several links: merged with each block on its link, compared with the layout as a random effect."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import scipy

from prologue_bench.analysis.boards import GroupEffect
from prologue_bench.analysis.compare import compare
from prologue_bench.analysis.layouts import LayoutEffects, over_layouts, spread_between
from prologue_bench.analysis.sources import open_results
from prologue_bench.analysis.stats import ALPHA, LEAST, POWER, Floats, over_links, paired, unpaired
from prologue_bench.report.group_words import layout_sentences
from prologue_bench.results.model import Readback
from prologue_bench.results.store import read_results
from tests.bench.analysis.test_calibration import CAMPAIGNS, three_sigma
from tests.support.needs import needs_dev_module
from tests.support.result_sets import BASE, BUILD, HACKBENCH, Made, boots, campaign, write
from tests.support.tool import Tool

needs_dev_module("statsmodels")

PAIRS = 6
BOOT = 0.003  # relative noise of a boot


def on_link(directory: Path, number: int, effect: float, functions: str = "f" * 64, **more: str) -> str:
    """A campaign on one link of a build."""
    name, build_id = f"link-{number:02}", f"{number:040x}"
    made = Made(pairs=PAIRS, effects={BUILD: effect}, seed=number, started=number)
    plan = campaign(made)
    kernel = {**plan.kernel, "build_id": build_id, "link": name, "functions": functions, **more}
    images = {"nop-nop": f"{number:064x}", "build": f"{number + 100:064x}"}
    variants = tuple(replace(v, image_sha256=images[str(v.kind)], words=number) for v in plan.variants)
    recorded = [
        replace(boot, readback=Readback(kernel["build_id"], 64, boot.readback.mov, boot.readback.nop))
        for boot in boots(made)
        if boot.readback
    ]
    return str(write(directory / name, replace(plan, kernel=MappingProxyType(kernel), variants=variants), recorded))


EFFECTS = (0.010, -0.006, 0.004, 0.012, -0.002, 0.006)


@pytest.fixture
def campaign_over_links(tmp_path: Path) -> Path:
    for number, effect in enumerate(EFFECTS, 1):
        on_link(tmp_path / "over", number, effect)
    return tmp_path / "over"


@pytest.mark.parametrize("label", [BASE, BUILD])
def test_pairs_of_one_link_only_are_called_that(campaign_over_links: Path, label: str) -> None:
    results = open_results([str(campaign_over_links)])
    boots_left = tuple(boot for boot in results.boots if boot.link == "link-01" or boot.variant != label)
    planned = replace(results.campaign, boots_planned=PAIRS)
    for part in compare(replace(results, campaign=planned, boots=boots_left)).workloads:
        (comparison,) = (each for each in part.comparisons if each.variant == BUILD)
        assert comparison.verdict == "too few boots"
        assert comparison.reason == f"{PAIRS} pairs of boots, all of one link; an effect over layouts needs two links"


def test_too_few_pairs_of_several_links_are_not_called_pairs_of_one(campaign_over_links: Path) -> None:
    results = open_results([str(campaign_over_links / f"link-0{number}") for number in (1, 2)])
    early = tuple(boot for boot in results.boots if (boot.block or 0) % PAIRS < 2)
    planned = replace(results.campaign, boots_planned=4)
    for comparison in compare(replace(results, campaign=planned, boots=early)).workloads[0].comparisons:
        assert comparison.verdict == "too few boots"
        assert comparison.reason == f"4 pairs of boots; a verdict needs at least {LEAST}"


def test_a_directory_of_links_is_one_campaign(campaign_over_links: Path) -> None:
    results = open_results([str(campaign_over_links)])
    assert results.links == tuple(f"link-{number:02}" for number in range(1, 7))
    assert results.campaign.boots_planned == 6 * PAIRS
    assert results.campaign.kernel == {"release": "6.12.1", "config_sha256": "c0" * 32, "functions": "f" * 64}
    (report,) = compare(results).workloads
    (comparison,) = [c for c in report.comparisons if c.variant == BUILD]
    assert comparison.effect is not None
    assert comparison.layouts is not None
    assert comparison.units == 36
    alone = [
        compare(open_results([str(path)])).workloads[0].comparisons[1].effect
        for path in sorted(campaign_over_links.iterdir())
    ]
    logs = [np.log(effect.ratio) for effect in alone if effect]
    low, high = scipy.stats.t.interval(0.95, 5, np.mean(logs), scipy.stats.sem(logs))
    effect = comparison.effect
    assert [effect.ratio, effect.low, effect.high] == pytest.approx(np.exp([np.mean(logs), low, high]))
    assert effect.p == pytest.approx(scipy.stats.ttest_1samp(logs, 0).pvalue)
    assert [part.ratio for part in comparison.layouts.parts] == pytest.approx(np.exp(logs))
    assert [part.different for part in comparison.layouts.parts] == [effect.different for effect in alone if effect]
    assert report.control is not None
    assert report.control.layouts is not None
    assert comparison.verdict == "inconclusive"


def test_the_report_shows_links_spread_and_how_many_decide(campaign_over_links: Path, tool: Tool) -> None:
    text = " ".join(tool("bench", "compare", campaign_over_links).out.split())
    assert f"{BUILD}, link by link: link-01 +" in text
    assert "of which these 6 links are a sample (each link counts once; t with 5 degrees of freedom)" in text
    assert f"{BUILD}: spread between layouts 0." in text
    assert "the base itself differs between layouts by" in text or "standard deviation" in text
    assert f"{BUILD}, from one link alone: " in text
    assert "such links decide a margin of 1%" in text
    assert "compared within blocks, then over links" in text
    document = tool("bench", "compare", campaign_over_links, "--json").json
    (comparison,) = [c for c in document["workloads"][0]["comparisons"] if c["variant"] == BUILD]
    assert len(document["links"]) == len(comparison["links"]["parts"]) == 6
    assert comparison["boards"] is None
    assert comparison["links"]["to_decide"] > 6


def test_why_the_spread_is_not_known(campaign_over_links: Path) -> None:
    """Each link has its own difference, in every pair; then a single pair of each is left."""
    results = open_results([str(campaign_over_links)])
    seconds = {link: 5 + k / 100 for k, link in enumerate(results.links)}
    same = tuple(
        replace(b, values={HACKBENCH.name: (seconds[str(b.link)] if b.variant == BUILD else 5.0,)})
        for b in results.boots
    )
    (report,) = compare(replace(results, boots=same)).workloads
    assert "noise of boots (pairs of one link do not vary)" in "; ".join(layout_sentences(report, 0.01))
    single = tuple(boot for boot in results.boots if not (boot.block or 0) % PAIRS)
    (report,) = compare(replace(results, boots=single)).workloads
    assert "noise of boots (a link needs 2 pairs)" in "; ".join(layout_sentences(report, 0.01))


def test_more_boots_of_the_same_links_see_no_millisecond(campaign_over_links: Path, tool: Tool) -> None:
    for plan in campaign_over_links.glob("*/campaign.json"):
        text = plan.read_text().replace(HACKBENCH.command, "boot")
        plan.write_text(text)
    (workload,) = tool("bench", "compare", campaign_over_links, "--json").json["workloads"]
    (comparison,) = [c for c in workload["comparisons"] if c["variant"] == BUILD]
    links = math.ceil(6 * (comparison["detectable"] * workload["variants"][0]["median"] / 0.001) ** 2)
    text = " ".join(tool("bench", "compare", campaign_over_links).out.split())
    assert f"to see 1 ms takes about {links:,} such links" in text
    assert "boots of each variant;" not in text


def test_links_that_are_not_merged(tmp_path: Path, tool: Tool) -> None:
    first, other = on_link(tmp_path, 1, 0.0), on_link(tmp_path, 2, 0.0, functions="e" * 64)
    assert "kernel functions: " in tool("bench", "compare", first, other, status=2).err
    same = on_link(tmp_path, 3, 0.0, build_id=f"{1:040x}")
    assert "is that of both, but they are different links" in tool("bench", "compare", first, same, status=2).err
    results = read_results(Path(on_link(tmp_path, 4, 0.0)))
    alone = str(write(tmp_path / "4", results.campaign, [replace(boot, block=None) for boot in results.boots]))
    printed = tool("bench", "compare", first, alone, status=2)
    assert "4: several links are compared within blocks, and its boots are in none" in printed.err


def made_pairs(rng: np.random.Generator, shape: tuple[int, int, int], effect: float, layout: float) -> Floats:
    """Differences of pairs, campaigns by links by pairs: an effect that differs between links, and noise of boots."""
    noise = rng.normal(0, BOOT * 2**0.5, shape)
    return np.asarray(rng.normal(effect, layout, (*shape[:2], 1)) + noise)


@pytest.mark.thorough
@pytest.mark.parametrize("layout", [0.0, 0.003, 0.01])
@pytest.mark.parametrize(("links", "pairs"), [(3, 6), (6, 1), (6, 6), (12, 3)])
def test_false_alarms_coverage_and_what_is_seen(links: int, pairs: int, layout: float) -> None:
    rng = np.random.default_rng(links)
    null = made_pairs(rng, (CAMPAIGNS, links, pairs), 0.0, layout).mean(axis=-1)
    estimate = over_links(null)
    covered = float(((estimate.low <= 0) & (estimate.high >= 0)).mean())
    false = float(estimate.different.mean())
    line = f"\n{links} links of {pairs} pairs, layout {layout:.1%}: false alarms {false:.1%}, covers {covered:.1%}"
    assert abs(covered - 0.95) <= three_sigma(0.95)
    assert false <= ALPHA + three_sigma(ALPHA)
    if links >= LEAST:
        claimed = float(np.median(estimate.detectable))
        seen = float(over_links(null + claimed).different.mean())
        line += f", sees the claimed {claimed:.2%} in {seen:.0%}"
        assert abs(seen - POWER) <= 0.05
    print(line)


@pytest.mark.thorough
@pytest.mark.parametrize("margin", [0.005, 0.01])
def test_the_number_of_links_that_decide(margin: float) -> None:
    """With that many, 80% of campaigns call no difference equivalent, and one of the margin different."""
    rng, layout, pairs = np.random.default_rng(12), 0.006, 3
    parts = tuple(GroupEffect(name=str(k), units=pairs, ratio=1.0) for k in range(12))
    effects = made_pairs(rng, (CAMPAIGNS, 12, pairs), 0.0, layout).mean(axis=-1)
    counts = [
        LayoutEffects(parts=parts, spread=None, deviation=sd).to_decide(margin) for sd in effects[:400].std(-1, ddof=1)
    ]
    count = int(np.median([count for count in counts if count is not None]))
    nothing, much = (
        over_links(made_pairs(rng, (CAMPAIGNS, count, pairs), effect, layout).mean(axis=-1))
        for effect in (0.0, float(np.log1p(margin)))
    )
    equivalent, different = float(nothing.inside(margin).mean()), float(much.different.mean())
    print(f"\n{count} links decide {margin:.1%}: equivalent {equivalent:.0%}, different {different:.0%}")
    assert abs(equivalent - POWER) <= 0.05
    assert different >= POWER


@pytest.mark.thorough
def test_one_link_is_wrong_about_layouts() -> None:
    """A layout effect of 1% and a MOV that costs 0.2%: three designs with 36 boots of each kernel."""
    rng, layout, effect = np.random.default_rng(1), 0.01, 0.002
    base, other = (
        rng.normal(0, layout, (CAMPAIGNS, 1)) + rng.normal(0, BOOT, (CAMPAIGNS, 36)) for _ in range(2)
    )  # fmt: skip
    designs = {
        "two builds": unpaired(base, other + effect),
        "variants of one link": paired(made_pairs(rng, (500, 1, 36), effect, layout)[:, 0]),
        "12 links": over_links(made_pairs(rng, (CAMPAIGNS, 12, 3), effect, layout).mean(axis=-1)),
    }
    missed, reversed_ = {}, {}
    for name, e in designs.items():
        missed[name] = float(((e.low > effect) | (e.high < effect)).mean())
        reversed_[name] = float((e.different & (e.centre < 0)).mean())
        print(f"\n{name}: leaves out the truth {missed[name]:.1%}, says faster {reversed_[name]:.1%}")
    assert missed["two builds"] > 0.7
    assert missed["variants of one link"] > 0.7
    assert missed["12 links"] <= 0.05 + three_sigma(0.05)
    assert reversed_["variants of one link"] > 0.3
    assert reversed_["12 links"] <= 0.025


def simulated(rng: np.random.Generator, links: int, pairs: int) -> dict[str, Floats]:
    made = made_pairs(rng, (1, links, pairs), 0.0, 0.01)[0]
    return {f"link-{k + 1:02}": values for k, values in enumerate(made)}


def test_the_spread_is_without_the_noise_of_boots() -> None:
    rng = np.random.default_rng(5)
    spreads = [spread_between(list(simulated(rng, 12, 6).values())) for _ in range(60)]
    assert np.mean([spread for spread in spreads if spread is not None]) == pytest.approx(0.01, rel=0.1)
    assert spread_between([np.array([0.1]), np.array([0.2])]) is None


@pytest.mark.filterwarnings("error")
def test_links_that_differ_by_rounding_do_not_vary() -> None:
    """A clock of 10 ms, 1.00 s and 1.01 s in every boot: the means of 3, 5 and 7 equal logarithms differ in a bit."""
    difference = np.log(1.01) - np.log(1.0)
    pairs = {str(number): np.full(number, difference) for number in range(3, 12)}
    assert len({values.mean() for values in pairs.values()}) > 1
    estimate, layouts = over_layouts(pairs)
    assert not estimate.varies
    assert (layouts.spread, layouts.deviation, layouts.to_decide(0.01)) == (None, 0.0, None)


def test_pairs_of_a_link_may_be_equal_by_chance() -> None:
    """Times in hundredths of a second: two pairs of one link in six are alike, those of the others are not."""
    groups = [np.array([0.01, 0.01]), *(np.array([0.01 + k / 500, 0.012 + k / 500]) for k in range(5))]
    spread = spread_between(groups)
    assert spread is not None
    within = sum(values.var(ddof=1) for values in groups) / 6 / 2
    assert spread == pytest.approx((np.var([values.mean() for values in groups], ddof=1) - within) ** 0.5, rel=1e-3)
    assert spread_between([np.array([0.01, 0.01]), np.array([0.02, 0.02])]) is None


def test_single_pairs_give_an_interval_and_no_spread() -> None:
    estimate, layouts = over_layouts(simulated(np.random.default_rng(2), 8, 1))
    assert layouts.spread is None
    assert estimate.high > estimate.low
    assert {part.low for part in layouts.parts} == {None}
