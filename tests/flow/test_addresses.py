"""Addresses that code forms: every form that compilers use, and what only looks like one."""

from __future__ import annotations

import pytest

from prologue.flow.addresses import find_formed
from prologue.kernel.kernel import Kernel
from tests.mini_kernel.build import Spec
from tests.support.assembler import assemble_at
from tests.support.built import Mini
from tests.support.elf_edit import edit

# And where the last instruction that forms the address is, in words.
FOUND = {
    "far": ("adrp x3, target; +404; add x3, x3, :lo12:target", 101),
    "one base for two": ("adrp x0, target; add x1, x0, :lo12:target+64; add x2, x0, :lo12:target", 2),
    "base and later add": ("adrp x0, target; add x0, x0, :lo12:target-4; nop; add x1, x0, #4", 3),
    "over a call in a saved register": ("adrp x19, target; add x19, x19, :lo12:target-4; bl +12; add x0, x19, #4", 3),
    "literal": ("ret; ldr x0, #8; ret; .quad target", 1),
}
NOT_FORMED = {
    "over a call": "adrp x0, target; add x0, x0, :lo12:target-4; bl +12; add x1, x0, #4",
    "other register": "adrp x0, target; add x1, x2, :lo12:target",
    "overwritten": "adrp x0, target; mov x0, #0; add x0, x0, :lo12:target",
}


def formed(mini: Mini, form: str, function: str = "start_kernel", back: int = 0) -> tuple[int, list[tuple[int, int]]]:
    """Address where the form begins, and what is found, with the form written over a function."""
    vmlinux = mini(Spec())
    with edit(vmlinux) as elf:
        place, target = elf.value(function) - back, elf.value("work_leaf") + 4
        for k, word in enumerate(assemble_at(place, form, target=target)):
            elf.set_word(place + 4 * k, word)
    kernel = Kernel(vmlinux)
    return place, [pair for pair in find_formed(kernel, kernel.second_slots) if pair[1] == target]


@pytest.mark.parametrize("name", FOUND)
def test_found(mini: Mini, name: str) -> None:
    form, last = FOUND[name]
    place, found = formed(mini, form)
    assert [vaddr for vaddr, _ in found] == [place + 4 * last]


@pytest.mark.parametrize("name", NOT_FORMED)
def test_not_formed(mini: Mini, name: str) -> None:
    assert formed(mini, NOT_FORMED[name])[1] == []


def test_a_function_begins_in_between(mini: Mini) -> None:
    """The ADRP is the last word of the function before."""
    assert formed(mini, "adrp x0, target; add x0, x0, :lo12:target", back=4)[1] == []
