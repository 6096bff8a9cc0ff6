"""The fixtures of group PL2: patch sites."""

from __future__ import annotations

from typing import Final

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, forget, made
from tests.support.elf_edit import BTI_C, MOV, NOP, ElfEdit

CALL_OPS, PADDED = Spec(layout="4,2"), Spec(layout="4,2", bti=True)
PACIASP, BL_SOMEWHERE = 0xD503233F, 0x94000010
OTHER_FLAGS: Final = (
    "find what wrote there after the compiler, or compile that object with the flags of the kernel (CC_FLAGS_FTRACE in"
    " arch/arm64/Makefile): objects of -fpatchable-function-entry=1 look like that; link again"
)


def call_in_second_slot(elf: ElfEdit) -> None:
    elf.set_word(elf.value("work_leaf") + 4, BL_SOMEWHERE)


def _overwrite_pad(elf: ElfEdit) -> None:
    start = elf.value("work_leaf")
    assert elf.word(start) == BTI_C
    elf.set_word(start, MOV)
    elf.set_word(start + 4, BTI_C)


def _drop_record(elf: ElfEdit) -> None:
    """Its relocation included."""
    entry = elf.rela()[elf.slot_of("work_leaf")]
    elf.data[entry : entry + 24] = b"\0" * 24


def _drop_function(elf: ElfEdit) -> None:
    _drop_record(elf)
    forget(elf, elf.value("work_leaf"))


def _move_pair(elf: ElfEdit, before: int) -> None:
    """Put the pair one word later, the record too, and an instruction where it was."""
    slot, start = elf.slot_of("work_struct"), elf.value("work_struct")
    elf.set_word(start, before)
    elf.set_word(start + 8, NOP)
    elf.set_record(slot, start + 4)


FIXTURES = {
    "PL201": Fixture(made(Spec(), call_in_second_slot), made(Spec()), symbol="work_leaf", fix=OTHER_FLAGS),
    "PL202": Fixture(
        made(Spec(), lambda elf: elf.set_word(elf.value("work_leaf"), MOV)),
        made(Spec(), processed=True),
        symbol="work_leaf",
        finished=True,
    ),
    "PL203": Fixture(made(PADDED, _overwrite_pad), made(PADDED, processed=True), symbol="work_leaf"),
    "PL204": Fixture(made(PADDED, lambda elf: elf.set_word(elf.value("work_leaf") - 4, 0)), made(PADDED)),
    "PL205": Fixture(
        made(CALL_OPS, lambda elf: elf.rename_symbol("aarch64_insn_gen_branch_link", "report_cfi_failure")),
        made(CALL_OPS),
        symbol="report_cfi_failure",
    ),
    "PL206": Fixture(made(Spec(), _drop_record), made(Spec(), _drop_function), symbol="work_leaf"),
    "PL207": Fixture(
        made(Spec(), lambda elf: _move_pair(elf, PACIASP)),
        made(Spec(), lambda elf: _move_pair(elf, BTI_C)),
        symbol="work_struct",
    ),
    # A function that begins where the kernel takes its second slot to be, as =2,1 makes them.
    "PL208": Fixture(
        made(Spec(), lambda elf: elf.set_symbol("work_leaf", value=elf.value("work_leaf") + 4)),
        made(Spec()),
        symbol="work_leaf",
    ),
}
