"""Places and arguments of ``prologue probe`` beside those of ``perf probe -D``: equal, or different in a known way."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prologue.probe.arguments import Argument
from prologue.probe.probe_target import ProbeTarget
from prologue.probe.prober import Probe
from prologue.probe.storage import ADDRESS_ONLY, COMPUTED, NO_FRAME, OVERWRITTEN

_LINE: Final = re.compile(r"([pr]):\S+ ([\w.$]+)\+(\d+)(?: (.*))?")

_OWN: Final = re.compile(r"'[^']*'|(?<=offset of )\S+(?=\.)|\S+(?= has no member)|(?<=member )\S+")


@dataclass(frozen=True, slots=True)
class PerfAnswer:
    """Places and arguments that perf prints for a request, a line for each, or its error.

    ``ambiguous`` if a line names a function of which there are several: which is meant, perf does not say.
    """

    lines: tuple[tuple[int, tuple[tuple[str, str], ...]], ...]
    error: str
    ambiguous: bool


def ask_perf(target: ProbeTarget, asked: str, source: Path | None) -> PerfAnswer:
    """Ask for one request: one that perf refuses would take the others with it."""
    options = ["-s", str(source)] if source is not None else []
    command = ["perf", "probe", "-k", str(target.path), *options, "-D", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL)
    if done.returncode:
        return PerfAnswer((), _reason(done.stderr), ambiguous=False)
    lines, ambiguous = [], False
    for line in done.stdout.splitlines():
        match = _LINE.fullmatch(line.strip())
        assert match is not None, line
        symbol = target.binary.symbols.find(match[2])
        assert symbol is not None, line
        ambiguous |= len(set(target.names.by_name.get(match[2], ()))) > 1
        words = (word.partition("=") for word in (match[4] or "").split(" ") if word)
        arguments = tuple((name, value) if sign else ("", name) for name, sign, value in words)
        lines.append((symbol.vaddr + int(match[3]), arguments))
    return PerfAnswer(tuple(lines), "", ambiguous)


def _reason(text: str) -> str:
    """Return the first line of perf's errors, without what is of this request alone."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "Failed to add events" not in line]
    return _OWN.sub("...", lines[0]) if lines else "no reason"


EQUAL: Final = "equal"
OPEN: Final = "not explained: "
_SCALAR: Final = re.compile(r"([usx])(8|16|32|64)")
_REFERENCE: Final = re.compile(r"\+(\d+)\(%x\d+\)")
_EXPANDED: Final = ("$vars", "$params")
_READS_THERE: Final = "a value that is stored nowhere: perf takes it for an address and reads there"
_PART: Final = "an array or struct: perf has its first eight bytes"
_ONLY_PERF: Final = {
    ADDRESS_ONLY: _READS_THERE,
    COMPUTED: _READS_THERE,
    OVERWRITTEN: "its register is overwritten already, within one instruction of the compiler: perf reads that",
    NO_FRAME: "on the stack, before the function has made room for it: perf reads below the stack pointer",
}


@dataclass(slots=True)
class PerfComparison:
    """Cases of each outcome; ``OPEN`` begins those that nothing explains."""

    places: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    arguments: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def report(self) -> Iterator[str]:
        """Yield the number of cases of each outcome, and one of them; all that nothing explains."""
        for what, outcomes in (("places", self.places), ("arguments", self.arguments)):
            for outcome, cases in sorted(outcomes.items(), key=lambda item: -len(item[1])):
                yield f"{len(cases):5} {what}: {outcome}"
                if outcome != EQUAL:
                    yield from (f"        {case}" for case in (cases if outcome.startswith(OPEN) else cases[:1]))


