"""Tables made by hand: samples of one workload by variant, in one JSON file, with no word on boots."""

from __future__ import annotations

import math
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self, cast

from prologue_bench.errors import BenchError
from prologue_bench.results.fields import SAMPLE, Fields, is_sample, parse, read_file
from prologue_bench.results.model import NOTHING, Boot, Campaign, Evidence, ResultSet, Variant, Workload
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


def decode_samples(content: bytes, where: str) -> ResultSet:
    """Make a result set of such a table.

    Raises:
        BenchError: a field is absent or wrong.

    """
    fields = parse(content, where, _Written)
    if fields.data.get("schema", SCHEMA) != SCHEMA:  # a table made by hand may do without
        fields.schema(SCHEMA)
    label, samples = fields.text("label"), fields.below("samples")
    labels = tuple(samples.data)
    if len(labels) < 2:
        raise fields.wrong("samples", "at least two variants")
    values = {variant: samples.numbers(variant) for variant in labels}
    evidence = fields.choice("evidence", "timing", "smoke") if "evidence" in fields.data else "timing"
    base = fields.choice("base", *labels) if "base" in fields.data else labels[0]
    campaign = Campaign(
        evidence=cast("Evidence", evidence),
        machine=fields.table("machine") if "machine" in fields.data else NOTHING,
        kernel=fields.table("kernel") if "kernel" in fields.data else NOTHING,
        workloads=(Workload(label, label, fields.text("unit"), read_direction(fields)),),
        variants=tuple(Variant(variant) for variant in labels),
        base=base,
    )
    boots = tuple(
        Boot(
            block=None,
            position=k,
            variant=variant,
            number=k,
            started="",
            values=MappingProxyType({label: values[variant]}),
        )
        for k, variant in enumerate(labels)
    )
    return ResultSet(campaign=campaign, boots=boots, notes=tuple(_notes(fields, values)), boots_known=False)


def _places(number: str) -> int:
    """Count the decimals that a number is written with; a float has 17 digits at most."""
    digits, _, power = number.lower().partition("e")
    return min(max(len(digits.partition(".")[2]) - int(power[:6] or 0), 0), 17)


def _notes(fields: Fields, values: dict[str, tuple[float, ...]]) -> list[str]:
    source = fields.optional_text("source")
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
