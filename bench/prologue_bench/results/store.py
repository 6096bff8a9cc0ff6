"""Result sets on disk.

A result set is a directory: ``campaign.json`` is written once, before the first boot; ``results.jsonl`` gets one line
for each boot that finished, and nothing in it is ever changed. The format is described in docs/json.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from prologue_bench.errors import BenchError
from prologue_bench.results.append_only import split_lines, torn_note
from prologue_bench.results.counters import decode_counters, encode_counters
from prologue_bench.results.fields import Fields, parse, read_file
from prologue_bench.results.model import (
    NOTHING,
    UNKNOWN_PATTERN,
    Boot,
    Campaign,
    Direction,
    Evidence,
    Readback,
    ResultSet,
    Variant,
    Workload,
    contradiction,
)
from prologue_bench.results.settings import void_unlike

CAMPAIGN_SCHEMA: Final = "prologue.bench-campaign/1"
BOOT_SCHEMA: Final = "prologue.bench-boot/1"
CAMPAIGN: Final = "campaign.json"
RESULTS: Final = "results.jsonl"
LOGS: Final = "logs"


def read_results(directory: Path) -> ResultSet:
    """Read a result set.

    The last line of ``results.jsonl`` may be torn, because its writer was killed: it is left out, with a note. A boot
    whose settings differ from those of earlier boots becomes void, whatever its writer thought of it.

    Raises:
        BenchError: a file is missing or damaged (with its name and line), or the same boot is in it twice.

    """
    path = directory / RESULTS
    campaign = decode_campaign(parse(read_file(directory / CAMPAIGN), str(directory / CAMPAIGN)))
    lines, torn = split_lines(read_file(path))
    boots = void_unlike([decode_boot(parse(line, f"{path}:{k}"), campaign) for k, line in lines])
    _require_distinct(boots, path)
    seeds = () if campaign.seed is None else (campaign.seed,)
    notes = (torn_note(path),) if torn else ()
    return ResultSet(campaign=campaign, boots=boots, notes=notes, seeds=seeds)


def boot_log(directory: Path, number: int) -> Path:
    """Return the path of a boot's log in a result set; other files of that boot lie beside it."""
    return directory / LOGS / f"boot-{number:04d}.log"


def _require_distinct(boots: Sequence[Boot], path: Path) -> None:
    numbers: dict[int, int] = {}
    places: dict[tuple[int, int], int] = {}
    boards: dict[int, tuple[str | None, int]] = {}
    for line, boot in enumerate(boots, 1):
        if (first := numbers.setdefault(boot.number, line)) != line:
            raise BenchError(f"{path}:{line}: boot {boot.number} is already in line {first}")
        # A void boot is repeated at its place.
        if boot.void is not None or boot.block is None:
            continue
        if (first := places.setdefault((boot.block, boot.position), line)) != line:
            raise BenchError(f"{path}:{line}: block {boot.block}, position {boot.position} is already in line {first}")
        board, first = boards.setdefault(boot.block, (boot.board, line))
        if board != boot.board:  # their difference would be that of two boards
            raise BenchError(
                f"{path}:{line}: block {boot.block} is of board {boot.board}, but in line {first} of board {board}"
            )


def decode_campaign(fields: Fields) -> Campaign:
    """Make a campaign of what ``campaign.json`` holds.

    Raises:
        BenchError: a field is absent or wrong.

    """
    fields.schema(CAMPAIGN_SCHEMA)
    workloads = decode_workloads(fields)
    variants = tuple(
        Variant(
            row.text("label"), row.choice("kind", "nop-nop", "boot", "build"), row.text("image_sha256"),
            row.integer("words"),
        )
        for row in fields.rows("variants")
    )  # fmt: skip
    for name, values in (("workloads", [w.name for w in workloads]), ("variants", [v.label for v in variants])):
        if len(set(values)) < len(values):
            raise BenchError(f"{fields.where}: {name}: the same name twice")
    labels = [variant.label for variant in variants]
    base, aa = fields.choice("base", *labels), fields.optional_text("aa")
    if aa is not None:
        _require_control(fields, variants, base, aa)
    return Campaign(
        evidence=cast("Evidence", fields.choice("evidence", "exact", "timing", "smoke")),
        machine=fields.table("machine"),
        kernel=fields.table("kernel"),
        workloads=workloads,
        variants=variants,
        base=base,
        aa=aa,
        seed=fields.integer("seed"),
        boots_planned=fields.integer("boots_planned"),
        runs_per_boot=fields.integer("runs_per_boot"),
        same_link=fields.texts("same_link"),
        command=fields.optional_text("command"),
    )


def _require_control(fields: Fields, variants: tuple[Variant, ...], base: str, aa: str) -> None:
    """Check that an A/A control is the base's own image under another label."""
    images = {variant.label: variant.image_sha256 for variant in variants}
    if aa not in images or aa == base:
        raise fields.wrong("aa", "the label of another variant than the base, or null")
    if images[aa] != images[base]:
        raise BenchError(f"{fields.where}: aa: {aa!r} is not the same image as the base {base!r}")


