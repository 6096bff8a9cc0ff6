"""The language of a protocol's programs: AArch64 instructions, and steps of the kernel, one to a line.

Operands: ``Xn``, ``#5``, ``=label`` (its address), ``"B end"`` (an instruction as a word), ``[name]`` (what is at a
label or in a variable) and ``[Xn]``. A line ends at a newline or a semicolon; ``//`` starts a comment; ``label:`` may
stand before an instruction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from prologue.errors import InputError

# Operand kinds: r register, v value, a address, l label, s option or name, t text.
_SHAPES: Final[dict[str, str]] = {
    "NOP": "", "B": "l", "B.EQ": "l", "B.NE": "l", "CBZ": "rl", "CBNZ": "rl", "BL": "l", "BLR": "r", "BR": "r",
    "RET": "", "BRK": "", "UDF": "", "ERET": "", "MOV": "rv", "MRS": "rs", "MSR": "sv", "CMP": "vv", "CSEL": "rvvs",
    "EOR": "rvv", "LDR": "ra", "STR": "va", "DC": "sa", "IC": "sa", "DSB": "s", "DMB": "s", "ISB": "",
    # Steps of the kernel, and what the model itself has to know.
    "sync_cores": "", "rcu_tasks_begin": "", "rcu_tasks_wait": "", "stop_machine": "", "isb_everywhere": "",
    "start_machine": "", "schedule": "", "traced": "", "on": "", "off": "", "decoder": "s", "die": "t",
}  # fmt: skip
_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "MRS": ("ELR_EL1",), "MSR": ("ELR_EL1",), "CSEL": ("EQ", "NE"), "DC": ("CVAU",), "IC": ("IVAU",),
    "DSB": ("SY", "ISH", "LD", "ISHLD", "ST", "ISHST"), "DMB": ("SY", "ISH", "LD", "ISHLD", "ST", "ISHST"),
    "decoder": ("before", "unknown", "after"),
}  # fmt: skip
_KINDS: Final = {
    "r": r"[XW](?:[12]?\d|30|ZR)",
    "v": r'[XW](?:[12]?\d|30|ZR)|#\d+|=\w+|"[^"]+"',
    "a": r"\[\w+\]",
    "l": r"[A-Za-z]\w*",
    "s": r"\w+",
    "t": r'"[^"]+"',
}
_REGISTER: Final = re.compile(r"[XW](\d+|ZR)")


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction, or one step of the kernel; registers are written as X."""

    name: str
    operands: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} {', '.join(self.operands)}".strip()


@dataclass(frozen=True, slots=True)
class Line:
    """An operation at its place in a program; ``step`` is the kernel's step that it belongs to, or empty."""

    operation: Operation
    labels: tuple[str, ...] = ()
    step: str = ""


# The kernel's steps that are several lines here. arch/arm64/kernel/patching.c, aarch64_insn_patch_text_nosync() (6.12):
# one store, then caches_clean_inval_pou(): DC CVAU, DSB ISH, IC IVAU, DSB ISH, ISB (arch/arm64/mm/cache.S).
_MACROS: Final[dict[str, str]] = {
    "patch_text": "STR {1},{0}; DC CVAU,{0}; DSB ISH; IC IVAU,{0}; DSB ISH; ISB",
    "synchronize_rcu_tasks": "rcu_tasks_begin; rcu_tasks_wait",
}


def parse_operation(text: str, path: str) -> Operation:
    """Read one instruction or step.

    Raises:
        InputError: an unknown one, or operands that do not fit it.

    """
    name, _, rest = text.strip().partition(" ")
    name = name if name in _SHAPES else name.upper()
    shape = _SHAPES.get(name)
    if shape is None:
        raise InputError(f"unknown instruction or step {text.strip()!r}", path=path)
    operands = tuple(part.strip() for part in _split(rest)) if rest.strip() else ()
    fits = len(operands) == len(shape) and all(
        re.fullmatch(_KINDS[kind], operand) for kind, operand in zip(shape, operands, strict=True)
    )
    chosen = [operand for kind, operand in zip(shape, operands, strict=False) if kind == "s"]
    if not fits or any(option not in _OPTIONS[name] for option in chosen):
        raise InputError(f"{name} does not take the operands of {text.strip()!r}", path=path)
    return Operation(name, tuple(_plain(operand) for operand in operands))


def parse_program(text: str, path: str) -> tuple[Line, ...]:
    """Read a program; a kernel's step of several instructions gives several lines.

    Raises:
        InputError: a line that is not of this language.

    """
    lines: list[Line] = []
    labels: list[str] = []
    for statement in re.split(r"[;\n]", re.sub(r"//.*", "", text)):
        rest = statement.strip()
        while label := re.match(r"(\w+):\s*", rest):
            labels.append(label[1])
            rest = rest[label.end() :]
        if not rest:
            continue
        for line in _expanded(rest, path):
            lines.append(Line(line.operation, tuple(labels), line.step))
            labels = []
    if labels:
        raise InputError(f"no instruction after the label {labels[0]}", path=path)
    return tuple(lines)


def _expanded(statement: str, path: str) -> list[Line]:
    name, _, rest = statement.partition(" ")
    macro = _MACROS.get(name)
    if macro is None:
        return [Line(parse_operation(statement, path))]
    operands = [part.strip() for part in _split(rest)] if rest.strip() else []
    if len(operands) != len(set(re.findall(r"\{\d\}", macro))):
        raise InputError(f"{name} does not take the operands of {statement!r}", path=path)
    step = f"{name}({', '.join(operands)})"
    return [Line(parse_operation(part, path), (), step) for part in macro.format(*operands).split(";")]


def _split(operands: str) -> list[str]:
    """Split at commas outside quotes."""
    return re.findall(r'(?:"[^"]*"|[^,"])+', operands)


def _plain(operand: str) -> str:
    if operand.startswith('"'):
        return " ".join(operand.split())
    register = _REGISTER.fullmatch(operand)
    return f"X{register[1]}" if register else operand


def is_register(operand: str) -> bool:
    """Return whether it is X0 to X30 (not XZR)."""
    return bool(re.fullmatch(r"X\d+", operand))
