"""Lines of every kind, given to a kernel: it takes those that ``prologue probe`` prints, and refuses the others.

``python -m tests.real_kernels.kprobes.lines 6.12``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prologue.kernel.kernel import Kernel
from prologue.probe.event import EventOptions
from prologue.probe.prober import Failure, Probe, Prober
from prologue.probe.report.verdicts import event_lines
from prologue_bench.guest.packages import download
from tests.real_kernels.kprobes.line_guest import Answers, give_lines
from tests.real_kernels.kprobes.line_requests import FETCH, MODULE, REFUSED_FETCH, choose_requests
from tests.real_kernels.kprobes.perf_compare import PerfComparison, ask_perf, compare_request
from tests.support.debian.kernels import fetch_kernel, fetch_modules
from tests.support.debian.source import unpacked_source
from tests.support.trees import SOURCES

SUITES: Final = {
    "5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie", "7.2": "sid", "7.3": "trixie-backports",
}  # fmt: skip
_LOADED: Final = 24  # modules
_NOT_OF_PERF: Final = (MODULE, FETCH, REFUSED_FETCH, "address")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Requests of a kernel by what was asked for, with their kinds, and their places and failures."""

    prober: Prober
    modules: Path
    source: Path | None
    kinds: dict[str, str]
    probes: list[Probe]
    failures: list[Failure]


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is given to the kernel by itself; ``expected`` is None if the machine decides whether it is taken."""

    kind: str
    asked: str
    text: str
    expected: bool | None
    module: str = ""


@dataclass(slots=True)
class Result:
    """What was given to a kernel, by kind, and where it disagrees."""

    taken: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)  # by the machine
    disagreements: list[str] = field(default_factory=list)


def main() -> int:
    """Exit status 1 if the kernel disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release", choices=SUITES)
    parser.add_argument("-n", "--count", type=int, default=420, help="requests, each of one line or more")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="keep the lines and the Image there")
    parser.add_argument("--perf", type=int, default=0, metavar="N", help="compare so many with perf probe -D, too")
    args = parser.parse_args()
    prepared = prepare(args.release, args.count, args.seed)
    with tempfile.TemporaryDirectory() as name:
        directory = args.output or Path(name)
        directory.mkdir(parents=True, exist_ok=True)
        result = prove(prepared, directory)
    for name in sorted(result.taken.keys() | result.refused.keys() | result.decided.keys()):
        print(f"{name:30} {result.taken[name]:5} {result.refused[name]:5} {result.decided[name]:5}")
    totals = [counts.total() for counts in (result.taken, result.refused, result.decided)]
    print("{:30} {:5} {:5} {:5}".format("taken, refused, by the machine", *totals))
    for text in result.disagreements:
        print(text)
    if args.perf:
        print(*compare_with_perf(prepared, args.perf).report(), sep="\n")
    return min(len(result.disagreements), 1)


def prepare(release: str, count: int, seed: int) -> Prepared:
    """Draw requests, and make their events as ``prologue probe --event`` does."""
    kernel = fetch_kernel(SUITES[release])
    modules = fetch_modules(kernel)
    source = unpacked_source(*download(SOURCES[release][0], [SOURCES[release][1]])) if release in SOURCES else None
    prober = Prober(Kernel(kernel.vmlinux), modules=[modules], source=source)
    requests = choose_requests(prober, count, seed, modules=modules, source=source)
    kinds = {request.text: request.kind for request in requests}
    return Prepared(prober, modules, source, kinds, *prober.probes(kinds, EventOptions()))


def prove(prepared: Prepared, directory: Path) -> Result:
    """Give the lines to the kernel; those of places of which the machine decides are not in the text."""
    probes, kinds = prepared.probes, prepared.kinds
    sure = [probe for probe in probes if probe.verdict.answer != "depends"]
    text = "".join(f"{line}\n" for line in event_lines(sure, prepared.failures))
    singles = [*lines_of_places(probes, kinds), *lines_of_arguments(probes, kinds)]
    used = {asked.partition(":")[0] for asked, kind in kinds.items() if kind == MODULE}
    files = [path for path in sorted(prepared.modules.rglob("*.ko*")) if module_name(path) in used]
    vmlinux = prepared.prober.kernel.path
    answers = give_lines(vmlinux, directory, text, [line.text for line in singles], files[:_LOADED])
    events = {probe.event.line: kinds[probe.request.asked] for probe in sure if probe.event is not None}
    return compare(events, singles, answers)


def compare_with_perf(prepared: Prepared, count: int) -> PerfComparison:
    """Ask perf for some requests of each kind that it knows: no module, as those have no debug information."""
    by_kind: dict[str, list[str]] = defaultdict(list)
    for asked, kind in prepared.kinds.items():
        if kind not in _NOT_OF_PERF and not kind.startswith("refused"):
            by_kind[kind].append(asked)
    each = -(-count // len(by_kind))
    result = PerfComparison()
    for asked in (asked for some in by_kind.values() for asked in some[:each]):
        probes = [probe for probe in prepared.probes if probe.request.asked == asked]
        compare_request(result, asked, probes, ask_perf(prepared.prober.kernel, asked, prepared.source))
    return result


def module_name(path: Path) -> str:
    """Name a module as the kernel does."""
    return path.name.partition(".ko")[0].replace("-", "_")


def lines_of_places(probes: Sequence[Probe], kinds: Mapping[str, str]) -> Iterator[Line]:
    """Yield a line for each place that cannot, and for those of which the machine decides."""
    for number, probe in enumerate(probes):
        verdict, module = probe.verdict, probe.target.module
        if verdict.answer == "yes":
            continue
        place = f"{module}:{verdict.where.symbol}+{verdict.where.symbol_offset}" if module else ""
        place = place or f"_stext{verdict.place.vaddr - probe.target.text_ranges[0].start:+d}"
        # No kernel asks whether a word is data.
        expected = None if verdict.answer == "depends" else {name for name, _ in verdict.reasons} == {"data"}
        asked = probe.request.asked
        text = f"{'r' if verdict.place.returns else 'p'}:refused/p{number} {place}"
        yield Line(kinds[asked], asked, text, expected, module)


def lines_of_arguments(probes: Sequence[Probe], kinds: Mapping[str, str]) -> Iterator[Line]:
    """Yield a line for each fetch argument that is left out, because the kernel would refuse it."""
    kept = {probe.request.asked for probe in probes if probe.event is not None and probe.event.arguments}
    for number, (asked, kind) in enumerate(kinds.items()):
        if kind in (FETCH, REFUSED_FETCH) and asked not in kept:
            yield Line(kind, asked, f"p:refused/a{number} {asked}", expected=False)


def compare(events: Mapping[str, str], singles: Sequence[Line], answers: Answers) -> Result:
    """Compare what the kernel took with what was expected; ``events`` are the lines in one go, and their kinds."""
    result = Result()
    if not answers.at_once or answers.log:
        result.disagreements.append(f"not all lines were taken: {answers.log}")
    for text, kind in events.items():
        if text.split()[0].partition(":")[2] in answers.names:
            result.taken[kind] += 1
        else:
            result.disagreements.append(f"{kind}: not taken: {text}")
    for line, error in zip(singles, answers.errors, strict=True):
        if line.expected is None:
            result.decided[line.kind] += 1
        elif line.expected == (not error):
            (result.refused if error else result.taken)[line.kind] += 1
        elif not line.module or line.module in answers.loaded:  # what is not there yet is not checked
            result.disagreements.append(f"{line.kind}: {line.asked}: {line.text}: {error or 'taken'}")
    return result


if __name__ == "__main__":
    sys.exit(main())