def decode_workloads(fields: Fields) -> tuple[Workload, ...]:
    """Make workloads of the field of that name."""
    return tuple(map(decode_workload, fields.rows("workloads")))


def decode_workload(fields: Fields) -> Workload:
    """Make a workload of its fields; plans did not always say their patterns."""
    pattern = fields.optional_text("pattern") if "pattern" in fields.data else UNKNOWN_PATTERN
    return Workload(
        fields.text("name"), fields.text("command"), fields.text("unit"), read_direction(fields), pattern=pattern
    )  # fmt: skip


def read_direction(fields: Fields) -> Direction:
    """Read the better direction."""
    return cast("Direction", fields.choice("direction", "lower", "higher"))


def decode_boot(fields: Fields, campaign: Campaign) -> Boot:
    """Make a boot of one line of ``results.jsonl``.

    A boot whose read-back contradicts its variant becomes void, whatever its writer thought of it.

    Raises:
        BenchError: a field is absent or wrong, or not of this campaign.

    """
    fields.schema(BOOT_SCHEMA)
    variant = fields.choice("variant", *(variant.label for variant in campaign.variants))
    values = fields.below("values")
    known = {workload.name for workload in campaign.workloads}
    if unknown := sorted(set(values.data) - known):
        raise BenchError(f"{values.where}: {unknown[0]!r} is not a workload of this campaign")
    blank = Boot(
        block=fields.optional_integer("block"),
        position=fields.integer("position"),
        variant=variant,
        number=fields.integer("boot"),
        started="",
        values=NOTHING,
        board=fields.optional_text("board"),
    )
    boot = decode_measured(fields, blank, campaign.workloads)
    reason = None if boot.void is not None else contradiction(boot, campaign)
    return boot if reason is None else replace(boot, void=reason)


def decode_measured(fields: Fields, boot: Boot, workloads: Sequence[Workload]) -> Boot:
    """Return a boot with what its line says of it; ``encode_measured`` wrote that.

    Raises:
        BenchError: a field is absent or wrong.

    """
    void, values, gate = fields.optional_text("void"), fields.below("values"), fields.below("gate")
    # A void boot may have ended before all workloads were run.
    names = [workload.name for workload in workloads if void is None or workload.name in values.data]
    return replace(
        boot,
        started=_time(fields),
        values=MappingProxyType({name: values.numbers(name) for name in names}),
        readback=_decode_readback(fields),
        gate_before=gate.below("before").data,
        gate_after=gate.below("after").data,
        void=void,
        counters=decode_counters(fields),
    )


def _time(fields: Fields) -> str:
    text = fields.text("started")
    try:
        datetime.fromisoformat(text)
    except ValueError as error:
        raise fields.wrong("started", "an ISO 8601 time") from error
    return text


def _decode_readback(fields: Fields) -> Readback | None:
    if fields.data.get("readback") is None:
        return None
    row = fields.below("readback")
    return Readback(row.text("build_id"), row.integer("sites"), row.integer("mov"), row.integer("nop"))


def encode_campaign(campaign: Campaign) -> str:
    """Write the text of ``campaign.json``."""
    data = {
        "schema": CAMPAIGN_SCHEMA,
        "evidence": campaign.evidence,
        "machine": dict(campaign.machine),
        "kernel": dict(campaign.kernel),
        "workloads": list(map(asdict, campaign.workloads)),
        "variants": list(map(asdict, campaign.variants)),
        "base": campaign.base,
        "aa": campaign.aa,
        "seed": campaign.seed,
        "boots_planned": campaign.boots_planned,
        "runs_per_boot": campaign.runs_per_boot,
        "same_link": list(campaign.same_link),
        "command": campaign.command,
    }
    return json.dumps(data, indent=2) + "\n"


def encode_boot(boot: Boot) -> str:
    """Write one line of ``results.jsonl``, with its end."""
    data = {
        "schema": BOOT_SCHEMA,
        "block": boot.block,
        "position": boot.position,
        "variant": boot.variant,
        "boot": boot.number,
        "board": boot.board,
    }
    return json.dumps(data | encode_measured(boot)) + "\n"


def encode_measured(boot: Boot) -> dict[str, Any]:
    """Return the fields that lines of result sets and of record files have in common."""
    counters = {"counters": encode_counters(boot.counters)} if boot.counters else {}
    values = {name: list(samples) for name, samples in boot.values.items()}
    return {"started": boot.started, "values": values, **encode_machine(boot), "void": boot.void, **counters}


def encode_machine(boot: Boot) -> dict[str, Any]:
    """Return the fields with what the machine said of itself in a boot."""
    return {
        "readback": None if boot.readback is None else asdict(boot.readback),
        "gate": {"before": dict(boot.gate_before), "after": dict(boot.gate_after)},
    }
