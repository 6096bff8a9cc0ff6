"""``prologue protocol``: why other ways of patching are unsafe, checked with spin."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any, Final

from prologue.cli.arguments import add_json
from prologue.cli.subcommands import Subcommand, add_command, add_commands

_WIDTH: Final = 100


def add_options(group: Subcommand) -> None:
    """Give ``protocol`` its commands."""
    actions = add_commands(group)
    listing = add_command(
        actions, "list", "prologue.protocol.cli.protocol:run_list", "list the protocols and their variants",
        "  prologue protocol list\n  prologue protocol list --json",
    )  # fmt: skip
    add_json(listing, "protocols")
    check = add_command(
        actions, "check", "prologue.protocol.cli.protocol:run_check",
        "explore every state of a protocol's model; exit code 1 if it is unsafe",
        "  prologue protocol check two-writes-live\n  prologue protocol check stop-machine/not-preemptible\n"
        "  prologue protocol check mov-at-boot --all-variants --barriers",
    )  # fmt: skip
    _add_name(check)
    check.add_argument("--all-variants", action="store_true", help="check every variant of the protocol")
    check.add_argument(
        "--barriers", action="store_true", help="also take every barrier out of safe ones, one at a time"
    )
    add_json(check, "protocol-check")
    explain = add_command(
        actions, "explain", "prologue.protocol.cli.protocol:run_explain",
        "say what a protocol does, and what its variants show",
        "  prologue protocol explain call-ops\n  prologue protocol explain mov-at-boot --promela > model.pml",
    )  # fmt: skip
    _add_name(explain)
    explain.add_argument("--promela", action="store_true", help="print the model that spin checks instead")


def _add_name(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME[/VARIANT]", help="a protocol as proposed, or one of its variants")


def run_list(args: argparse.Namespace) -> int:
    """List all protocols."""
    from prologue.protocol.form import load_protocol, protocol_names

    protocols = [load_protocol(name) for name in protocol_names()]
    if args.json:
        rows = [
            {"name": p.name, "title": p.title,
             "variants": [{"name": v.name, "says": v.says, "expected": v.expect} for v in p.variants]}
            for p in protocols
        ]  # fmt: skip
        print(json.dumps({"schema": "prologue.protocols/1", "protocols": rows}, indent=2))
        return 0
    width = max(len(variant.name) for protocol in protocols for variant in protocol.variants)
    for protocol in protocols:
        print(f"{protocol.name}: {protocol.title}")
        for variant in protocol.variants:
            supposed = ", assuming unlisted changes are allowed" if variant.model.either else ""
            print(f"  {variant.name:<{width}}  {variant.expect}{supposed}")
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Check one variant, or all; 1 if one of them is unsafe."""
    from prologue.protocol.form import barriers_of, find_variant, load_protocol
    from prologue.protocol.spin import check_model

    protocol, chosen = find_variant(args.name)
    variants = load_protocol(protocol.name).variants if args.all_variants else (chosen,)
    results = []
    for variant in variants:
        outcome = check_model(variant.model)
        barriers = []
        if args.barriers and not outcome.reason:
            barriers = [(barrier, check_model(barrier.without).reason) for barrier in barriers_of(variant)]
        results.append(_result(protocol.name, variant, outcome, barriers))
        if not args.json and not (args.quiet and not outcome.reason):
            _print_result(results[-1], variant.model, outcome)
    if args.json:
        print(json.dumps({"schema": "prologue.protocol-check/1", "results": results}, indent=2))
    return 0 if all(result["safe"] for result in results) else 1


def _result(protocol: str, variant: Any, outcome: Any, barriers: list[Any]) -> dict[str, Any]:
    from prologue.protocol.trail import events_of, why

    model = variant.model
    return {
        "protocol": protocol, "variant": variant.name, "safe": not outcome.reason,
        "reason": outcome.reason or None, "why": why(model, outcome) or None,
        "expected": variant.expect, "states": outcome.states, "depth": outcome.depth,
        "bounds": {
            "cpus": model.cpus, "tasks": [task.name for task in model.tasks], "preempt": model.preempt,
            "off_list_changes": "old or new" if model.either else "unpredictable", "promises": sorted(model.promises),
        },
        "events": [
            {"cpu": e.cpu, "task": e.task or None, "text": e.text, "step": e.step or None}
            for e in events_of(model, outcome)
        ],
        "barriers": [
            {"name": b.name, "needed": bool(reason), "reason": reason or None, "spare": b.spare or None}
            for b, reason in barriers
        ],
    }  # fmt: skip


def _print_result(result: dict[str, Any], model: Any, outcome: Any) -> None:
    from prologue.protocol.trail import events_of, table

    bounds = result["bounds"]
    verdict = "safe" if result["safe"] else f"UNSAFE ({result['reason']})"
    print(f"{result['protocol']}/{result['variant']}: {verdict}")
    if bounds["off_list_changes"] != "unpredictable":
        print("  assumed: a word off the CMODX list may change live as if it were on it")
    kernel = "preemptible" if bounds["preempt"] else "not preemptible"
    print(f"  {result['states']:,} states, depth {result['depth']}; {bounds['cpus']} CPUs, {kernel}, "
          f"tasks: {', '.join(bounds['tasks'])}; promises: {', '.join(bounds['promises'])}")  # fmt: skip
    if not result["safe"]:
        print()
        print(textwrap.indent(table(model, events_of(model, outcome)), "  "))
        print(f"\n  {result['why']}\n")
    for barrier in result["barriers"]:
        outcome_text = f"without it: {barrier['reason']}" if barrier["needed"] else f"not needed: {barrier['spare']}"
        print(f"  {barrier['name']}: {outcome_text}")


def run_explain(args: argparse.Namespace) -> int:
    """Explain a protocol, or print a model."""
    from prologue.protocol.form import find_variant
    from prologue.protocol.promela import translate

    protocol, chosen = find_variant(args.name)
    if args.promela:
        print(translate(chosen.model))
        return 0
    print(f"{protocol.name}: {protocol.title}\n")
    print(textwrap.fill(protocol.explain, _WIDTH))
    for variant in protocol.variants:
        print(f"\n{variant.name} ({variant.expect})")
        print(textwrap.fill(variant.says, _WIDTH, initial_indent="  ", subsequent_indent="  "))
    print(f"\nprograms of {chosen.name}:")
    model = chosen.model
    for name, program in (("shared code", model.code), *((task.name, task.program) for task in model.tasks)):
        print(f"  {name}")
        step = ""
        for line in program:
            if line.step and line.step != step:
                print(f"      {line.step}")
            step = line.step
            labels = " ".join(f"{label}:" for label in line.labels)
            print(f"    {labels:<10}{'  ' if line.step else ''}{line.operation}")
    print("\nsources:")
    for source in protocol.sources:
        print(f"  {source}")
    return 0
