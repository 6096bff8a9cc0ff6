"""Cycles that a core takes for instructions, by the description of it that LLVM schedules code with (llvm-mca).

The model has every load in the first cache, predicts every branch, and fetches without a bubble. So it prices what an
instruction takes from those beside it, and nothing else: no line of the instruction cache, no entry of a predictor.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from prologue.arrays import U32
from prologue.errors import UsageError
from prologue.words import meant
from prologue_bench.errors import BenchError, MissingToolError

_OLDEST, _NEWEST = 19, 40
"""LLVM 19 is the first whose llvm-mca goes on after an instruction of which a model has nothing."""
_TARGET: Final = ("-triple=aarch64", "-mattr=+all")
# The model takes a call for 100 cycles, and what a branch does to the link register for nothing.
_CALLS: Final = ((re.compile(r"^bl\t"), "b\t"), (re.compile(r"^blr\t"), "br\t"))
_INVALID: Final = re.compile(r"^<stdin>:(\d+):\d+: warning: invalid instruction encoding", re.MULTILINE)
IN_ORDER: Final = frozenset(
    f"cortex-{name}" for name in ("a34", "a35", "a53", "a55", "a510", "a520", "a520ae", "r82", "r82ae")
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Cycles that a model takes for instructions; ``skipped`` of these it does not know."""

    cycles: int
    instructions: int
    width: int
    skipped: int


class Pipelines:
    """Models of cores. One disassembles each distinct word once."""

    def __init__(self) -> None:
        """Find LLVM's programs; raises MissingToolError."""
        self._suffix = _newest()
        self._texts: dict[int, str] = {}

    @property
    def version(self) -> str:
        """Version of LLVM, as it names itself."""
        done = subprocess.run([f"llvm-mca{self._suffix}", "--version"], capture_output=True, text=True, check=True)
        version = re.search(r"LLVM version ([\w.]+)", done.stdout)
        return f"LLVM {version[1]}" if version else "LLVM"

    @cached_property
    def _cores(self) -> frozenset[str]:
        command = [f"llvm-mca{self._suffix}", "-mtriple=aarch64", "-mcpu=help"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return frozenset(re.findall(r"^ *(\S+) +- Select the \1 processor", done.stderr + done.stdout, re.MULTILINE))

    def core(self, name: str) -> str:
        """Return a core by LLVM's name: ``a53`` is cortex-a53, ``n1`` neoverse-n1; raises UsageError."""
        names = [known for known in (name, f"cortex-{name}", f"neoverse-{name}") if known in self._cores]
        if not names:
            raise UsageError(f"--cores {name}: {self.version} has no model of it{_near(name, self._cores)}")
        return names[0]

    def run(self, core: str, words: U32) -> Simulated:
        """Run instructions one after the other, shape (n,).

        Raises:
            BenchError: LLVM fails.

        """
        self._disassemble(np.unique(words))
        lines = [self._texts[word] for word in words.tolist()]
        command = [
            f"llvm-mca{self._suffix}", "-mtriple=aarch64", f"-mcpu={core}", "-mattr=+all", "-iterations=1",
            "-instruction-info=0", "-resource-pressure=0", "-skip-unsupported-instructions=lack-sched", "--json",
        ]  # fmt: skip
        done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
        if done.returncode:
            reason = next((line for line in done.stderr.splitlines() if "error" in line), "no reason given")
            raise BenchError(f"{command[0]} -mcpu={core} failed: {reason}")
        summary = json.loads(done.stdout)["CodeRegions"][0]["SummaryView"]
        return Simulated(
            cycles=summary["TotalCycles"],
            instructions=summary["Instructions"],
            width=summary["DispatchWidth"],
            skipped=len(lines) - summary["Instructions"],
        )

    def _disassemble(self, words: U32) -> None:
        """Write the text of new words as LLVM's assembler takes it: branches with their distance, not their target."""
        new = [word for word in words.tolist() if word not in self._texts]
        if not new:
            return
        text = "\n".join(" ".join(f"{byte:#04x}" for byte in word.to_bytes(4, "little")) for word in new)
        command = [f"llvm-mc{self._suffix}", "-disassemble", *_TARGET]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        unknown = {int(number) - 1 for number in _INVALID.findall(done.stderr)}
        lines = iter([line.strip() for line in done.stdout.splitlines()[1:]])
        for number, word in enumerate(new):
            line = "nop" if number in unknown else next(lines)
            for call, branch in _CALLS:
                line = call.sub(branch, line)
            self._texts[word] = line
        if next(lines, None) is not None:
            raise BenchError(f"{command[0]} printed more instructions than it was given")


def _near(name: str, cores: frozenset[str]) -> str:
    near = meant(f"cortex-{name}", sorted(cores)) or meant(name, sorted(cores))
    return f": {near}" if near else ""


def _newest() -> str:
    for suffix in (*(f"-{number}" for number in range(_NEWEST, _OLDEST - 1, -1)), ""):
        if not all(shutil.which(f"{name}{suffix}") for name in ("llvm-mca", "llvm-mc")):
            continue
        printed = subprocess.run([f"llvm-mca{suffix}", "--version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"LLVM version (\d+)", printed)
        if version and int(version[1]) >= _OLDEST:
            return suffix
    raise MissingToolError(f"llvm-mca {_OLDEST} or later is not installed (Debian package llvm-{_OLDEST})")
