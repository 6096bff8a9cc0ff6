"""Variables within an instruction of the compiler's that is several of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.kernel.kernel import Kernel
from prologue.probe.storage import OVERWRITTEN
from tests.probe.test_scopes import arguments_at, described

_SOURCE = """
__attribute__((noinline)) void complain(long error)
{
	__asm__ volatile("" :: "r"(error));
}

long in_assembly(long first)
{
	long second;

	__asm__ volatile("add %0, %1, #1; nop; add %0, %0, #1" : "=r"(second) : "r"(first));
	return second;
}

void __stack_chk_fail(void) { for (;;); }
unsigned long __stack_chk_guard;
long protected_by_gcc(long first)
{
	char room[16];

	__asm__ volatile("" :: "r"(room) : "memory");
	complain(3);
	return first;
}
"""


@pytest.mark.parametrize("version", [4, 5])
def test_one_instruction_of_the_compiler_that_is_several(tmp_path: Path, version: int) -> None:
    """Within it, the compiler still says that a variable is in a register that has something else already."""
    out = described(tmp_path, version, _SOURCE, "-fstack-protector")
    symbols = Kernel(out).symbols
    assembly, guarded = symbols.find("in_assembly"), symbols.find("protected_by_gcc")
    assert assembly is not None
    assert guarded is not None
    had: tuple[list[str], dict[str, str]] = (["first=%x0:s64"], {})
    overwritten: tuple[list[str], dict[str, str]] = ([], {"first": OVERWRITTEN})
    at = [arguments_at(out, assembly.vaddr + offset, "first") for offset in (0, 4, 8)]
    assert at == [had, overwritten, overwritten]
    at = [arguments_at(out, vaddr, "first") for vaddr in range(guarded.vaddr, guarded.vaddr + guarded.size, 4)]
    assert at[0] == had
    assert at.count(overwritten) == 2
