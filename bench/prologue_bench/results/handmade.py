"""Tables made by hand: samples of workloads by variant, in one JSON file, perhaps with runs that share a boot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self, cast

from prologue.documents import parse_json
from prologue_bench.errors import BenchError
from prologue_bench.results.fields import SAMPLE, Fields, is_sample, parse, read_file
from prologue_bench.results.imported import Measured, to_result_set
from prologue_bench.results.model import NOTHING, Evidence, ResultSet
from prologue_bench.results.store import read_direction

SCHEMA: Final = "prologue.bench-samples/1"


def read_samples(path: Path) -> ResultSet:
    """Read such a table; its fields are described in docs/json.md.

    Raises:
        BenchError: the file cannot be read, or a field is absent or wrong.

    """
    return decode_samples(read_file(path), str(path))


class _Written(float):
    """A number that keeps its text: 43.60 has two digits after the point."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number


def is_table(path: Path) -> bool:
    """Return whether a file is such a table, or broken JSON that may be meant as one."""
    content = read_file(path)
    try:
        data = parse_json(content)
    except (ValueError, RecursionError):
        return content.lstrip()[:1] == b"{"
    return isinstance(data, dict) and not {"results", "benchmarks"} & data.keys()


def decode_samples(content: bytes, where: str) -> ResultSet:
    """Make a result set of such a table.

    Raises:
        BenchError: a field is absent or wrong.

    """
    fields = parse(content, where, _Written)
    if fields.data.get("schema", SCHEMA) != SCHEMA:  # a table made by hand may do without
        fields.schema(SCHEMA)
    workloads = fields.rows("workloads") if "workloads" in fields.data else (fields,)
    measured = [part for workload in workloads for part in _measured(workload)]
    labels = tuple(dict.fromkeys(part.variant for part in measured))
    evidence = fields.choice("evidence", "timing", "smoke") if "evidence" in fields.data else "timing"
    results = to_result_set(
        measured,
        where,
        base=fields.choice("base", *labels) if "base" in fields.data else "",
        evidence=cast("Evidence", evidence),
    )
    machine, kernel = (fields.table(name) if name in fields.data else NOTHING for name in ("machine", "kernel"))
    campaign = replace(results.campaign, machine=machine, kernel=kernel)
    return replace(results, campaign=campaign, notes=tuple(_notes(fields, measured)))


def _measured(fields: Fields) -> Iterator[Measured]:
    """Read one workload; a list of lists has the runs of each boot."""
    label, unit, direction, samples = (
        fields.text("label"), fields.text("unit"), read_direction(fields), fields.below("samples"),
    )  # fmt: skip
    if len(samples.data) < 2:
        raise fields.wrong("samples", "at least two variants")
    for variant, values in samples.data.items():
        in_boots = isinstance(values, list) and bool(values) and all(isinstance(runs, list) for runs in values)
        boots = {str(boot): runs for boot, runs in enumerate(values)} if in_boots else {variant: values}
        read = Fields(MappingProxyType(boots), f"{samples.where}: {variant}" if in_boots else samples.where)
        for boot in boots:
            yield Measured(
                variant=variant, workload=label, unit=unit, direction=direction, values=read.numbers(boot),
                boot=boot if in_boots else None,
            )  # fmt: skip


def _places(number: str) -> int:
    """Count the decimals that a number is written with; a float has 17 digits at most."""
    digits, _, power = number.lower().partition("e")
    return min(max(len(digits.partition(".")[2]) - int(power[:6] or 0), 0), 17)


def _notes(fields: Fields, measured: Sequence[Measured]) -> list[str]:
    source = fields.optional_text("source")
    values: dict[str, tuple[float, ...]] = {}
    for part in measured:
        values[part.variant] = values.get(part.variant, ()) + part.values
    notes = [] if source is None else [f"source: {source}"]
    if "published_means" not in fields.data:
        return notes
    published = fields.below("published_means")
    for variant in published.data:
        if variant not in values:
            raise BenchError(f"{published.where}: {variant!r} has no samples")
        mean = published.data[variant]
        if isinstance(mean, bool) or not isinstance(mean, int | float) or not is_sample(mean):
            raise published.wrong(variant, SAMPLE)
        text = mean.text if isinstance(mean, _Written) else str(mean)
        places = _places(text)
        seen = math.fsum(values[variant]) / len(values[variant])
        if abs(seen - mean) > 0.51 * 10**-places:  # a half, and what binary fractions add to it
            notes.append(f"published mean of {variant}: {text}; the samples published with it give {seen:.{places}f}")
    return notes
