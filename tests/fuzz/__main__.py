"""``python -m tests.fuzz [SECONDS]``: a run guided by coverage (atheris); failures go to tests/corpus, made small.

Inputs are tried by one child after the other, since libFuzzer never gives memory back: what reached something new is
kept in a directory, which the next child begins with.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import atheris

with atheris.instrument_imports(include=["prologue", "prologue_bench"]):
    from tests.fuzz.harness import CORPUS, Harness, WrongEndError, smaller

_LONGEST: Final = 2 + 6 * 8  # bytes of an input: eight edits
_ENDED: Final = ("crash-", "timeout-", "oom-", "slow-unit-")  # libFuzzer's names for inputs
_ROUND: Final = 10_000  # inputs that a child tries


@dataclass
class Figures:
    """What happened; ``codes`` counts exit codes, by their text."""

    codes: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    slowest: float = 0.0  # seconds of CPU
    peak: int = 0  # MiB that a child had resident

    @property
    def inputs(self) -> int:
        """How many were tried."""
        return sum(self.codes.values()) + self.failures

    def add(self, other: Figures) -> None:
        """Count what another child did."""
        self.codes.update(other.codes)
        self.failures += other.failures
        self.slowest, self.peak = max(self.slowest, other.slowest), max(self.peak, other.peak)

    def line(self, seconds: float) -> str:
        """For a terminal."""
        codes = ", ".join(f"{count:,} ended with {code}" for code, count in sorted(self.codes.items()))
        return (
            f"{self.inputs:,} inputs in {seconds:,.0f} s: {codes}; {self.failures:,} failures; "
            f"slowest {self.slowest:.1f} s of CPU, {self.peak:,} MiB"
        )


class Round:
    """What one child does: counts what happens, keeps what fails, and goes on."""

    def __init__(self, harness: Harness, figures: Path, until: float) -> None:
        self._harness, self._path, self._until = harness, figures, until
        self._figures = Figures()

    def one(self, script: bytes) -> None:
        """Try an input; the last one ends the process."""
        figures, begun = self._figures, time.process_time()
        try:
            figures.codes[str(self._harness.run(script))] += 1
        except WrongEndError as failure:
            figures.failures += 1
            self._keep(script, failure)
        figures.slowest = max(figures.slowest, time.process_time() - begun)
        if figures.inputs == _ROUND or time.monotonic() > self._until:
            figures.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            self._path.write_text(json.dumps(vars(figures)), encoding="utf-8")
            os._exit(0)

    def _keep(self, script: bytes, failure: WrongEndError) -> None:
        small = smaller(self._harness, script)
        path = CORPUS / f"failed-{hashlib.sha256(small).hexdigest()[:12]}"
        if not path.exists():
            path.write_bytes(small)
            print(f"{path.name}: {' '.join(self._harness.command(small))}: {failure}", flush=True)


def _round(harness: Harness, directory: Path, until: float) -> Figures:
    """Let a child try inputs; the one that ends it (60 s, memory, a signal) goes to the corpus as it is.

    Raises:
        RuntimeError: it ended early, and no input is known for it.

    """
    path = directory / "figures"
    path.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        options = [
            f"-max_len={_LONGEST}",
            f"-artifact_prefix={directory}/",
            "-timeout=60",
            "-rss_limit_mb=3072",
            "-len_control=0",
            "-verbosity=0",
        ]
        run = Round(harness, path, until)
        atheris.Setup([sys.argv[0], *options, str(directory / "corpus"), str(CORPUS)], run.one)
        atheris.Fuzz()
    os.waitpid(child, 0)
    if not path.exists():
        ended = [left for left in directory.iterdir() if left.name.startswith(_ENDED)]
        for left in ended:
            script = left.read_bytes()
            kept = CORPUS / f"failed-{hashlib.sha256(script).hexdigest()[:12]}"
            kept.write_bytes(script)
            print(f"{kept.name}: {' '.join(harness.command(script))}: ended the process ({left.name})", flush=True)
            left.unlink()
        if not ended:
            raise RuntimeError("a child ended early, and left no input")
        return Figures(failures=len(ended))
    said = json.loads(path.read_text(encoding="utf-8"))
    return Figures(Counter(said["codes"]), said["failures"], said["slowest"], said["peak"])


def main() -> int:
    """Try inputs until the time is over.

    Returns:
        0, or 1 if something failed.

    """
    begun = time.monotonic()
    until = begun + (int(sys.argv[1]) if len(sys.argv) > 1 else 1800)
    directory = Path(tempfile.mkdtemp(prefix="prologue-fuzz-"))
    corpus = directory / "corpus"
    for path in (directory / "work", corpus):
        path.mkdir()
    with atheris.instrument_imports(include=["prologue", "prologue_bench"]):  # of what commands load, too
        harness = Harness(directory / "work")
        for number, target in enumerate(harness.targets):
            for command in range(len(target.commands)):
                script = bytes((number, command))
                harness.run(script)
                (corpus / f"{number}-{command}").write_bytes(script)
    print(f"inputs that reach something new: {corpus}", flush=True)
    all_of_it = Figures()
    while time.monotonic() < until:
        all_of_it.add(_round(harness, directory, until))
        print(all_of_it.line(time.monotonic() - begun), flush=True)
    return int(all_of_it.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
