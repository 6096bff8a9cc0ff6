"""PL407: the boot no longer reads the marker, in kernels that carry our patch.

A boot that never gets to ftrace_init_nop, in a kernel without prologues, is PL408's.
"""

from __future__ import annotations

from collections.abc import Callable

from prologue.insn import a64
from prologue.insn.decode import ADRP, Pattern
from prologue.kernel.held_address import loaded
from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import SYMBOL
from prologue.kernel.marker_reader import FLAGS
from tests.mutation.mutation import NONE, Mutation
from tests.mutation.world import World

READER = "arch_ftrace_begin_records"
CALLER = "ftrace_make_core_records"  # in ftrace_init, unless the compiler inlined it
_SIZE = 24


def _body(world: World, name: str) -> list[int]:
    """Addresses of a function's instructions."""
    found = world.original.symbols.find(name)
    assert found is not None
    return list(range(found.vaddr, found.vaddr + found.size, 4))


def _marker(world: World) -> int:
    found = world.original.symbols.find(SYMBOL)
    assert found is not None
    return found.vaddr


def _load(world: World) -> int:
    """The reader's load of the flags, whose offset the compiler put into the load."""
    flags = _marker(world) + FLAGS
    for place in _body(world, READER):
        word = world.word(place)
        address, width = loaded(word, word >> 5 & 31, 0)
        if 0 < width <= 4 and address in (FLAGS, flags & 0xFFF):
            return place
    raise AssertionError("no load of the flags")


def _of(world: World, pattern: Pattern) -> list[int]:
    mask, value = pattern
    return [place for place in _body(world, READER) if world.word(place) & mask == value]


def another_word(world: World) -> None:
    """The reader loads some other field of the marker, or what is next to it."""
    place = _load(world)
    world.set_word(place, world.word(place) + (world.seed.choice((-3, -2, 1, 2, 3, 4)) << 10))


def another_page(world: World) -> None:
    """Every address that it forms is some pages away."""
    distance = world.seed.choice((-9, -4, 3, 8))
    for place in _of(world, ADRP):
        word = world.word(place)
        pages = (word >> 5 & 0x7FFFF) + distance & 0x7FFFF
        world.set_word(place, word & ~(0x7FFFF << 5) | pages << 5)


def another_base(world: World) -> None:
    """The load is by a register that holds something else."""
    place = _load(world)
    world.set_word(place, world.word(place) & ~(31 << 5) | 31 << 5)


def not_loaded(world: World) -> None:
    """The load is gone, or a store is in its place."""
    place = _load(world)
    world.set_word(place, world.seed.choice((a64.NOP, world.word(place) & ~(3 << 22))))


def returns_before(world: World) -> None:
    """The reader returns before its load."""
    before = [place for place in _body(world, READER) if place <= _load(world)]
    world.set_word(world.seed.choice(before), a64.RET)


def not_called(world: World) -> None:
    """The boot does not call the reader."""
    (target, *_) = _body(world, READER)
    inlined = world.original.symbols.find(CALLER) is None
    for place in _body(world, "ftrace_init" if inlined else CALLER):
        if world.word(place) & 0xFC000000 == 0x94000000 and a64.branch_target(world.word(place), place) == target:
            world.set_word(place, a64.MOV_W0_0)


def elsewhere(world: World) -> None:
    """The marker and its symbol are somewhere else in init data."""
    old = _marker(world)
    new = old + 8 * world.seed.randrange(3, 64)
    begin = world.offset(old)
    world.write(world.offset(new), bytes(world.memory[begin : begin + _SIZE]))
    (row,) = [row for row in world.rows_at(old) if world.name(row) == SYMBOL]
    world.set_symbol(row, value=new)


WAYS: tuple[Callable[[World], None], ...] = (
    another_word, another_page, another_base, not_loaded, returns_before, not_called, elsewhere,
)  # fmt: skip


def mutate(world: World) -> int:
    assert isinstance(world.original, Kernel)
    world.seed.choice(WAYS)(world)
    return NONE


MUTATION = Mutation(("native 6.1", "native 6.12"), mutate)
