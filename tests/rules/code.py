"""The fixtures of group PL3: code and data around the sites."""

from __future__ import annotations

import struct

from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import B_LABEL_TARGET, MOV_X5_X5, Arguments, Fixture, copy_before, made
from tests.support.built import Mini
from tests.support.elf_edit import NOP, ElfEdit, edit

LABELS = Spec(labels=True)
ADD_X0_X9, MOV_W9_0, ADD_W9_W9 = 0x8B090000, 0x52800009, 0x11000529
B_NEXT, B_EQ = 0x14000001, 0x54000040
REACH = 128 << 20
OF_CODE = ("--select", "PL3")  # of files it is an edit outside of the plan, too: PL403


def _branch(elf: ElfEdit, distance: int) -> None:
    """Make the last word before work_leaf a branch to work_leaf plus a distance."""
    place = elf.value("work_nested") + 16
    elf.set_word(place, 0x14000000 | ((elf.value("work_leaf") + distance - place) // 4) & 0x3FFFFFF)


def _point(elf: ElfEdit, distance: int) -> None:
    """Let the first pointer of work_table lead so much further."""
    addend = elf.rela()[elf.value("work_table")] + 16
    struct.pack_into("<q", elf.data, addend, struct.unpack_from("<q", elf.data, addend)[0] + distance)


def read_x9(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") + 8, ADD_X0_X9)


def _write_x9_first(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") + 8, MOV_W9_0)
    elf.set_word(elf.value("work_leaf") + 12, ADD_W9_W9)


def _aim_label(elf: ElfEdit, place: int) -> None:
    """Let the jump label's entry name another instruction, and one to branch to in the same function."""
    entry = next(s["sh_addr"] for s in elf.elf.iter_sections() if s.name == "__jump_table")
    struct.pack_into("<ii", elf.data, elf.offset(entry), place - entry, place + 8 - (entry + 4))


def _aim_label_elsewhere(elf: ElfEdit) -> None:
    """At a NOP that is in no pair."""
    elf.set_word(elf.value("work_nested") + 16, NOP)
    _aim_label(elf, elf.value("work_nested") + 16)


def _conditional_before(mini: Mini) -> Arguments:
    vmlinux = mini(LABELS)
    with edit(copy_before(vmlinux)) as before:
        before.set_word(before.value("label_user"), B_EQ)
    return [vmlinux, "--against", before.path, *OF_CODE]


def _same_before(mini: Mini) -> Arguments:
    vmlinux = mini(LABELS)
    return [vmlinux, "--against", copy_before(vmlinux), *OF_CODE]


FIXTURES = {
    "PL301": Fixture(
        made(Spec(), lambda elf: elf.rename_symbol("work_fibonacci", "__pi_fib")),
        made(Spec(), lambda elf: elf.rename_symbol("work_fibonacci", "_pi_fib")),
        symbol="__pi_fib",
    ),
    "PL302": Fixture(
        made(Spec(), lambda elf: _branch(elf, 4)), made(Spec(), lambda elf: _branch(elf, 0)), symbol="work_nested"
    ),
    "PL303": Fixture(
        made(Spec(), lambda elf: _point(elf, 4)), made(Spec(), lambda elf: _point(elf, 8)), symbol="work_table"
    ),
    "PL304": Fixture(made(Spec(), read_x9), made(Spec(), _write_x9_first), symbol="work_leaf"),
    "PL305": Fixture(
        made(LABELS, lambda elf: _aim_label(elf, elf.value("work_leaf") + 4)),
        made(LABELS, _aim_label_elsewhere),
        symbol="work_leaf",
    ),
    "PL306": Fixture(
        made(Spec(), lambda elf: elf.set_symbol("ftrace_caller", value=elf.value("work_leaf") + 4 + REACH + 4096)),
        made(Spec(), lambda elf: elf.set_symbol("ftrace_caller", value=elf.value("work_empty") + 4 + REACH - 4096)),
    ),
    "PL307": Fixture(made(ModuleSpec(linked=False)), made(ModuleSpec()), symbol="module_leaf"),
    "PL308": Fixture(
        made(LABELS, lambda elf: elf.set_word(elf.value("label_user"), MOV_X5_X5)),
        made(LABELS, lambda elf: elf.set_word(elf.value("label_user"), B_LABEL_TARGET)),
        symbol="label_user",
    ),
    "PL309": Fixture(
        made(LABELS, lambda elf: elf.set_word(elf.value("label_user"), B_NEXT)),
        made(LABELS, lambda elf: elf.set_word(elf.value("label_user"), B_LABEL_TARGET)),
        symbol="label_user",
    ),
    "PL310": Fixture(_conditional_before, _same_before, symbol="label_user"),
}
