"""The fixtures of group PL1: records."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import Arguments, Fixture, Maker, forget, made
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit

STOCK, SECOND, APPLIED = Spec(contract="stock"), Spec(marker=2), Spec(form="rela-applied")
ORDERED = Spec(marker=2, zeros=True)


def _cut_in_half(elf: ElfEdit) -> None:
    elf.set_symbol("__start_mcount_loc", value=elf.value("__start_mcount_loc") + 4)


def _begin_one_record_later(elf: ElfEdit) -> None:
    forget(elf, elf.record(elf.slots()[0]))
    elf.set_symbol("__start_mcount_loc", value=elf.value("__start_mcount_loc") + 8)


def _relocate_twice(elf: ElfEdit) -> None:
    """The neighbour has no relocation then."""
    one, other = elf.live_slots()[:2]
    forget(elf, elf.record(one))  # the later entry wins, so this is the function that loses its record
    struct.pack_into("<Q", elf.data, elf.rela()[other], one)


def _zero_record(elf: ElfEdit) -> None:
    forget(elf, elf.record(elf.live_slots()[1]))
    entry = elf.rela()[elf.live_slots()[1]]
    elf.data[entry : entry + 24] = b"\0" * 24  # R_AARCH64_NONE


def _absolute(elf: ElfEdit) -> None:
    slot = elf.live_slots()[3]
    forget(elf, elf.record(slot))
    struct.pack_into("<Q", elf.data, elf.rela()[slot] + 8, 0x101)  # R_AARCH64_ABS64


def _another_slot(elf: ElfEdit) -> None:
    slot = elf.live_slots()[3]
    elf.set_quad(slot, elf.record(slot) + 64)


def _lead(elf: ElfEdit, place: int) -> None:
    """Let the record of work_leaf lead elsewhere."""
    elf.set_record(elf.slot_of("work_leaf"), place)
    forget(elf, elf.value("work_leaf"))


def _exchange(elf: ElfEdit) -> None:
    one, other = elf.live_slots()[4:6]
    first, second = elf.record(one), elf.record(other)
    elf.set_record(one, second)
    elf.set_record(other, first)


def set_release(elf: ElfEdit, release: str) -> None:
    """Make it a kernel of some release."""
    banner = f"Linux version {release}-mini\0".encode()
    elf.rename_symbol("aarch64_insn_gen_branch_link", "linux_banner")
    at = elf.offset(elf.value("die_exception"))
    elf.set_symbol("aarch64_insn_gen_branch_link", value=elf.value("die_exception"))
    elf.data[at : at + len(banner)] = banner


def _zeros_in(release: str) -> Maker:
    """With an ftrace_call_adjust that is inline as before 6.3."""

    def make(mini: Mini) -> Arguments:
        path: Path = mini(Spec(zeros=True, contract="stock"))
        with edit(path) as elf:
            elf.rename_symbol("ftrace_call_adjust", "inlined")
            set_release(elf, release)
        return [path]

    return make


def lose_symbol(elf: ElfEdit, function: str = "work_leaf") -> None:
    """Put a function's symbol one instruction too late."""
    elf.set_symbol(function, value=elf.symbols[function]["st_value"] + 12, info=0x10)  # STB_GLOBAL, STT_NOTYPE


def _move(elf: ElfEdit) -> None:
    slot = elf.slot_of("work_leaf")
    elf.set_record(slot, elf.record(slot) + 4)


def _empty_table(elf: ElfEdit) -> None:
    elf.set_symbol("__stop_mcount_loc", value=elf.value("__start_mcount_loc"))


def _trace_nothing(elf: ElfEdit) -> None:
    for slot in elf.live_slots():
        forget(elf, elf.record(slot))
    _empty_table(elf)


def _relocate_the_table(elf: ElfEdit) -> None:
    entry = min(elf.rela()[place] for place in elf.rela() if place)
    struct.pack_into("<Q", elf.data, entry, elf.value("__start_mcount_loc") + 8)


def _end_relocations(elf: ElfEdit) -> None:
    entry = min(elf.rela()[place] for place in elf.rela() if place)
    elf.data[entry : entry + 24] = bytes(24)


def _name_a_record_twice(elf: ElfEdit) -> None:
    half = (elf.value("__start_mcount_loc") + elf.value("__stop_mcount_loc")) // 2
    elf.set_word(half + 20, elf.word(half + 24))


FIXTURES = {
    # A kernel whose code PL407 does not follow.
    "PL101": Fixture(made(STOCK, _cut_in_half), made(STOCK, _begin_one_record_later), contract="stock"),
    "PL102": Fixture(made(Spec(), _relocate_twice), made(Spec(), _zero_record)),
    "PL103": Fixture(made(Spec(), _absolute), made(Spec())),
    "PL104": Fixture(made(APPLIED, _another_slot), made(APPLIED, processed=True)),  # processing moves both
    "PL105": Fixture(made(Spec(), lambda elf: _lead(elf, elf.value("__start_mcount_loc"))), made(Spec())),
    "PL106": Fixture(
        made(Spec(), lambda elf: _lead(elf, elf.record(elf.slot_of("work_empty")))), made(Spec()), symbol="work_empty"
    ),
    "PL107": Fixture(made(Spec(zeros=True), _exchange), made(Spec(zeros=True))),
    "PL108": Fixture(_zeros_in("6.1.0"), _zeros_in("6.15.0"), contract="stock"),
    # A local symbol without a type is a name, too.
    "PL109": Fixture(made(Spec(), lose_symbol), made(Spec(), lambda elf: elf.set_symbol("work_leaf", info=0x00))),
    "PL110": Fixture(made(Spec(), _move), made(Spec(), processed=True), symbol="work_leaf"),
    "PL111": Fixture(made(ModuleSpec(compiler="clang", merged=False)), made(ModuleSpec(compiler="clang"))),
    "PL112": Fixture(made(STOCK, _empty_table), made(STOCK, _trace_nothing), contract="stock"),
    "PL113": Fixture(made(SECOND, _relocate_the_table, processed=True), made(SECOND, processed=True)),
    "PL114": Fixture(made(SECOND, _end_relocations, processed=True), made(SECOND, processed=True)),
    "PL115": Fixture(
        made(ORDERED, _name_a_record_twice, processed=True),
        made(ORDERED, processed=True),
        symbol="__ftrace_prologue_marker",
    ),
}
