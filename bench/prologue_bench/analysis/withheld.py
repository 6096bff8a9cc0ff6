"""Reasons why there is no verdict although the samples would give one: what happened around them decides first."""

from __future__ import annotations

from collections.abc import Sequence

from prologue_bench.analysis.losses import losses_line, losses_of, unequal_losses
from prologue_bench.analysis.order import separated
from prologue_bench.analysis.series import Series
from prologue_bench.results.model import ResultSet


def why_withheld(results: ResultSet) -> dict[str, str]:
    """Return why a variant gets no verdict on any workload, the worst reason first; other variants are not in it."""
    labels = [variant.label for variant in results.campaign.variants]
    of_all = unfinished(results)
    if results.added:
        added = "; ".join(results.added)
        of_all = f"{added}: boots that are added when a report is there find differences that do not exist"
    return ({} if of_all is None else dict.fromkeys(labels, of_all)) | unequal_losses(results)


def unfinished(results: ResultSet) -> str | None:
    """Say that places of the plan were not booted yet; None if all were, though boots may be void."""
    campaign = results.campaign
    if campaign.boots_planned is None or any(boot.block is None for boot in results.boots):
        return None
    labels = {variant.label for variant in campaign.variants}
    blocks: dict[int | None, set[str]] = {}
    for boot in results.boots:
        blocks.setdefault(boot.block, set()).add(boot.variant)
    whole = sum(variants == labels for variants in blocks.values())
    if whole >= campaign.boots_planned:
        return None
    return f"unfinished: {whole} of {campaign.boots_planned} planned blocks, a number that was fixed beforehand"


def first_lines(results: ResultSet, series: Sequence[Series]) -> tuple[str, ...]:
    """Return what every report says above everything else: why there is no verdict, and the boots that were lost."""
    lines = []
    if results.campaign.evidence == "timing":
        lines = [f"NO VERDICT: {reason}" for reason in dict.fromkeys(why_withheld(results).values())]
        lines += [f"NO VERDICT: {reason}" for reason in separated_pairs(series).values()]
    counts = losses_of(results)
    if any(losses.missing for losses in counts):
        lines.append(losses_line(counts))
    return tuple(lines)


def separated_pairs(series: Sequence[Series]) -> dict[str, str]:
    """Say of each variant whose boots are in no blocks how it was separated in time from the base, the first one."""
    base, *others = series
    loose = [part for part in others if part.boots_known and not (base.in_blocks and part.in_blocks)]
    return {part.label: reason for part in loose if (reason := separated(base, part)) is not None}
