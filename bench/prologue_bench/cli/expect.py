"""``prologue bench expect``: what models of cores say that a MOV costs, and the campaign that decides it."""

from __future__ import annotations

import argparse
import json
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from prologue.cli.arguments import number_from
from prologue.cli.trace_notes import print_notes
from prologue.words import counted
from prologue_bench.cli.common import add_margin, percent
from prologue_bench.model.effects import CampaignSize, CoreEffects, Expected, expect, plan_campaign
from prologue_bench.model.executed_code import WINDOW, ExecutedCode, read_executed_code
from prologue_bench.model.pipeline import IN_ORDER, Pipelines

SCHEMA: Final = "prologue.bench-expect/1"
_CORES: Final = "a53,a57,n1"
_VARY: Final = 0.003


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    added.add_argument("trace", metavar="TRACE", help="what the kernel executed, as for trace stats: best one CPU")
    added.add_argument("--vmlinux", type=Path, required=True, metavar="VMLINUX", help="the kernel of the trace")
    added.add_argument("--memory", metavar="SOURCE", help="where the text is read from: as for trace stats")
    added.add_argument(
        "--cores", default=_CORES, metavar="CORE,...",
        help=f"by LLVM's names, such as cortex-a76, or a76 (default: {_CORES})",
    )  # fmt: skip
    added.add_argument(
        "--boots-vary", type=percent, default=_VARY, metavar="PERCENT",
        help=f"standard deviation of boots of one kernel, as your board has it (default: {100 * _VARY:g})",
    )  # fmt: skip
    added.add_argument(
        "--layouts-vary", type=percent, default=_VARY, metavar="PERCENT",
        help=f"and of the effect between layouts, as bench compare has it (default: {100 * _VARY:g})",
    )  # fmt: skip
    added.add_argument("--boots", type=number_from(1), default=3, metavar="N", help="blocks a link (default: 3)")
    add_margin(added)
    added.add_argument("--json", action="store_true", help=f"print JSON (schema {SCHEMA})")


def run(args: Namespace) -> int:
    """Run the models, and print a row for each core."""
    pipelines = Pipelines()
    cores = [pipelines.core(name) for name in args.cores.split(",")]
    code = read_executed_code(args.trace, args.vmlinux, args.memory)
    effects = [expect(code, core, pipelines) for core in cores]
    campaign = plan_campaign(
        args.margin, boots_vary=args.boots_vary, layouts_vary=args.layouts_vary, pairs=args.boots
    )  # fmt: skip
    if args.json:
        print(json.dumps(_document(args, code, effects, campaign, pipelines.version), indent=2))
        return 0
    print("\n".join(_text(args, code, effects, campaign, pipelines.version)))
    print_notes(_notes(code))
    return 0


def _notes(code: ExecutedCode) -> list[str]:
    """Say what of the trace was not used, and that the text is not what ran."""
    if not (code.impossible or code.left_out):
        return []
    return [
        f"warning: the text is not what ran ({counted(code.impossible, 'impossible step')}, "
        f"{counted(code.left_out, 'instruction')} left out): give --memory; prologue trace check names the words"
    ]


def _text(
    args: Namespace, code: ExecutedCode, effects: list[CoreEffects], campaign: CampaignSize | None, version: str
) -> list[str]:
    lines = [
        f"{args.trace}: {counted(code.instructions, 'instruction')}, {code.of_kernel:,} of the kernel; "
        f"{counted(code.prologues, 'first slot')} executed, {100 * code.share:.2f}% of all",
        f"Models of {version}, on {counted(len(code.windows), 'window')} of {WINDOW:,} of the kernel's instructions as "
        "they ran; caches and predictions never miss there:",
        "",
        f"{'core':<14} {'issue':>15} {'IPC':>6}  {'MOV for the NOP':>17} {'both NOPs':>17} {'MOV and NOP':>17}",
    ]
    for core in effects:
        issue = f"{core.width}, {'in order' if core.core in IN_ORDER else 'out of order'}"
        columns = " ".join(f"{_percents(effect):>17}" for effect in (core.mov_for_nop, core.nops, core.mov_and_nop))
        lines.append(f"{core.core:<14} {issue:>15} {core.ipc:>6.2f}  {columns}")
    lines += [
        "",
        "Cycles of the kernel: the first against the NOP that stands there, the others against no patch sites at all.",
        *(f"{core.core}: its model does not know {100 * core.skipped:.2f}% of these instructions: left out"
          for core in effects if core.skipped),
        "",
        *_plan(args, effects, campaign),
    ]  # fmt: skip
    return lines


def _plan(args: Namespace, effects: list[CoreEffects], campaign: CampaignSize | None) -> list[str]:
    assumed = (
        f"if boots vary by {100 * args.boots_vary:g}% and the effect by {100 * args.layouts_vary:g}% between layouts"
    )
    margin = f"a margin of {100 * args.margin:g}%"
    if campaign is None:
        return [f"No campaign of a sensible size decides {margin}, {assumed}."]
    return [
        f"To decide {margin} on a board, {assumed}: {counted(campaign.links, 'link')}, "
        f"{counted(campaign.pairs, 'block')} on each, {counted(campaign.boots, 'boot')} with the control.",
        "",
        f"  prologue bench links linux/out -n {campaign.links} -o links/",
        *(f"  {_command(core.core, campaign)}" for core in effects),
    ]


def _command(core: str, campaign: CampaignSize) -> str:
    name = core.rpartition("-")[2]
    return (
        f"prologue bench run --links links/ --variants nop-nop,boot --target ssh:root@{name} --governor performance "
        f"--workload hackbench:process,sockets,g=10,l=1000 --boots {campaign.pairs} --runs 3 --seed 7 -o {name}/"
    )


def _document(
    args: Namespace, code: ExecutedCode, effects: list[CoreEffects], campaign: CampaignSize | None, version: str
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "trace": args.trace,
        "model": version,
        "instructions": code.instructions,
        "of_kernel": code.of_kernel,
        "prologues": code.prologues,
        "left_out": code.left_out,
        "steps_impossible": code.impossible,
        "windows": len(code.windows),
        "window": WINDOW,
        "cores": [
            {"core": core.core, "width": core.width, "in_order": core.core in IN_ORDER, "ipc": core.ipc,
             "skipped": core.skipped, "mov_for_nop": _interval(core.mov_for_nop), "nops": _interval(core.nops),
             "mov_and_nop": _interval(core.mov_and_nop),
             "command": None if campaign is None else _command(core.core, campaign)}
            for core in effects
        ],
        "margin": args.margin,
        "boots_vary": args.boots_vary,
        "layouts_vary": args.layouts_vary,
        "links": None if campaign is None else campaign.links,
        "boots": None if campaign is None else campaign.boots,
    }  # fmt: skip


def _interval(expected: Expected) -> dict[str, float | None]:
    return {"effect": expected.effect, "half": expected.half}


def _percents(expected: Expected) -> str:
    return f"{100 * expected.effect:+.2f}%" + ("" if expected.half is None else f" ± {100 * expected.half:.2f}")
