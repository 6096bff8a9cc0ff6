"""``python -m tests.fuzz [SECONDS]``: a run guided by coverage (atheris); failures go to tests/corpus, made small."""

from __future__ import annotations

import hashlib
import resource
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


class Run:
    """One run: counts what happened, keeps what failed, and goes on."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.begun, self.slowest, self.failures = time.monotonic(), 0.0, 0
        self.codes: Counter[int] = Counter()

    def one(self, script: bytes) -> None:
        begun = time.process_time()
        try:
            self.codes[self.harness.run(script)] += 1
        except WrongEndError as failure:
            self._keep(script, failure)
        self.slowest = max(self.slowest, time.process_time() - begun)
        if sum(self.codes.values()) % 2000 == 0:
            self.report()

    def _keep(self, script: bytes, failure: WrongEndError) -> None:
        self.failures += 1
        small = smaller(self.harness, script)
        path = CORPUS / f"failed-{hashlib.sha256(small).hexdigest()[:12]}"
        if not path.exists():
            path.write_bytes(small)
            print(f"{path.name}: {' '.join(self.harness.command(small))}: {failure}", flush=True)

    def report(self) -> None:
        done, seconds = sum(self.codes.values()) + self.failures, time.monotonic() - self.begun
        codes = ", ".join(f"{count:,} ended with {code}" for code, count in sorted(self.codes.items()))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(
            f"{done:,} inputs in {seconds:,.0f} s: {codes}; {self.failures:,} failures; "
            f"slowest {self.slowest:.1f} s of CPU, {peak} MiB",
            flush=True,
        )


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 1800
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
    run = Run(harness)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={_LONGEST}",
        f"-artifact_prefix={directory}/",
        "-timeout=60",
        "-rss_limit_mb=2048",
        "-len_control=0",
        "-verbosity=0",
    ]
    print(f"inputs that reach something new: {corpus}", flush=True)
    atheris.Setup([sys.argv[0], *options, str(corpus), str(CORPUS)], run.one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
