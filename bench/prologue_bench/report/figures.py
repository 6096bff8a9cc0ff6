"""Figures for a patch's mail: one line each, and beside it the kernel, compiler, machine and file that it is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from prologue_bench.analysis.compare import Comparison, Report, WorkloadReport
from prologue_bench.errors import BenchError
from prologue_bench.report import words
from prologue_bench.report.layout import wrapped
from prologue_bench.results.model import Campaign

SCHEMA: Final = "prologue.bench-figures/1"


def to_figures(report: Report, files: list[str]) -> str:
    """Write each comparison but the control as a figure; what is above a report stands above these, too.

    Raises:
        BenchError: the evidence gives no figure.

    """
    campaign = report.results.campaign
    if campaign.evidence == "smoke":
        raise BenchError("--for-mail: smoke evidence gives no figure: it measures the translator")
    source = {
        "kernel": dict(campaign.kernel),
        "compiler": _compiler(report),
        "machine": dict(campaign.machine),
        "files": [str(Path(name)) for name in files],
        "command": campaign.command,
    }
    figures = [
        _figure(part, comparison, report.margin) | source
        for part in report.workloads
        for comparison in part.comparisons
        if comparison is not part.control
    ]
    lines = [
        *report.first_lines,
        *(str(figure["text"]) for figure in figures),
        _origin(campaign, _compiler(report), files),
    ]
    text = [line for sentence in lines for line in wrapped(sentence)]
    return json.dumps({"schema": SCHEMA, "lines": text, "figures": figures}, indent=2) + "\n"


def _compiler(report: Report) -> str | None:
    """Return what the running kernels said; all agree, or boots would be void."""
    said_by = (boot.gate_before.get("compiler") for boot in report.results.boots if boot.void is None)
    return next((str(text) for text in said_by if text), None)


def _figure(part: WorkloadReport, comparison: Comparison, margin: float) -> dict[str, Any]:
    base, effect = part.series[0].label, comparison.effect
    if comparison.exact:
        value = words.exact_change(comparison)
        text = f"{part.workload.name}: {comparison.variant} against {base}: {value} {part.workload.unit} (exact counts)"
    else:
        value = "" if effect is None else f" {words.change(effect)}"
        text = f"{part.workload.name}, against {base}{value}: {words.verdict(part, comparison, margin)}"
    return {
        "text": text,
        "workload": part.workload.name,
        "unit": part.workload.unit,
        "variant": comparison.variant,
        "base": base,
        "verdict": comparison.verdict,
        "units": comparison.units,
        "difference": comparison.difference,
        **{name: getattr(effect, name) if effect else None for name in ("ratio", "low", "high", "p")},
    }


def _origin(campaign: Campaign, compiler: str | None, files: list[str]) -> str:
    parts = [*words.setup_facts(campaign), f"compiler: {compiler or 'not recorded'}", f"samples: {', '.join(files)}"]
    return "; ".join(parts)
