"""PL407: the code that obeys the marker is broken somewhere, in kernels that carry our patch.

A boot that never gets to ftrace_init_nop, in a kernel without prologues, is PL408's.
"""

from __future__ import annotations

from collections.abc import Callable

from prologue.insn import a64
from prologue.sites.kernel import Kernel
from tests.mutation.mutation import NONE, Mutation
from tests.mutation.world import World

FLAG = "ftrace_prologues_built"
READER, INIT_NOP = "ftrace_dyn_arch_init", "ftrace_init_nop"
ADJUST = ("ftrace_call_adjust", "ftrace_record_is_adjusted")
_CBZ = 1 << 24  # CBZ or CBNZ


def body(world: World, *names: str) -> list[int]:
    """Addresses of the instructions of the first of the functions that exists."""
    found = next(symbol for symbol in map(world.original.symbols.find, names) if symbol is not None)
    return list(range(found.vaddr, found.vaddr + found.size, 4))


def _of(world: World, places: list[int], mask: int, value: int) -> list[int]:
    return [place for place in places if world.word(place) & mask == value]


def _flag_load(world: World, *names: str) -> int:
    """The LDRB of the flag: the first one of the function."""
    return _of(world, body(world, *names), 0xFFC00000, 0x39400000)[0]


def _flag_branch(world: World, *names: str) -> int:
    """The CBZ or CBNZ on the flag, after its load."""
    load = _flag_load(world, *names)
    register = world.word(load) & 31
    return next(p for p in _of(world, body(world, *names), 0xFE00001F, 0x34000000 | register) if p > load)


def another_bit(world: World) -> None:
    """AND Wd, Wn, #1 becomes AND Wd, Wn, #2 (or #4 and so on): immr rotates the one to the left."""
    (place,) = _of(world, body(world, READER), 0xFFFFFC00, 0x12000000)
    world.set_word(place, world.word(place) | (32 - world.seed.randrange(1, 32)) << 16)


def another_word(world: World) -> None:
    """The reader loads some other field of the marker, or what is next to it."""
    load = [
        *_of(world, body(world, READER), 0xFF400000, 0x39400000),
        *_of(world, body(world, READER), 0xFFC00000, 0xB9400000),
    ]
    distance = world.seed.choice((-4, -3, 1, 2, 5, 6))
    world.set_word(load[0], world.word(load[0]) + (distance << 10))


def not_kept(world: World) -> None:
    """The reader keeps nothing: its store is gone."""
    (place,) = _of(world, body(world, READER), 0xFFC00000, 0x39000000)
    world.set_word(place, a64.NOP)


def kept_elsewhere(world: World) -> None:
    """It keeps the flag in another variable."""
    (place,) = _of(world, body(world, READER), 0xFFC00000, 0x39000000)
    world.set_word(place, world.word(place) ^ world.seed.randrange(1, 16) << 10)


def always_set(world: World) -> None:
    """It keeps a 1, whatever the marker says; AND becomes MOVZ."""
    (place,) = _of(world, body(world, READER), 0xFFFFFC00, 0x12000000)
    world.set_word(place, 0x52800020 | world.word(place) & 31)


def inverted(*names: str) -> Callable[[World], None]:
    """The branch on the flag is the opposite one."""

    def mutate(world: World) -> None:
        place = _flag_branch(world, *names)
        world.set_word(place, world.word(place) ^ _CBZ)

    return mutate


def gone(*names: str) -> Callable[[World], None]:
    """The branch on the flag is a NOP."""
    return lambda world: world.set_word(_flag_branch(world, *names), a64.NOP)


def unconditional(*names: str) -> Callable[[World], None]:
    """The branch on the flag is always taken."""

    def mutate(world: World) -> None:
        place = _flag_branch(world, *names)
        target = a64.branch_target(world.word(place), place)
        assert target is not None
        world.set_word(place, a64.encode_b(place, target))

    return mutate


def another_flag(*names: str) -> Callable[[World], None]:
    """The function looks at another variable."""

    def mutate(world: World) -> None:
        load = _flag_load(world, *names)
        world.set_word(load, world.word(load) ^ world.seed.randrange(1, 16) << 10)

    return mutate


def error(world: World) -> None:
    """What init_nop returns is an error, also when all is well: MOV W0, #0 becomes MOV W0, #5 or so."""
    places = body(world, INIT_NOP)
    (first, *more) = [*_of(world, places, 0xFFFFFFFF, 0x52800000), *_of(world, places, 0xFFFFFFFF, 0x2A1F03E0)]
    for place in (first, *more):
        world.set_word(place, 0x52800000 | world.seed.randrange(1, 100) << 5)


def not_asked(world: World) -> None:
    """Nobody asks whether a record is adjusted: the call gives 0, or what the record is."""
    targets = {body(world, name)[0] for name in ADJUST if world.original.symbols.find(name) is not None}
    for place in _of(world, body(world, "ftrace_process_locs"), 0xFC000000, 0x94000000):
        if a64.branch_target(world.word(place), place) in targets:
            world.set_word(place, world.seed.choice((a64.MOV_W0_0, 0x91001000)))  # ADD X0, X0, #4


def not_read(world: World) -> None:
    """The boot does not call the reader."""
    target = body(world, READER)[0]
    for place in _of(world, body(world, "ftrace_init"), 0xFC000000, 0x94000000):
        if a64.branch_target(world.word(place), place) == target:
            world.set_word(place, a64.MOV_W0_0)


WAYS: tuple[Callable[[World], None], ...] = (
    another_bit, another_word, not_kept, kept_elsewhere, always_set, error, not_asked, not_read,
    *(way(INIT_NOP) for way in (inverted, gone, unconditional, another_flag)),
    # 6.1 may drop the other branch: there the record's range says the same (tests/real_kernels/test_native_code.py).
    *(way(ADJUST[0], INIT_NOP) for way in (inverted, gone, unconditional)), another_flag(*ADJUST),
)  # fmt: skip


def mutate(world: World) -> int:
    assert isinstance(world.original, Kernel)
    world.seed.choice(WAYS)(world)
    return NONE


MUTATION = Mutation(("native 6.1", "native 6.12"), mutate)
