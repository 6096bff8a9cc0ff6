"""What is known at one place of code that is followed: registers, flags and memory."""

from __future__ import annotations

from typing import Final

from prologue.sites.values import LOW, Flags, Limits, Some, Value, apply

SP: Final = 31  # index of the stack pointer among the registers; as an operand, 31 mostly is XZR
STACK: Final = 1 << 62  # where stacks are thought to be: no address of arm64 Linux
_STACK_END: Final = STACK + (1 << 60)


def on_stack(value: Value) -> bool:
    """Whether it is an address in a stack."""
    return isinstance(value, int) and STACK <= value < _STACK_END


class Knowledge:
    """Registers, flags and memory at one place of the code. ``cells``: address to (bytes, value)."""

    __slots__ = ("cells", "flags", "literal", "regs")

    def __init__(self, regs: list[Value], cells: dict[int, tuple[int, Value]]) -> None:
        self.regs = regs
        self.cells = cells
        self.flags: Flags = None
        self.literal = False  # whether the site's CALL_OPS literal has been written

    def copy(self) -> Knowledge:
        """Another state that knows the same."""
        twin = Knowledge(self.regs.copy(), self.cells.copy())
        twin.flags, twin.literal = self.flags, self.literal
        return twin

    def join(self, other: Knowledge, limits: Limits, *, again: bool) -> bool:
        """Keep only what is known of both; whether that changed anything."""
        changed = False
        for k, (mine, theirs) in enumerate(zip(self.regs, other.regs, strict=True)):
            if mine is not None and mine != theirs:
                self.regs[k] = limits.join(mine, theirs, again=again)
                changed |= self.regs[k] != mine
        for at, cell in list(self.cells.items()):
            found = other.cells.get(at)
            if found == cell:
                continue
            value = limits.join(cell[1], found[1], again=again) if found and found[0] == cell[0] else None
            if value is None:
                del self.cells[at]
            else:
                self.cells[at] = (cell[0], value)
            changed |= value != cell[1]
        if self.flags is not None and self.flags != other.flags:
            self.flags, changed = None, True
        return changed

    # registers and memory

    def read(self, register: int, width: int = 64) -> Value:
        """An operand of which 31 is the zero register."""
        if register == 31:
            return 0
        value = self.regs[register]
        return value if width == 64 else low_half(value)

    def write(self, register: int, value: Value) -> None:
        """Set a register; 31 is the zero register."""
        if register != 31:
            self.regs[register] = value

    def load(self, address: Value, size: int) -> Value:
        """What is known of memory; narrower loads see part of a cell."""
        if not isinstance(address, int):
            return None
        cell = self.cells.get(address)
        if cell is not None and cell[0] == size:
            return cell[1]
        for at in range(address, address - 8, -1):
            cell = self.cells.get(at)
            if cell is not None and at + cell[0] >= address + size:
                return _part(cell[1], address - at, size)
        return None

    def store(self, address: int, size: int, value: Value) -> None:
        """Set bytes at an address."""
        self.forget(address, size)
        if value is not None:
            kept = value if size == 8 else low_half(value) if size == 4 else _part(value, 0, size)
            if kept is not None:
                self.cells[address] = (size, kept)

    def kept(self, *, stack: bool) -> dict[int, tuple[int, Value]]:
        """The cells in the stack, or those outside of it."""
        return {at: cell for at, cell in self.cells.items() if on_stack(at) == stack}

    def forget(self, address: int, size: int) -> None:
        """Nothing is known any more of these bytes."""
        for at in range(address - 7, address + size):
            cell = self.cells.get(at)
            if cell is not None and at + cell[0] > address:
                del self.cells[at]


def _part(value: Value, at: int, size: int) -> Value:
    """Some bytes of a value."""
    return apply(lambda n: n >> 8 * at & (1 << 8 * size) - 1, value)


def low_half(value: Value) -> Value:
    """A value as a W register has it."""
    if isinstance(value, int):
        return value & LOW
    return value if value is Some.NONZERO else apply(lambda n: n & LOW, value)
