"""Asks herd7, Arm's own model as a program, about a protocol's litmus test.

``python -m prologue.protocol.herd7 DIRECTORY`` writes the files of ``docs/protocols/litmus``, and beside them herd7's
figures, if it is in PATH.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue.errors import UsageError
from prologue.protocol.form import Model, load_protocol, protocol_names
from prologue.protocol.litmus import litmus_model, litmus_text
from prologue.protocol.spin import check_model

FIGURES: Final = "herd7.txt"
SECONDS: Final = 300
_FLAG: Final = "violates-CMODX-requirements"


@dataclass(frozen=True, slots=True)
class HerdVerdict:
    """Observation of herd7: ``Never``, ``Sometimes`` or ``Always``; empty if it was not done in ``SECONDS``.

    ``positive`` and ``negative`` are the executions that reach the failure, and those that do not; ``flagged``: it
    flags a live change that is not on the CMODX list.
    """

    observed: str
    positive: int = 0
    negative: int = 0
    flagged: bool = False

    @property
    def reached(self) -> bool | None:
        """True if the failure is reached; None if there is no verdict."""
        return self.observed != "Never" if self.observed else None

    def __str__(self) -> str:
        if not self.observed:
            return f"no verdict in {SECONDS} s"
        return f"{self.observed} {self.positive} {self.negative}{' flagged' if self.flagged else ''}"


def require_herd7() -> None:
    """Look for herd7.

    Raises:
        UsageError: it is not in PATH.

    """
    if shutil.which("herd7") is None:
        raise UsageError("herd7 is not in PATH: build it from the source of herdtools7 (Debian has no package of it)")


def ask_herd7(name: str, model: Model) -> HerdVerdict:
    """Let herd7 judge a litmus model.

    Raises:
        UsageError: herd7 is not there, or it did not judge.

    """
    require_herd7()
    with tempfile.TemporaryDirectory(prefix="prologue-protocol-") as directory:
        file = Path(directory) / "protocol.litmus"
        file.write_text(litmus_text(name, model))
        try:
            done = _run("-variant", "ifetch", str(file))
        except subprocess.TimeoutExpired:
            return HerdVerdict("")
    observation = re.search(r"^Observation \S+ (Never|Sometimes|Always) (\d+) (\d+)", done.stdout, re.MULTILINE)
    if observation is None:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["nothing said"]
        raise UsageError(f"herd7 gave no verdict on {name}: {lines[-1]}")
    return HerdVerdict(observation[1], int(observation[2]), int(observation[3]), _FLAG in done.stdout)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("herd7", *arguments), capture_output=True, text=True, check=False, timeout=SECONDS)


def litmus_tests() -> Iterator[tuple[str, Model]]:
    """Yield name and litmus model of each protocol's variant; of those that are one test, the first."""
    written: set[str] = set()
    for name in protocol_names():
        for variant in load_protocol(name).variants:
            model = litmus_model(variant.model)
            if model is None or (text := litmus_text("x", model)) in written:
                continue
            written.add(text)  # variants may differ in assumptions only, which herd7 does not share
            yield f"{name}.{variant.name}", model


def litmus_files() -> Iterator[tuple[str, str]]:
    """Yield name and text of each test's file; spin decides whether the name says never or sometimes."""
    for name, model in litmus_tests():
        outcome = "sometimes" if check_model(model).reason else "never"
        yield f"{name}.{outcome}.litmus", litmus_text(name, model)


def main(directory: Path) -> None:
    """Write all files; remove those that no protocol has any more."""
    directory.mkdir(parents=True, exist_ok=True)
    files = dict(litmus_files())
    for old in directory.glob("*.litmus"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        (directory / name).write_text(text)
    if shutil.which("herd7"):
        (directory / FIGURES).write_text("".join(f"{line}\n" for line in _figures()))


def _figures() -> Iterator[str]:
    version = _run("-version").stdout.partition(",")[0].strip()
    yield f"# herd7 {version} -variant ifetch: observation, executions that reach the failure, and others;"
    yield "# flagged: a live change that is not on the CMODX list"
    for name, model in litmus_tests():
        yield f"{name}: {ask_herd7(name, model)}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
