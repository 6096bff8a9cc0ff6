"""Protocols as AArch64 litmus files, for herd7: one store sequence against one call.

Only protocols without steps of the kernel can be written so: herd7 knows no scheduler, no IPI and no stop_machine().
``python -m prologue.protocol.litmus DIRECTORY`` writes the files of ``docs/protocols/litmus``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from prologue.errors import InternalError, UsageError
from prologue.protocol.assembly import Line, Operation, is_register, parse_operation
from prologue.protocol.form import Model, Thread, load_protocol, protocol_names
from prologue.protocol.spin import check_model

_LINK: Final = "#5"  # what the caller's X30 holds; X9 holds 0 before the call
_WRITES: Final = frozenset({"STR", "DC", "IC", "DSB", "DMB", "ISB"})
_SECONDS: Final = 300


def litmus_model(model: Model) -> Model | None:
    """Return the protocol as a litmus test: P0 writes, P1 makes one call; None if herd7 has no words for it.

    The final state asked for is the failure: the tracer ran without the caller's link in X9, or found no pointer.
    """
    writer = next((task for task in model.tasks if task.place is not None), None)
    if writer is None or model.brk or "returns" not in model.promises:
        return None
    program = tuple(line for line in writer.program if line.operation.name in _WRITES)
    if len(program) != len(writer.program):
        return None
    call = (Line(Operation("MOV", ("X30", _LINK))), *_one_call(model.code))
    dies = any(line.operation.name == "die" for line in model.code)
    return replace(
        model, code=(), tasks=(Thread(name="P0", program=program, place=0), Thread(name="P1", program=call, place=1)),
        cpus=2, preempt=False, either=True, promises=frozenset(),
        exists="P1:X13=1" if dies else "P1:X12=1 & P1:X9=0",
    )  # fmt: skip


def _one_call(code: tuple[Line, ...]) -> Iterator[Line]:
    """Yield the function and its tracer, up to where the failure shows: X12 is 1 in the tracer, X13 where it dies."""
    ended = False
    for line in code:
        if ended and not line.labels:
            continue
        ended = line.operation.name in ("traced", "die")
        if ended:
            register = "X12" if line.operation.name == "traced" else "X13"
            yield replace(line, operation=Operation("MOV", (register, "#1")))
            yield Line(Operation("B", ("end",)))
        elif line.operation.name == "RET":
            yield replace(line, operation=Operation("B", ("end",)))
        else:
            yield line


def litmus_text(name: str, model: Model) -> str:
    """Write a litmus model in herd7's AArch64 syntax."""
    columns = [_Column(number, thread, model) for number, thread in enumerate(model.tasks)]
    code = [column.code() for column in columns]
    height = max(len(lines) for lines in code)
    width = [max(map(len, lines)) for lines in code]
    padded = [[*lines, *([""] * (height - len(lines)))] for lines in code]
    heads = " | ".join(f"P{k}".ljust(width[k]) for k in range(len(code)))
    rows = [" | ".join(lines[row].ljust(width[k]) for k, lines in enumerate(padded)) for row in range(height)]
    first = [f"{variable}={value};" for variable, value in model.data.items()]
    first += [setting for column in columns for setting in column.settings]
    state = re.sub(r"P(\d+):", r"\1:", model.exists).replace(" & ", " /\\ ")
    return "\n".join([
        f"AArch64 {name}", "{", *(f"  {line}" for line in first), "}",
        *(f" {row} ;" for row in (heads, *rows)), f"exists ({state})", "",
    ])  # fmt: skip


