"""A comparison for programs: JSON with all samples. Nothing is rounded."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from prologue_bench.analysis.boards import Boards, GroupEffect
from prologue_bench.analysis.compare import Comparison, Report, WorkloadReport
from prologue_bench.analysis.layouts import LayoutEffects
from prologue_bench.analysis.losses import losses_of
from prologue_bench.analysis.series import Series
from prologue_bench.analysis.stats import ALPHA, FLIPS, LEAST, LEVEL, POWER, SEED
from prologue_bench.results.model import ResultSet

SCHEMA: Final = "prologue.bench-compare/1"


def to_json(report: Report) -> str:
    """Write everything as JSON, with raw samples; described in docs/json.md."""
    return json.dumps({"schema": SCHEMA, **_document(report)}, indent=2) + "\n"


def setup(results: ResultSet) -> dict[str, Any]:
    """Return the setup that was compared: every JSON report of a result set begins with it."""
    campaign = results.campaign
    return {
        "evidence": campaign.evidence,
        "machine": dict(campaign.machine),
        "kernel": dict(campaign.kernel),
        "same_link": list(campaign.same_link),
        "seeds": list(results.seeds),
        "base": campaign.base,
        "aa": campaign.aa,
        "boots_known": results.boots_known,
        "boards": list(results.boards),
        "links": list(results.links),
        "voids": [{"boot": boot.number, "variant": boot.variant, "reason": boot.void} for boot in results.voids],
        "losses": [asdict(losses) for losses in losses_of(results)],
        "notes": list(results.notes),
    }


def _document(report: Report) -> dict[str, Any]:
    settings = {
        "margin": report.margin, "level": LEVEL, "alpha": ALPHA, "power": POWER, "least_pairs": LEAST,
        "resampling_seed": SEED, "random_flips": FLIPS,
    }  # fmt: skip
    return {
        **setup(report.results),
        "first_lines": list(report.first_lines),
        "settings": settings,
        "workloads": [_workload(w, report.margin) for w in report.workloads],
    }


def _workload(report: WorkloadReport, margin: float) -> dict[str, Any]:
    return {
        **{name: getattr(report.workload, name) for name in ("name", "command", "unit", "direction")},
        "aa_difference": report.floor,
        "base_spread": report.base_spread,
        "trend": None if report.trend is None else asdict(report.trend),
        "variants": [_variant(series) for series in report.series],
        "comparisons": [_comparison(comparison, margin) for comparison in report.comparisons],
    }


def _variant(series: Series) -> dict[str, Any]:
    boots = [
        {
            "boot": boot.number if series.boots_known else None,
            "block": boot.block,
            "board": boot.board,
            "link": boot.link,
            "started": boot.started or None,
            "samples": runs.tolist(),
        }
        for boot, runs in zip(series.boots, series.runs, strict=True)
    ]
    return {"label": series.label, "median": series.median, "boots": boots}


def _comparison(comparison: Comparison, margin: float) -> dict[str, Any]:
    effect = comparison.effect
    row: dict[str, Any] = {
        "variant": comparison.variant,
        "verdict": comparison.verdict,
        "within_margin": comparison.within_margin,
        "reason": comparison.reason,
        "units": comparison.units,
        "difference": comparison.difference,
    }
    for name in ("ratio", "low", "high", "p", "test", "detectable"):
        row[name] = None if effect is None else getattr(effect, name)
    boards = None if comparison.boards is None else _boards(comparison.boards)
    links = None if comparison.layouts is None else _layouts(comparison.layouts, margin)
    robust = comparison.robust
    row["robust"] = None if robust is None else {name: getattr(robust, name) for name in ("ratio", "low", "high", "p")}
    return {**row, "boards": boards, "links": links, "differences": dict(comparison.differences)}


def _layouts(layouts: LayoutEffects, margin: float) -> dict[str, Any]:
    parts = [_part("link", part) | {"different": part.different} for part in layouts.parts]
    return {
        "parts": parts, "spread": layouts.spread, "deviation": layouts.deviation, "to_decide": layouts.to_decide(margin)
    }  # fmt: skip


def _boards(boards: Boards) -> dict[str, Any]:
    parts = [_part("board", part) for part in boards.parts]
    return {"used": list(boards.used), "spread": boards.spread, "parts": parts}


def _part(noun: str, part: GroupEffect) -> dict[str, Any]:
    return {noun: part.name, "units": part.units, "ratio": part.ratio, "low": part.low, "high": part.high}
