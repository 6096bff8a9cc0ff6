"""What ``perf probe -D`` prints for requests, place by place."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue.probe.probe_target import ProbeTarget

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
