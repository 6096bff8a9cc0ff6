"""Addresses that code forms: every form that compilers use, and what only looks like one."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from prologue.flow.addresses import find_formed
from prologue.insn.a64 import NOP
from prologue.kernel.kernel import Kernel
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit

RET, BL_NEXT, LDR_X0_NEXT_QUAD = 0xD65F03C0, 0x94000001, 0x58000040


def adrp(register: int, place: int, target: int) -> int:
    pages = (target >> 12) - (place >> 12)
    return 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register


def add(to: int, source: int, number: int) -> int:
    return 0x91000000 | (number & 0xFFF) << 10 | source << 5 | to


def far(place: int, target: int) -> list[int]:
    return [adrp(3, place, target), *[NOP] * 100, add(3, 3, target)]


def one_base_for_two(place: int, target: int) -> list[int]:
    return [adrp(0, place, target), add(1, 0, target + 64), add(2, 0, target)]


def base_and_later_add(place: int, target: int) -> list[int]:
    return [adrp(0, place, target), add(0, 0, target - 4), NOP, add(1, 0, 4)]


def over_a_call_in_a_saved_register(place: int, target: int) -> list[int]:
    return [adrp(19, place, target), add(19, 19, target - 4), BL_NEXT, add(0, 19, 4)]


def literal(place: int, target: int) -> list[int]:
    del place
    return [RET, LDR_X0_NEXT_QUAD, RET, *struct.unpack("<II", target.to_bytes(8, "little"))]


def over_a_call(place: int, target: int) -> list[int]:
    return [adrp(0, place, target), add(0, 0, target - 4), BL_NEXT, add(1, 0, 4)]


def other_register(place: int, target: int) -> list[int]:
    return [adrp(0, place, target), add(1, 2, target)]


def overwritten(place: int, target: int) -> list[int]:
    return [adrp(0, place, target), 0xD2800000, add(0, 0, target)]  # MOV X0, #0


Form = Callable[[int, int], list[int]]


def formed(mini: Mini, form: Form, function: str = "start_kernel", back: int = 0) -> tuple[int, list[tuple[int, int]]]:
    """Address where the form begins, and what is found, with the form written over a function."""
    vmlinux = mini(Spec())
    elf = ElfEdit(vmlinux)
    place, target = elf.value(function) - back, elf.value("work_leaf") + 4
    for k, word in enumerate(form(place, target)):
        elf.set_word(place + 4 * k, word)
    elf.save(vmlinux)
    kernel = Kernel(vmlinux)
    return place, [pair for pair in find_formed(kernel, kernel.second_slots) if pair[1] == target]


@pytest.mark.parametrize(
    ("form", "last"),
    [(far, 101), (one_base_for_two, 2), (base_and_later_add, 3), (over_a_call_in_a_saved_register, 3), (literal, 1)],
)
def test_found(mini: Mini, form: Form, last: int) -> None:
    place, found = formed(mini, form)
    assert [vaddr for vaddr, _ in found] == [place + 4 * last]


@pytest.mark.parametrize("form", [over_a_call, other_register, overwritten])
def test_not_formed(mini: Mini, form: Form) -> None:
    assert formed(mini, form)[1] == []


def test_a_function_begins_in_between(mini: Mini) -> None:
    """The ADRP is the last word of the function before."""
    assert formed(mini, lambda place, target: [adrp(0, place, target), add(0, 0, target)], back=4)[1] == []
