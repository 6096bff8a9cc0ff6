"""Numbers for everything in a model: addresses, instruction words, sites and variables. All fit in a byte."""

from __future__ import annotations

from typing import Final

from prologue.errors import InputError
from prologue.insn.cmodx import OLD_LIST
from prologue.protocol.assembly import Line, Operation, is_register, parse_operation
from prologue.protocol.form import Model, Thread

# Registers hold numbers up to 63, code addresses, addresses of variables, and instruction words.
CODE: Final = 64
VARIABLES: Final = 190
WORDS: Final = 210
_MOST: Final = (
    ("instructions", VARIABLES - CODE),
    ("variables", WORDS - VARIABLES),
    ("instruction words", 256 - WORDS),
)


class Numbering:
    """Numbers of the lines and names of a model.

    ``lines`` are all lines by address; ``owners`` the task of each, None for shared code; ``starts`` and ``ends`` the
    first address of each task and the one after its last; ``sites`` the addresses of words that are written.
    """

    def __init__(self, model: Model) -> None:
        """Give everything a number.

        Raises:
            InputError: a name that means nothing, or too much for a byte.

        """
        self.model = model
        self.lines: list[Line] = []
        self.owners: list[str | None] = []
        self.starts: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self._labels: dict[str | None, dict[str, int]] = {}
        self._place(None, model.code)
        for task in model.tasks:
            self.starts[task.name] = len(self.lines)
            self._place(task.name, task.program)
            self.ends[task.name] = len(self.lines)
            self._add(Line(Operation("NOP")), task.name)  # an address for the end; nothing runs there
        self.variables = list(model.data)
        self.sites = self._find_sites()
        texts = [str(self.lines[address].operation) for address in self.sites]
        for line in self.lines:
            texts += [o[1:-1] for o in line.operation.operands if o.startswith('"') and line.operation.name != "die"]
        self.words = list(dict.fromkeys(str(parse_operation(text, model.name)) for text in texts))
        for (noun, most), count in zip(_MOST, (len(self.lines), len(self.variables), len(self.words)), strict=True):
            if count > most:
                raise InputError(f"has {count} {noun}; {most} fit", path=model.name)

    def _place(self, owner: str | None, lines: tuple[Line, ...]) -> None:
        labels = self._labels.setdefault(owner, {})
        for line in lines:
            for label in line.labels:
                if label in labels:
                    raise InputError(f"has two labels {label!r}", path=self.model.name)
                labels[label] = len(self.lines)
            self._add(line, owner)

    def _add(self, line: Line, owner: str | None) -> None:
        self.lines.append(line)
        self.owners.append(owner)

    def address(self, label: str, owner: str | None) -> int:
        """Look a label up: in the task's own program, in the shared code, then in any other task's."""
        for scope in (owner, None, *self._labels):
            if label in self._labels.get(scope, {}):
                return self._labels[scope][label]
        if owner is not None and label == "end":
            return self.ends[owner]
        raise InputError(f"has no label {label!r}", path=self.model.name)

    def _find_sites(self) -> list[int]:
        names = {
            (operand[1:-1], owner)
            for line, owner in zip(self.lines, self.owners, strict=True)
            for operand in line.operation.operands
            if operand.startswith("[") and not is_register(operand[1:-1]) and operand[1:-1] not in self.variables
        }
        return sorted({self.address(name, owner) for name, owner in names})

    def word(self, text: str) -> int:
        """Return the number of an instruction word."""
        return WORDS + self.words.index(str(parse_operation(text, self.model.name)))

    def depth(self) -> int:
        """Count the values that a site may have: the linked one, and one for each store."""
        stores: dict[str, int] = {}
        for line in self.lines:
            if line.operation.name == "STR":
                place = line.operation.operands[1]
                stores[place] = stores.get(place, 0) + 1
        dynamic = sum(count for place, count in stores.items() if is_register(place[1:-1]))
        return 1 + dynamic + max((n for place, n in stores.items() if place[1:-1] not in self.variables), default=0)

    def value(self, operand: str, owner: str | None) -> int | None:
        """Return the number of a constant operand; None for a register."""
        if operand == "XZR":
            return 0
        if operand.startswith("#"):
            if int(operand[1:]) >= CODE:
                raise InputError(f"{operand} is too large; numbers go up to {CODE - 1}", path=self.model.name)
            return int(operand[1:])
        if operand.startswith('"'):
            return self.word(operand[1:-1])
        if operand.startswith("="):
            name = operand[1:]
            if name in self.variables:
                return VARIABLES + self.variables.index(name)
            return CODE + self.address(name, owner)
        return None

    def off_list(self) -> list[int]:
        """Return the words whose class is not on the Arm ARM's CMODX list (``prologue.insn.cmodx``)."""
        return [WORDS + k for k, text in enumerate(self.words) if text.split()[0] not in OLD_LIST]

    def task(self, name: str) -> Thread:
        """Find a task by its name."""
        return next(task for task in self.model.tasks if task.name == name)
