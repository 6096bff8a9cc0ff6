"""The way from ftrace_init to ftrace_init_nop: with symbols that say little, and by a linker's veneer."""

from __future__ import annotations

import struct

import pytest

from prologue.insn.a64 import RET, encode_b
from prologue.kernel.init_path import reached, reaches_init_nop
from prologue.kernel.kernel import Kernel
from tests.mini_kernel.build import Spec
from tests.support.assembler import assemble
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit


def leads_there(elf: ElfEdit) -> bool | None:
    kernel = Kernel(elf.path)
    return reaches_init_nop(kernel.text, kernel.symbols)


@pytest.mark.parametrize("returns", [False, True])
def test_a_symbol_without_type_and_size(mini: Mini, *, returns: bool) -> None:
    with edit(mini(Spec())) as elf:
        elf.set_symbol("ftrace_init", info=0x10)  # STB_GLOBAL, STT_NOTYPE
        struct.pack_into("<Q", elf.data, elf.symbol_offset("ftrace_init") + 16, 0)
        if returns:
            elf.set_word(elf.value("ftrace_init"), RET)
    assert leads_there(elf) is not returns


@pytest.mark.parametrize(("distance", "found"), [(0, True), (64, False)])
def test_by_a_veneer(mini: Mini, distance: int, *, found: bool) -> None:
    """ftrace_init calls what jumps far away."""
    with edit(mini(Spec())) as elf:
        start, veneer, target = elf.value("ftrace_init"), elf.value("say"), elf.value("ftrace_init_nop") + distance
        elf.set_word(start, encode_b(start, veneer, link=True))
        elf.set_word(start + 4, RET)
        pages = (target >> 12) - (veneer >> 12)
        elf.set_word(veneer, 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)
        elf.set_word(veneer + 4, assemble(f"add x16, x16, #{target & 0xFFF}"))
        elf.set_word(veneer + 8, assemble("br x16"))
    assert leads_there(elf) is found


def test_no_such_function(mini: Mini) -> None:
    with edit(mini(Spec())) as elf:
        elf.rename_symbol("ftrace_init_nop", "other")
    assert leads_there(elf) is None


def test_a_copy_for_one_caller(mini: Mini) -> None:
    """GCC calls ftrace_init_nop.constprop.0, and nothing calls ftrace_init_nop."""
    kernel = Kernel(mini(Spec(options=("-O3",))))
    copy = kernel.symbols.find("ftrace_init_nop.constprop.0")
    assert copy is not None, "this compiler makes none: use another function"
    assert reaches_init_nop(kernel.text, kernel.symbols) is True


def test_every_block_of_a_jump_table_is_followed(mini: Mini) -> None:
    """A block that only the table leads to stands after a branch that always goes elsewhere."""
    code = ["nop", "br x0", "mov x1, #1", "b #12", "mov x2, #2", "ret", "ret"]
    with edit(mini(Spec())) as elf:
        start = elf.value("ftrace_init")
        for k, line in enumerate(code):
            elf.set_word(start + 4 * k, assemble(line))
        struct.pack_into("<Q", elf.data, elf.symbol_offset("ftrace_init") + 16, 4 * len(code))
    kernel = Kernel(elf.path)
    (function,) = reached(kernel.text, kernel.symbols, start, 1)
    assert {vaddr for run in function.runs for vaddr in range(*run, 4)} == {start + 4 * k for k in range(len(code))}
