"""Results of several boards: merged with each block on its board, compared with the board as a random effect."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import scipy

from prologue.cli.main import main
from prologue_bench.analysis.boards import over_boards
from prologue_bench.analysis.compare import compare
from prologue_bench.analysis.sources import open_results
from prologue_bench.analysis.stats import Floats
from prologue_bench.errors import BenchError
from prologue_bench.results.model import ResultSet
from prologue_bench.results.store import read_results
from tests.support.needs import needs_dev_module
from tests.support.result_sets import BASE, BUILD, CONTROL, Made, boots, campaign, write
from tests.support.tool import Tool

needs_dev_module("statsmodels")

CAMPAIGNS = 150


def on_board(directory: Path, name: str, made: Made, **facts: str) -> str:
    """A campaign on one board of a type."""
    plan = campaign(made)
    machine = MappingProxyType({**plan.machine, "host": name, **facts})
    return str(write(directory / name, replace(plan, machine=machine), boots(made)))


def differences(*centres: float, pairs: int = 8, noise: float = 0.002) -> dict[str, Floats]:
    """Boards whose pairs have exactly this mean and this spread."""
    rng = np.random.default_rng(3)
    found = {}
    for k, centre in enumerate(centres):
        values = rng.standard_normal(pairs)
        found[f"board{k}"] = centre + noise * (values - values.mean()) / values.std(ddof=1)
    return found


@pytest.mark.thorough
def test_boards_that_differ_count_once_each() -> None:
    """With boards equally well known the interval is Student's of the boards' means: the pairs do not matter."""
    centres = [0.010, 0.014, 0.003]
    for pairs in (8, 80):
        estimate, boards = over_boards(differences(*centres, pairs=pairs))
        assert estimate is not None
        low, high = scipy.stats.t.interval(0.95, 2, np.mean(centres), scipy.stats.sem(centres))
        assert [float(estimate.centre), float(estimate.low), float(estimate.high)] == pytest.approx(
            [np.mean(centres), low, high], rel=1e-6
        )
        assert float(estimate.p) == pytest.approx(scipy.stats.ttest_1samp(centres, 0).pvalue, rel=1e-6)
        within = 0.002**2 / pairs
        assert boards.spread == pytest.approx((np.var(centres, ddof=1) - within) ** 0.5, rel=1e-3)


def test_boards_that_agree_are_not_known_better_than_their_boots() -> None:
    """Two boards that agree by chance would otherwise give an interval of no width."""
    estimate, boards = over_boards(differences(0.01, 0.01, pairs=8, noise=0.002))
    assert estimate is not None
    assert boards.spread == 0
    half = scipy.stats.t.ppf(0.975, 1) * 0.002 / 16**0.5
    assert float(estimate.high - estimate.low) == pytest.approx(2 * half)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("pairs", "spread"),
    [
        ((6, 9), 0.01), ((6, 9), 0.0), ((6, 9, 12), 0.01),
        # A noise that boards knew from their own pairs alone would weigh one that is quiet by chance too much: 86-90%.
        ((2,) * 6, 0.0), ((2,) * 6, 0.002), ((3,) * 10, 0.0),
        # Four boards died after two blocks each: by its weight alone the fifth would decide, and hold 91%.
        ((2, 2, 2, 2, 40), 0.002),
    ],
)  # fmt: skip
def test_the_interval_covers(pairs: tuple[int, ...], spread: float) -> None:
    """The true effect of all boards lies in 95% of intervals, less 2.4 standard errors of so many campaigns.

    Pooled pairs of few boards that differ would miss it most of the time.
    """
    rng, campaigns = np.random.default_rng(pairs), 2 * CAMPAIGNS
    covered = pooled = 0
    for _ in range(campaigns):
        sample = {str(k): rng.normal(0, spread) + rng.normal(0, 0.004, count) for k, count in enumerate(pairs)}
        estimate, _ = over_boards(sample)
        assert estimate is not None
        covered += bool(estimate.low <= 0 <= estimate.high)
        everything = np.concatenate(list(sample.values()))
        pooled += abs(everything.mean()) <= scipy.stats.t.ppf(0.975, len(everything) - 1) * scipy.stats.sem(everything)
    assert covered >= 0.92 * campaigns
    if spread == 0.01:
        assert pooled < 0.6 * campaigns


def test_several_boards_are_merged_each_block_on_its_own(tmp_path: Path) -> None:
    names = [on_board(tmp_path, name, Made(pairs=4 + k, seed=k)) for k, name in enumerate(("a", "b", "c"))]
    results = open_results(names)
    assert results.boards == ("a", "b", "c")
    assert "host" not in results.campaign.machine
    assert len(results.boots) == 3 * (4 + 5 + 6)
    of_block = {(boot.block, boot.board) for boot in results.boots}
    assert len(of_block) == 15 == len({block for block, _ in of_block})


def test_two_boots_of_two_boards_may_start_at_the_same_time(tmp_path: Path) -> None:
    made = Made(pairs=2)
    one, other = on_board(tmp_path, "a", made), on_board(tmp_path, "b", made)
    assert len(open_results([one, other]).boots) == 12
    copied = on_board(tmp_path, "c", made, host="a")
    with pytest.raises(BenchError, match=r"c: boot 1, started .*, is in .*a already"):
        open_results([one, copied])


def test_boards_of_another_type_are_refused(tmp_path: Path) -> None:
    one, other = on_board(tmp_path, "a", Made(pairs=2)), on_board(tmp_path, "b", Made(pairs=2), cpu="Cortex-A53")
    with pytest.raises(BenchError, match=r"not of one setup: machine cpu: Cortex-A57 and Cortex-A53$"):
        open_results([one, other])


def test_boots_without_blocks_are_not_merged_over_boards(tmp_path: Path) -> None:
    names = []
    for k, name in enumerate(("a", "b")):
        made = Made(pairs=2, started=k)
        plan = replace(campaign(made), machine=MappingProxyType({"host": name}))
        names.append(str(write(tmp_path / name, plan, [replace(boot, block=None) for boot in boots(made)])))
    with pytest.raises(BenchError, match="not of one setup: machine host: a and b"):
        open_results(names)


def test_a_block_on_two_boards_is_refused(tmp_path: Path) -> None:
    made = Made(pairs=2)
    recorded = [replace(boot, board="a") for boot in boots(made)]
    recorded[2] = replace(recorded[2], board="b")
    with pytest.raises(BenchError, match=r"results\.jsonl:3: block 0 is of board b, but in line 1 of board a"):
        read_results(write(tmp_path / "set", campaign(made), recorded))
    recorded[2] = replace(recorded[2], void="lost")  # it does not count, so it is compared with nothing
    assert read_results(write(tmp_path / "set", campaign(made), recorded)).boards == ("a",)


def mixed(directory: Path, made: Made, pairs: dict[str, int], effects: dict[str, float]) -> ResultSet:
    """One campaign whose blocks are of several boards, each with an effect of its own."""
    recorded, owners = [], [board for board, count in pairs.items() for _ in range(count)]
    plans = {board: boots(replace(made, effects={BUILD: effects[board]})) for board in pairs}
    for board, plan in plans.items():
        recorded += [replace(boot, board=board) for boot in plan if owners[boot.block or 0] == board]
    return read_results(write(directory, campaign(made), recorded))


def test_an_effect_that_boards_do_not_share_is_no_difference(tmp_path: Path, tool: Tool) -> None:
    """Twelve pairs each: a is 2% slower, b as fast as before. Pooled pairs say 'different'."""
    results = mixed(tmp_path, Made(pairs=24), {"a": 12, "b": 12}, {"a": 0.02, "b": 0.0})
    build = compare(results).workloads[0].comparisons[1]
    assert (build.verdict, build.units) == ("inconclusive", 24)
    assert build.effect is not None
    assert build.effect.test == "random effect"
    pooled = replace(results, boots=tuple(replace(boot, board=None) for boot in results.boots))
    assert compare(pooled).workloads[0].comparisons[1].verdict == "different"
    text = " ".join(tool("bench", "compare", tmp_path).out.split())
    assert "the board is a random effect: changes, intervals and p are of all boards of which these 2 are a" in text
    assert "t with 1 degree of freedom), whose pairs are taken to be equally noisy. 2 boards are few" in text
    assert (
        "spread between boards 1.3% (standard deviation); 2 boards know a spread at best to a factor of 0.45 to 32"
        in text
    )
    assert "to 32, if boots had no noise" in text
    assert "24 pairs on 2 boards; compared within blocks, then over boards" in text
    assert "2 boards: a (36 boots), b (36 boots); each block on one of them" in text
    assert f"{BUILD}, board by board: a +1.98% [+" in text
    report: Any = tool("bench", "compare", tmp_path, "--json").json
    assert report["boards"] == ["a", "b"]
    part = report["workloads"][0]["comparisons"][1]
    assert (part["test"], part["boards"]["used"], part["detectable"]) == ("random effect", ["a", "b"], None)
    assert [each["units"] for each in part["boards"]["parts"]] == [12, 12]
    assert {boot["board"] for boot in report["workloads"][0]["variants"][0]["boots"]} == {"a", "b"}
    assert "random effect" in tool("bench", "compare", "--format", "markdown", tmp_path).out


def test_an_effect_that_boards_share_is_one(tmp_path: Path) -> None:
    effects = dict.fromkeys("abcdef", 0.02)
    results = mixed(tmp_path, Made(pairs=24), dict.fromkeys(effects, 4), effects)
    control, build = compare(results).workloads[0].comparisons
    assert (control.variant, control.verdict) == (CONTROL, "equivalent")
    assert build.verdict == "different"


def test_a_board_with_one_pair_is_left_out(tmp_path: Path, tool: Tool) -> None:
    """It died in its second block: then one board is left, and that is said."""
    results = mixed(tmp_path, Made(pairs=13), {"a": 12, "b": 1}, {"a": 0.02, "b": 0.5})
    build = compare(results).workloads[0].comparisons[1]
    assert build.effect is not None
    assert (build.verdict, build.units, build.effect.test) == ("different", 12, "sign flips")
    assert build.effect.change == pytest.approx(0.02, abs=0.003)
    text = " ".join(tool("bench", "compare", tmp_path).out.split())
    assert f"{BUILD}: left out: b: a board needs 2 pairs, to know its spread" in text
    assert f"{BUILD}: the effect of the board CANNOT BE ESTIMATED: only a has enough pairs" in text
    assert "random effect" not in text
    for form in ("text", "ktap"):
        text = " ".join(tool("bench", "compare", tmp_path, "--format", form).out.split())
        assert re.search(rf"{BUILD}: different, [12].\d+% slower \(p [=<] 0.\d+\); for board a only", text)
    picture = tmp_path / "boards.svg"
    assert main(["bench", "plot", str(tmp_path), "-o", str(picture)]) == 0
    assert "; for board a only" in picture.read_text()
    assert "2 boards: a (36 boots), b (3 boots); each block on one of them" in picture.read_text()


@pytest.mark.parametrize("label", [BASE, BUILD])
def test_a_board_on_which_one_variant_never_counts(tmp_path: Path, tool: Tool, label: str) -> None:
    results = mixed(tmp_path, Made(pairs=24), {"a": 12, "b": 12}, {"a": 0.02, "b": 0.0})
    kept = [boot for boot in results.boots if boot.board == "a" or boot.variant != label]
    write(tmp_path, results.campaign, kept)
    text = " ".join(tool("bench", "compare", tmp_path).out.split())
    assert f"{BUILD}: the effect of the board CANNOT BE ESTIMATED: only a has enough pairs" in text


def test_boards_with_one_pair_each(tmp_path: Path, tool: Tool) -> None:
    results = mixed(tmp_path, Made(pairs=2), {"a": 1, "b": 1}, {"a": 0.0, "b": 0.0})
    build = compare(results).workloads[0].comparisons[1]
    assert (build.verdict, build.effect, build.units) == ("too few boots", None, 0)
    assert "left out: a, b" in tool("bench", "compare", tmp_path).out


def test_a_board_whose_samples_do_not_vary(tmp_path: Path, tool: Tool) -> None:
    made = Made(pairs=12, boot_noise=0, run_noise=0, runs=1)
    recorded = [replace(boot, board="ab"[(boot.block or 0) % 2]) for boot in boots(made)]
    coarse = {BASE: 5.0, CONTROL: 5.0, BUILD: 5.1}
    recorded = [
        replace(boot, values=MappingProxyType(dict.fromkeys(boot.values, (coarse[boot.variant],)))) for boot in recorded
    ]
    build = compare(read_results(write(tmp_path, campaign(made), recorded))).workloads[0].comparisons[1]
    assert build.verdict == "inconclusive"
    assert "CANNOT BE ESTIMATED: samples of no board vary" in " ".join(tool("bench", "compare", tmp_path).out.split())


def test_pairs_of_a_board_may_be_equal_by_chance() -> None:
    """Their noise is that of all boards: one with two equal pairs in six leaves a verdict."""
    rng = np.random.default_rng(1)
    sample = {str(k): rng.normal(0.02, 0.001, 2) for k in range(6)}
    estimate, boards = over_boards({**sample, "5": np.array([0.02, 0.02])})
    assert estimate is not None
    assert (boards.used, boards.spread is None) == (tuple("012345"), False)
    assert bool(estimate.different)