class _Column:
    """One thread's instructions; words, addresses and numbers that it stores are in registers from the start."""

    def __init__(self, number: int, thread: Thread, model: Model) -> None:
        self._number, self._thread, self._model = number, thread, model
        self._registers: dict[str, str] = {}

    @property
    def settings(self) -> list[str]:
        return [f"{self._number}:{register}={value};" for value, register in self._registers.items()]

    def code(self) -> list[str]:
        lines = []
        for line in self._thread.program:
            labels = "".join(f"{label}: " for label in line.labels)
            lines.append(labels + self._instruction(line.operation))
        return [*lines, "end: NOP"] if self._number else lines

    def _instruction(self, operation: Operation) -> str:
        name, operands = operation.name, operation.operands
        if name in ("STR", "LDR"):
            value = operands[0] if is_register(operands[0]) else self._hold(self._value(operands[0]))
            return f"{name} W{value[1:]},[{self._hold(self._place(operands[1]))}]"
        if name in ("DC", "IC"):
            return f"{name} {operands[0]},{self._hold(self._place(operands[1]))}"
        narrow = [re.sub(r"^X(?!30|9$|10$)", "W", operand) for operand in operands]
        return f"{name} {','.join(narrow if name in ('MOV', 'CBZ', 'CMP') else operands)}".strip()

    def _hold(self, value: str) -> str:
        return self._registers.setdefault(value, f"X{len(self._registers) + 14 * self._number}")

    def _place(self, operand: str) -> str:
        name = operand[1:-1]
        if name in self._model.data:
            return name
        owner = next(k for k, thread in enumerate(self._model.tasks) if _line_of(thread, name) is not None)
        return f"P{owner}:{name}"

    def _value(self, operand: str) -> str:
        if not operand.startswith('"'):
            return operand.removeprefix("#")
        return f'instr:"{self._relative(parse_operation(operand[1:-1], self._model.name))}"'

    def _relative(self, word: Operation) -> str:
        """Write a branch as herd7 reads it in a register: with the distance from where the word is stored."""
        if word.name not in ("B", "BL"):
            return f"{word.name} {','.join(word.operands)}".strip()
        target = self._model.tasks[1]
        site = next(
            line.operation.operands[1][1:-1] for line in self._thread.program
            if line.operation.name == "STR" and line.operation.operands[0] == f'"{word}"'
        )  # fmt: skip
        here, there = _line_of(target, site), _line_of(target, word.operands[0])
        if here is None or there is None:
            raise InternalError(f"no place for {word}", path=self._model.name)
        return f"{word.name} .+{4 * (there - here)}"


def _line_of(thread: Thread, label: str) -> int | None:
    return next((k for k, line in enumerate(thread.program) if label in line.labels), None)


def litmus_files() -> Iterator[tuple[str, str]]:
    """Yield name and text of each protocol's file; spin decides whether the name says never or sometimes."""
    written: set[str] = set()
    for name in protocol_names():
        for variant in load_protocol(name).variants:
            model = litmus_model(variant.model)
            if model is None or (text := litmus_text("x", model)) in written:
                continue
            written.add(text)  # variants may differ in assumptions only, which herd7 does not share
            said = "sometimes" if check_model(model).reason else "never"
            test = f"{name}.{variant.name}"
            yield f"{test}.{said}.litmus", litmus_text(test, model)


def require_herd7() -> None:
    """Look for herd7.

    Raises:
        UsageError: it is not in PATH.

    """
    if shutil.which("herd7") is None:
        raise UsageError("herd7 is not in PATH: build it from the source of herdtools7 (it is no Debian package)")


def ask_herd7(name: str, model: Model) -> tuple[str, bool]:
    """Let herd7 judge a litmus model: ``Never``, ``Sometimes`` or ``Always``, and whether it flags unlisted changes.

    Raises:
        UsageError: herd7 is not there, or it did not judge.

    """
    if shutil.which("herd7") is None:
        raise UsageError("herd7 is not in PATH: build it from the source of herdtools7 (it is no Debian package)")
    with tempfile.TemporaryDirectory(prefix="prologue-protocol-") as directory:
        file = Path(directory) / "protocol.litmus"
        file.write_text(litmus_text(name, model))
        command = ("herd7", "-variant", "ifetch", str(file))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    found = re.search(r"^Observation \S+ (Never|Sometimes|Always)", done.stdout, re.MULTILINE)
    if found is None:
        said = (done.stderr + done.stdout).strip().splitlines() or ["nothing said"]
        raise UsageError(f"herd7 gave no verdict on {name}: {said[-1]}")
    return found[1], "violates-CMODX-requirements" in done.stdout


def main(directory: Path) -> None:
    """Write all files; remove those that no protocol has any more."""
    directory.mkdir(parents=True, exist_ok=True)
    files = dict(litmus_files())
    for old in directory.glob("*.litmus"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
