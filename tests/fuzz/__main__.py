"""``python -m tests.fuzz [SECONDS]``: a run guided by coverage (atheris); failures go to tests/corpus, made small.

Inputs are tried by one child after the other, since libFuzzer never gives memory back: what reached something new is
kept in a directory, which the next child begins with.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import atheris

with atheris.instrument_imports(include=["prologue", "prologue_bench"]):
    from tests.fuzz.harness import CORPUS, Harness, WrongEndError, smaller

_LONGEST: Final = 2 + 6 * 8  # bytes of an input: eight edits
_ENDED: Final = ("crash-", "timeout-", "oom-", "slow-unit-")  # libFuzzer's names for inputs
_ROUND: Final = 10_000  # inputs that a child tries


def _line(ends: Counter[str], seconds: float) -> str:
    """Say for a terminal how inputs ended."""
    each = ", ".join(f"{count:,} {how}" for how, count in sorted(ends.items()))
    return f"{ends.total():,} inputs in {seconds:,.0f} s: {each}"


_FAILED: Final = "failed"


class Round:
    """What one child does: counts what happens, keeps what fails, and goes on."""

    def __init__(self, harness: Harness, figures: Path, until: float) -> None:
        self._harness, self._path, self._until = harness, figures, until
        self._ends: Counter[str] = Counter()

    def one(self, script: bytes) -> None:
        """Try an input; the last one ends the process."""
        try:
            self._ends[f"ended with {self._harness.run(script)}"] += 1
        except WrongEndError as failure:
            self._ends[_FAILED] += 1
            self._keep(script, failure)
        if self._ends.total() == _ROUND or time.monotonic() > self._until:
            self._path.write_text(json.dumps(self._ends), encoding="utf-8")
            os._exit(0)

    def _keep(self, script: bytes, failure: WrongEndError) -> None:
        small = smaller(self._harness, script)
        path = CORPUS / f"failed-{hashlib.sha256(small).hexdigest()[:12]}"
        if not path.exists():
            path.write_bytes(small)
            print(f"{path.name}: {' '.join(self._harness.command(small))}: {failure}", flush=True)


def _round(harness: Harness, directory: Path, until: float) -> Counter[str]:
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
        return Counter({_FAILED: len(ended)})
    return Counter(json.loads(path.read_text(encoding="utf-8")))


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
    ends: Counter[str] = Counter()
    while time.monotonic() < until:
        ends += _round(harness, directory, until)
        print(_line(ends, time.monotonic() - begun), flush=True)
    return int(ends[_FAILED] > 0)


if __name__ == "__main__":
    sys.exit(main())