def compare_request(result: PerfComparison, asked: str, probes: Sequence[Probe], answer: PerfAnswer) -> None:
    """Compare all places of one request."""
    if answer.error:
        result.places[f"perf refuses the request: {answer.error}"].append(asked)
        return
    ours = {probe.verdict.place.vaddr: probe for probe in reversed(probes)}
    if answer.ambiguous:
        result.places["perf names a function of which there are several"] += [asked] * len(ours)
        return
    theirs = dict(reversed(answer.lines))
    for vaddr in ours.keys() | theirs.keys():
        probe = ours.get(vaddr)
        outcome = _place_outcome(asked, probe, vaddr in theirs)
        result.places[outcome].append(f"{asked} at {vaddr:#x}")
        if outcome == EQUAL and probe is not None and probe.event is not None and probe.request.arguments:
            for what, case in _arguments(probe, theirs[vaddr]):
                result.arguments[what].append(f"{asked} at {vaddr:#x}: {case}")


def _place_outcome(asked: str, probe: Probe | None, is_perfs: bool) -> str:
    if probe is None:
        if "*" in asked.partition(";")[0]:
            return "a glob: perf has inlined and init code, too"
        by_file = re.match(r"\S+\.[chS]:\d+", asked)
        return "the call of inlined code, by FILE:LINE: only perf has it" if by_file else f"{OPEN}only perf's"
    if not is_perfs:
        return f"{OPEN}only ours"
    return EQUAL if probe.verdict.answer != "no" else "the kernel refuses it, and perf prints it"


def _arguments(probe: Probe, theirs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the outcome for each argument that either has, and both as text."""
    event, requests = probe.event, probe.request.arguments or ()
    assert event is not None
    ours: dict[str, list[Argument]] = defaultdict(list)
    for argument in event.arguments:
        ours[argument.asked].append(argument)
    reasons = {each.asked: each.reason for each in event.omitted if not each.is_partial}
    expanded = any(request.variable in _EXPANDED for request in requests)
    paired: dict[str, str] = {}
    for position, (name, value) in enumerate(theirs):
        key = name if expanded or position >= len(requests) else requests[position].asked
        paired.setdefault(key, value)  # perf has variables of one name, of several scopes, as often
    for key in ours.keys() | reasons.keys() | paired.keys():
        own, perfs = ours.get(key, []), paired.get(key)
        text = " ".join(map(str, own)) or reasons.get(key)
        yield _argument_outcome(own, reasons.get(key, ""), perfs), f"{key}: ours {text}, perf's {perfs}"


def _argument_outcome(ours: Sequence[Argument], reason: str, perfs: str | None) -> str:
    if perfs is None:
        is_constant = bool(ours) and ours[0].fetch.startswith("\\")
        return ("a constant, which perf leaves out" if is_constant else f"{OPEN}only ours") if ours else EQUAL
    if not ours and "name a" in reason:
        return _PART
    if not ours and not reason:
        return "a variable of code that is inlined there: perf has it, too"
    if not ours:
        return _ONLY_PERF.get(reason, f"{OPEN}only perf's")
    if len(ours) > 1:
        return "a struct in two registers: perf has the first"
    fetch, kind = _split(perfs)
    if "->" in fetch:
        return "a member of what is returned: perf leaves it to the kernel's BTF"
    if fetch != ours[0].fetch:
        parts = _REFERENCE.fullmatch(fetch), _REFERENCE.fullmatch(ours[0].fetch)
        moved = all(parts) and parts[0][1] == parts[1][1]  # type: ignore[index]
        return "passed by reference: perf has the register of later" if moved else f"{OPEN}another fetch argument"
    return _type_outcome(ours[0].type or "x64", kind or "x64")


def _type_outcome(own: str, perfs: str) -> str:
    if own == perfs:
        return EQUAL
    if "[" in own:
        return _PART
    parts = _SCALAR.fullmatch(own), _SCALAR.fullmatch(perfs)
    if all(parts) and parts[0][2] == parts[1][2] and "s" not in (parts[0][1], parts[1][1]):  # type: ignore[index]
        return "equal, in hex"
    return f"{OPEN}another type"


def _split(text: str) -> tuple[str, str]:
    """Return fetch argument and type; perf writes ``@symbol+0``."""
    fetch, colon, kind = text.rpartition(":")
    fetch, kind = (fetch, kind) if colon and "(" not in kind else (text, "")
    return re.sub(r"^(@[\w.$]+)\+0$", r"\1", fetch), kind
