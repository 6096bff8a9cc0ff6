"""Runs one input, and says what is wrong with how it ended."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import time
from pathlib import Path
from typing import Final

from prologue.cli.main import main
from tests.fuzz.edits import SIZE, Target, edits
from tests.fuzz.targets import make_targets

SECONDS: Final = 10.0  # for one command; counted by this process, so that a busy machine does not matter
MEMORY: Final = 1 << 30  # bytes that one command adds to those of this process
CORPUS: Final = Path(__file__).parents[1] / "corpus"
HEAD: Final = 2  # bytes before the edits: which target, which command
_OUTPUT: Final = "out"


class WrongEndError(Exception):
    """What must not happen did; the message begins with what, and ends with what was printed."""


class Harness:
    """A directory with healthy files, in which commands run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with contextlib.redirect_stdout(io.StringIO()):
            self.targets: tuple[Target, ...] = make_targets(directory)
        self._before = self._listing()

    def command(self, script: bytes) -> list[str]:
        """The command that an input runs."""
        target = self._target(script)
        return target.commands[script[1] % len(target.commands)].split()

    def damaged(self, script: bytes) -> bytes:
        """The file that an input makes."""
        target = self._target(script)
        return target.change(target.healthy, edits(script[HEAD:]))

    def run(self, script: bytes) -> int:
        """Run one input; returns the exit code.

        Raises:
            WrongEndError: a traceback, exit code 3, an error that is no line, too long, too much memory, or files that
                nobody asked for.

        """
        if len(script) < HEAD:
            return 0
        target = self._target(script)
        path = self.directory / target.file
        path.write_bytes(self.damaged(script))
        try:
            return self._command(self.command(script))
        finally:
            if target.file.startswith("results/"):
                path.write_bytes(target.healthy)
            else:
                path.unlink()
            self._check_files()

    def _command(self, words: list[str]) -> int:
        said, printed = io.StringIO(), io.StringIO()
        before = _peak()
        begun = time.process_time()
        with contextlib.chdir(self.directory), contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed):
            try:
                code = main(words)
            except BaseException as error:
                raise WrongEndError(f"{type(error).__name__} left main: {error}") from error
        took, text = time.process_time() - begun, said.getvalue()
        if code not in (0, 1, 2, 5) or "Traceback" in text:
            raise WrongEndError(f"exit code {code}: {text}")
        lines = [line for line in text.splitlines() if not line.startswith(_LISTING)]
        told = words[0] == "trace"  # it says what it read before it says what is wrong
        if code == 2 and not (all(map(_is_ours, lines)) and (len(lines) == 1 or (lines and told))):
            raise WrongEndError(f"an error that is not one line: {text}")
        if took > SECONDS:
            raise WrongEndError(f"took {took:.1f} s")
        if (added := _peak(reset=False) - before) > MEMORY:
            raise WrongEndError(f"took {added >> 20} MiB")
        return code

    def _check_files(self) -> None:
        after = self._listing()
        for name in sorted(after.keys() - self._before.keys()):
            (self.directory / name).unlink()
            if name.partition("/")[0].partition(".")[0] != _OUTPUT:
                raise WrongEndError(f"left {name}")
        shutil.rmtree(self.directory / _OUTPUT, ignore_errors=True)  # what is a directory is empty now
        if changed := [
            name for name, status in self._before.items() if after.get(name) != status and "results" not in name
        ]:
            raise WrongEndError(f"changed {changed}")

    def _listing(self) -> dict[str, tuple[int, int]]:
        found = {}
        for top, _, names in os.walk(self.directory):
            for name in names:
                path = Path(top, name)
                status = path.lstat()
                found[str(path.relative_to(self.directory))] = (status.st_size, status.st_mtime_ns)
        return found

    def _target(self, script: bytes) -> Target:
        return self.targets[script[0] % len(self.targets)]


def _is_ours(line: str) -> bool:
    return line.startswith(("prologue: ", "note: ", "warning: "))


# The refusal to process an init stub shows its disassembly below the line.
_LISTING: Final = "  0x"


def _peak(*, reset: bool = True) -> int:
    """The most bytes that this process had resident since the last reset (proc(5), clear_refs)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def smaller(harness: Harness, script: bytes) -> bytes:
    """Leave out every edit without which an input still fails."""
    at = HEAD
    while at < len(script):
        shorter = script[:at] + script[at + SIZE :]
        try:
            harness.run(shorter)
        except WrongEndError:
            script = shorter
        else:
            at += SIZE
    return script
