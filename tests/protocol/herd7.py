"""Protocols as AArch64 litmus files, for herd7 (Arm's own model as a program): a CPU that writes, and one that calls.

``python -m tests.protocol.herd7`` writes the files of ``docs/protocols/litmus``, and beside them herd7's figures, if it
is in PATH. It knows no scheduler, no IPI and no stop_machine(): ``messages`` says what stands for them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import prologue
from prologue.errors import InternalError
from prologue.protocol.assembly import Line, Operation, is_register, parse_operation
from prologue.protocol.form import Model, Thread, load_protocol, protocol_names
from prologue.protocol.spin import check_model
from tests.protocol.messages import FAILED, Call, Conversation

FILES: Final = Path(prologue.__file__).parent.parent / "docs" / "protocols" / "litmus"
FIGURES: Final = FILES / "herd7.txt"

_BRK: Final = '"BRK"'
# Registers of P0 and P1 that no program uses: for words, addresses and numbers that are there from the start.
_HELD: Final = (range(26), (*range(14, 20), *range(9)))


def litmus_model(model: Model) -> Model | None:
    """Return the protocol as a litmus test: P0 writes, P1 calls; None if herd7 has no words for it.

    The final state asked for is the failure: the tracer ran without the caller's link in X9, a pointer or an owner was
    missing, or (if the protocol promises it) a call that began later was not traced.
    """
    writer = next((task for task in model.tasks if task.place is not None), None)
    if writer is None or "returns" not in model.promises:
        return None
    stores = [line.operation.operands for line in writer.program if line.operation.name == "STR"]
    sites = frozenset(place[1:-1] for _, place in stores) - model.data.keys()
    brks = tuple(dict.fromkeys(place[1:-1] for word, place in stores if word == _BRK))
    talk = Conversation(model, writer)
    writing = talk.writing()
    if writing is None:
        return None
    calling = Call(model, talk, sites, brks).program()
    threads = (
        Thread(name="P0", program=tuple(_without_traps(line, brks) for line in writing), place=0),
        Thread(name="P1", program=calling, place=1),
    )
    return replace(
        model, code=(), tasks=threads, data={**model.data, **talk.flags}, cpus=2, preempt=False, either=True,
        promises=frozenset(), brk="", exists=f"P1:{FAILED}=1",
    )  # fmt: skip


def _without_traps(line: Line, brks: tuple[str, ...]) -> Line:
    """Write a branch to the handler for BRK, and numbers for the sites that own one."""
    if line.operation.name != "STR":
        return line
    value, place = line.operation.operands
    if value == _BRK:
        value = f'"B brk_{place[1:-1]}"'
    elif value.removeprefix("=") in brks:
        value = f"#{brks.index(value.removeprefix('=')) + 1}"
    return replace(line, operation=Operation("STR", (value, place)))


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
    """A thread's instructions; words, addresses and numbers that it stores are in registers from the start."""

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
        ends = any("end" in line.operation.operands for line in self._thread.program)
        return [*lines, f"{self._label('end')}: NOP"] if ends else lines

    def _label(self, operand: str) -> str:
        return f"end{self._number}" if operand == "end" else operand  # herd7's labels are those of all threads

    def _instruction(self, operation: Operation) -> str:
        name = operation.name
        operands = tuple(self._label(operand) for operand in operation.operands)
        if name in ("STR", "LDR"):
            value = operands[0] if is_register(operands[0]) else self._hold(self._value(operands[0]))
            return f"{name} W{value[1:]},[{self._hold(self._place(operands[1]))}]"
        if name in ("DC", "IC"):
            return f"{name} {operands[0]},{self._hold(self._place(operands[1]))}"
        narrow = [re.sub(r"^X(?!30|9$|10$)", "W", operand) for operand in operands]
        return f"{name} {','.join(narrow if name in ('MOV', 'CBZ', 'CBNZ', 'CMP') else operands)}".strip()

    def _hold(self, value: str) -> str:
        return self._registers.setdefault(value, f"X{_HELD[self._number][len(self._registers)]}")

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


def litmus_files() -> dict[str, str]:
    """Write each test; spin decides whether the file's name says never or sometimes."""
    outcomes = ((name, model, "sometimes" if check_model(model).reason else "never") for name, model in litmus_tests())
    return {f"{name}.{outcome}.litmus": litmus_text(name, model) for name, model, outcome in outcomes}


def figures(directory: Path) -> Iterator[str]:
    """Let herd7 judge each file: its observation, in how many executions, and whether it flags a change."""
    printed = subprocess.run(("herd7", "-version"), capture_output=True, text=True, check=True).stdout
    version = printed.partition(",")[0].strip()
    yield f"# herd7 {version} -variant ifetch: observation, executions that reach the failure, and others;"
    yield "# flagged: a live change that is not on the CMODX list"
    for name, _ in litmus_tests():
        (path,) = directory.glob(f"{name}.*.litmus")
        command = ("herd7", "-variant", "ifetch", str(path))
        printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
        observation = re.search(r"^Observation \S+ (Never|Sometimes|Always) (\d+) (\d+)", printed, re.MULTILINE)
        assert observation is not None, printed
        yield f"{name}: {' '.join(observation.groups())}{' flagged' * ('violates-CMODX-requirements' in printed)}"


def main() -> None:
    """Write all files; remove those that no protocol has any more."""
    for old in FILES.glob("*.litmus"):
        old.unlink()
    for name, text in litmus_files().items():
        (FILES / name).write_text(text)
    if shutil.which("herd7"):
        FIGURES.write_text("".join(f"{line}\n" for line in figures(FILES)))


if __name__ == "__main__":
    main()
