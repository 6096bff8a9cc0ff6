"""Reads what other programs measured: hyperfine's and pyperf's JSON, CSV with a head, and text of benchmarks.

What has means only is refused: from a mean and a deviation nothing can be said of the boots.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from prologue_bench.errors import BenchError
from prologue_bench.results.fields import Fields, parse, read_file
from prologue_bench.results.imported import BY_HAND, Measured, require_samples, to_result_set
from prologue_bench.results.model import ResultSet

FORMS: Final = (
    "CSV with a head, hyperfine's or pyperf's JSON, Go's benchmarks, output of hackbench or perf bench messaging"
)
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "variant": ("variant", "label", "kernel", "branch", "command"),
    "workload": ("workload", "benchmark", "test", "name"),
    "value": ("value", "sample", "seconds", "time", "time_s", "elapsed"),
    "unit": ("unit",),
    "direction": ("direction",),
    "boot": ("boot",),
    "block": ("block",),
    "started": ("started",),
}
_MEANS: Final = ("mean", "avg", "average", "amean", "hmean", "stddev", "median")
# Lines of text, as (pattern of a number, what it is of, unit); the time of a shell's `time` is minutes and seconds.
_HACKBENCH: Final = re.compile(r"^Time:\s*([0-9]+\.[0-9]+)\s*$")
_MESSAGING: Final = re.compile(r"^\s*Total time:\s*([0-9]+\.[0-9]+) \[sec\]")
_SHELL_TIME: Final = re.compile(r"^real\s+(?:([0-9]+)m)?([0-9]+\.[0-9]+)s?\s*$")
_SETUP: Final = re.compile(r"^Running in (\w+) mode with (\d+) groups using (\d+) file descriptors")
_GO: Final = re.compile(r"^Benchmark(\S*)\s+\d+\s+(\S.*)$")
_GO_UNIT: Final = re.compile(r"^Unit (\S+) better=(lower|higher)$")
_SUMMARY: Final = re.compile(r"^(?:[AHG]mean|Min|Stddev|CoeffVar)\s+\S+|\u00b1\s*\d+%")


def read_foreign(named: Sequence[tuple[str, Path]]) -> ResultSet:
    """Read files, each given with its label, or with an empty one if the user named none.

    Several files of one label are a boot each. One file alone has all variants.

    Raises:
        BenchError: a file cannot be read, is of no form that is known, has means only, or says too little.

    """
    where = ", ".join(str(path) for _, path in named)
    several = len(named) > 1
    labels = [label or path.stem for label, path in named]
    boots = min(map(labels.count, labels)) > 1
    measured: list[Measured] = []
    for k, (label, (_, path)) in enumerate(zip(labels, named, strict=True)):
        read = list(_read(path, label if several else ""))
        if several and (variants := {part.variant for part in read} - {label}):
            raise BenchError(f"{path}: has variants of its own ({', '.join(sorted(variants))}): name it alone")
        measured += [replace(part, boot=str(k)) if boots and part.boot is None else part for part in read]
    return replace(to_result_set(measured, where), notes=(f"samples taken by other programs: {where}",))


def _read(path: Path, label: str) -> Iterator[Measured]:
    """Read one file; without a label it says itself which variants it has."""
    content = read_file(path)
    text = content.decode("utf-8", "replace").lstrip("\ufeff")
    if text.lstrip().startswith(("{", "[")):
        return _read_json(parse(content, str(path)), label, path)
    read = _read_go(text, label or path.stem, path) or _read_text(text, label or path.stem, path)
    if read:
        return iter(read)
    if any(_SUMMARY.search(line) for line in text.splitlines()):
        raise _means_only(path, "a summary")
    head = text.partition("\n")[0]
    if "," in head or "\t" in head:
        return _read_csv(text, label, path)
    raise BenchError(f"{path}: is none of {FORMS}; {BY_HAND}")


def _means_only(path: Path, what: str) -> BenchError:
    return BenchError(f"{path}: {what} has means only, and nothing of single runs or boots can be said; {BY_HAND}")


def _read_json(fields: Fields, label: str, path: Path) -> Iterator[Measured]:
    if "results" in fields.data:
        return _read_hyperfine(fields, label, path)
    if "benchmarks" in fields.data:
        return _read_pyperf(fields, label or path.stem, path)
    raise BenchError(f"{path}: JSON that is neither hyperfine's nor pyperf's; {BY_HAND}")


def _read_hyperfine(fields: Fields, label: str, path: Path) -> Iterator[Measured]:
    """Read ``hyperfine --export-json``: in one file alone the commands are the variants, otherwise workloads."""
    for result in fields.rows("results"):
        command = result.text("command")
        if not result.data.get("times"):
            raise _means_only(path, f"{command}, without times,")
        values = require_samples(result.numbers("times"), f"{path}: {command}")
        variant, workload = (label, command) if label else (command, "hyperfine")
        yield Measured(variant=variant, workload=workload, unit="seconds", values=values)


def _read_pyperf(fields: Fields, label: str, path: Path) -> Iterator[Measured]:
    """Read a suite of pyperf; the values of all its processes, without warm-ups and calibration."""
    shared = _metadata(fields)
    for benchmark in fields.rows("benchmarks"):
        metadata = shared | _metadata(benchmark)
        name = str(metadata.get("name", "benchmark"))
        lists = [run.numbers("values") for run in benchmark.rows("runs") if run.data.get("values")]
        values = require_samples([value for values in lists for value in values], f"{path}: {name}")
        unit = {"second": "seconds", "byte": "bytes"}.get(
            str(metadata.get("unit", "second")), str(metadata.get("unit"))
        )
        yield Measured(variant=label, workload=name, unit=unit, values=values)


def _metadata(fields: Fields) -> dict[str, Any]:
    return dict(fields.below("metadata").data) if "metadata" in fields.data else {}


def _read_csv(text: str, label: str, path: Path) -> Iterator[Measured]:
    """Read a table with a head: a row for each run, with its value and what else the columns say."""
    dialect = "excel-tab" if "\t" in text.partition("\n")[0] else "excel"
    reader = csv.DictReader(io.StringIO(text), dialect=dialect)
    head = {name.strip().lower(): name for name in reader.fieldnames or ()}
    columns = {
        role: head[next(n for n in names if n in head)] for role, names in _COLUMNS.items() if set(names) & {*head}
    }
    if "value" not in columns:
        if means := [name for name in _MEANS if name in head]:
            raise _means_only(path, f"a table with {means[0]!r} and no value of each run")
        raise BenchError(f"{path}: no column 'value' (the head is {', '.join(head)}); {BY_HAND}")
    seconds = columns["value"].strip().lower() != "value" and "unit" not in columns
    for number, row in enumerate(reader, 2):
        cell = {role: (row[name] or "").strip() for role, name in columns.items()}
        variant = cell.get("variant") or label
        if not variant:
            raise BenchError(f"{path}:{number}: which variant? no column 'variant'; {BY_HAND}")
        try:
            value = float(cell["value"])
        except ValueError as error:
            raise BenchError(
                f"{path}:{number}: {columns['value']}: expected a number, found {cell['value']!r}"
            ) from error
        yield Measured(
            variant=variant, workload=cell.get("workload") or path.stem,
            unit=cell.get("unit") or ("seconds" if seconds else "?"), direction=cell.get("direction", ""),
            values=require_samples([value], f"{path}:{number}"), boot=cell.get("boot") or None,
            block=cell.get("block") or None, started=cell.get("started", ""),
        )  # fmt: skip


def _read_go(text: str, label: str, path: Path) -> list[Measured]:
    """Read Go's benchmark format, which benchstat reads: every line is a run, with pairs of a value and its unit."""
    better = {match[1]: match[2] for line in text.splitlines() if (match := _GO_UNIT.match(line))}
    measured = []
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _GO.match(line)) is None:
            continue
        benchmark, _, variant = match[1].partition("/variant=")
        words = match[2].split()
        for value, unit in zip(words[::2], words[1::2], strict=False):
            name = benchmark if unit in ("ns/op", "sec/op") else f"{benchmark}, {unit}"
            try:
                values = require_samples([float(value)], f"{path}:{number}")
            except ValueError as error:
                raise BenchError(f"{path}:{number}: expected a number, found {value!r}") from error
            measured.append(
                Measured(
                    variant=variant or label, workload=name, unit=unit, values=values, direction=better.get(unit, "")
                )
            )
    return measured


def _read_text(text: str, label: str, path: Path) -> list[Measured]:
    """Read the output of benchmarks as a terminal shows it, any number of runs."""
    setup, measured = "", []
    for line in text.splitlines():
        if match := _SETUP.match(line):
            setup = f" {match[1]} mode, {match[2]} groups, {match[3]} descriptors each"
        for pattern, name in _NUMBERS.items():
            if match := pattern.match(line):
                value = float(match[match.lastindex or 1]) + 60 * float(
                    match[1] if match.lastindex == 2 and match[1] else 0
                )
                values = require_samples([value], str(path))
                measured.append(Measured(variant=label, workload=name(setup), unit="seconds", values=values))
    timed = [part for part in measured if part.workload != "time"]
    return timed or measured  # a shell's `time` of a benchmark that times itself says the same once more


_NUMBERS: Final[dict[re.Pattern[str], Callable[[str], str]]] = {
    _HACKBENCH: lambda setup: f"hackbench{setup}",
    _MESSAGING: lambda _: "perf bench sched messaging",
    _SHELL_TIME: lambda _: "time",
}
