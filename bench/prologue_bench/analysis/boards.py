"""A difference that was measured on several boards: the board is a random effect.

Boards of one type are not one machine: memory, firmware and silicon differ, and so may the effect of a variant. Blocks
of one board are no independent evidence of what the next board would show. Each board gives one estimate, from the
pairs of its own blocks; these are combined as estimates of several laboratories are (Paule and Mandel, J. Res. NBS 87,
1982: the spread between boards is what makes the estimates consistent). The interval is Hartung and Knapp's, Student's
t with one degree of freedom less than there are boards, and never narrower than if boards were known to be alike
(Roever et al., BMC Med. Res. Methodol. 15, 2015: with two or three it would be, by chance), or than if each board
counted once: one with 40 pairs beside four with 2 has most of the weight whenever the spread is taken for small, and
the interval would hold the truth in 91% of campaigns. statsmodels estimates.

Assumed: the pairs of all boards are equally noisy, which boards of one type should be. The noise within boards is then
estimated once, from all of them. Each board's own estimate, from two or three pairs, would give a board that is quiet
by chance nearly all the weight (six equal boards of two pairs: the interval would hold the truth in 87% of campaigns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from prologue.installation import how_to_install
from prologue_bench.analysis.stats import ALPHA, LEAST, NO_WIDTH, Estimate, Floats, paired
from prologue_bench.errors import MissingToolError

LEAST_OF_BOARD: Final = 2  # pairs: one has no spread


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEffect:
    """Effect that one board, or one link, shows by itself: a ratio to the base with its interval; None from one pair.

    ``different`` is the verdict of a plain comparison of this group; None if it has too few pairs for one.
    """

    name: str
    units: int
    ratio: float
    low: float | None = None
    high: float | None = None
    different: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Boards:
    """Effects of a comparison's boards, one by one, and how far they are apart.

    ``spread`` is the standard deviation of the effect between boards, relative (0.01 is 1%); None if it cannot be
    estimated: then the comparison is that of ``used``, the only board with enough pairs.
    """

    parts: tuple[GroupEffect, ...]
    used: tuple[str, ...]
    spread: float | None

    @property
    def freedom(self) -> int:
        """Degrees of freedom of statements on all boards."""
        return len(self.used) - 1


def known_to(freedom: int) -> tuple[float, float]:
    """Return the factors to which a standard deviation is known with so many degrees of freedom (95%).

    At best: this is chi-squared of groups whose effects were known exactly. The noise of boots makes it wider.
    """
    from scipy import stats

    low, high = (float((freedom / stats.chi2.ppf(q, freedom)) ** 0.5) for q in (0.975, 0.025))
    return low, high


def over_boards(differences: Mapping[str, Floats]) -> tuple[Estimate | None, Boards]:
    """Combine the differences of log medians of each board's pairs, at least one.

    Returns:
        The estimate; None if no board has two pairs. And what it was made of.

    Raises:
        MissingToolError: statsmodels is not installed.

    """
    parts = tuple(effect_alone(board, values) for board, values in differences.items())
    used = tuple(part.name for part in parts if part.units >= LEAST_OF_BOARD)
    if len(used) < 2:
        estimate = paired(differences[used[0]]) if used else None
        return estimate, Boards(parts=parts, used=used, spread=None)
    chosen = [differences[board] for board in used]
    centres = np.array([values.mean() for values in chosen])
    if not any(np.ptp(values) > NO_WIDTH for values in chosen):
        return without_width(float(centres.mean())), Boards(parts=parts, used=used, spread=None)
    estimate, spread = combined(centres, variances_of_means(chosen))
    return estimate, Boards(parts=parts, used=used, spread=spread)


def effect_alone(name: str, pairs: Floats) -> GroupEffect:
    """Return what the pairs of one board, or of one link, show by themselves."""
    ratio = float(np.exp(pairs.mean()))
    if len(pairs) < LEAST_OF_BOARD:
        return GroupEffect(name=name, units=len(pairs), ratio=ratio)
    estimate = paired(pairs)
    low, high = float(np.exp(estimate.low)), float(np.exp(estimate.high))
    different = bool(estimate.different) if len(pairs) >= LEAST else None
    return GroupEffect(name=name, units=len(pairs), ratio=ratio, low=low, high=high, different=different)


def variances_of_means(chosen: Sequence[Floats]) -> Floats:
    """Return each group's variance of the mean, from the variance that the pairs of all groups have in common."""
    counts = np.array([len(values) for values in chosen])
    squares = sum(float(np.sum((values - values.mean()) ** 2)) for values in chosen)
    return np.asarray(squares / np.sum(counts - 1) / counts)


def require_statsmodels() -> None:
    """Look for what combines groups of pairs.

    Raises:
        MissingToolError: it is not installed.

    """
    try:
        import statsmodels.stats.meta_analysis  # noqa: F401 - whether it is there
    except ImportError as missing:
        message = "results of several boards or links are compared by statsmodels, which is not installed"
        raise MissingToolError(f"{message}: {how_to_install('all', 'statsmodels')}") from missing


def combined(centres: Floats, variances: Floats) -> tuple[Estimate, float]:
    """Return the estimate over groups of pairs, and the standard deviation between them.

    Raises:
        MissingToolError: statsmodels is not installed.

    """
    from scipy import stats

    require_statsmodels()
    from statsmodels.stats.meta_analysis import combine_effects

    with np.errstate(divide="ignore"):  # in a measure that we do not use, if boards agree exactly
        combined = combine_effects(centres, variances, method_re="iterated", use_t=True)
    error = max(float(combined.sd_eff_w_re_hksj), float(combined.sd_eff_w_re), float(stats.sem(centres)))
    centre, freedom = float(combined.mean_effect_re), len(centres) - 1
    half = float(stats.t.ppf(1 - ALPHA / 2, freedom)) * error
    estimate = Estimate(
        centre=np.asarray(centre),
        low=np.asarray(centre - half),
        high=np.asarray(centre + half),
        p=np.asarray(2 * stats.t.sf(abs(centre) / error, freedom)),
        detectable=np.asarray(np.nan),  # not computed: with so few boards it would be a guess
    )
    return estimate, float(max(combined.tau2, 0.0)) ** 0.5


def without_width(centre: float) -> Estimate:
    """Return the estimate of a board whose samples do not vary: its error is not known, and nothing follows."""
    point = np.asarray(centre)
    return Estimate(centre=point, low=point, high=point, p=np.asarray(1.0), detectable=np.asarray(np.nan))
