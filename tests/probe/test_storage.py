"""Values that are in several registers, that are overwritten, or that have no location yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.dwarf.debug_info import open_debug
from prologue.dwarf.dwarf_entries import readable_dwarf
from prologue.elf.image import ElfImage
from prologue.probe.arguments import find_arguments
from prologue.probe.scopes import CodeBefore, Scope
from prologue.probe.storage import OPTIMISED_OUT, OVERWRITTEN
from tests.probe.made_kernel import symbol_of
from tests.probe.test_scopes import NO_DATA, arguments_at, by_clang, described

# Structs whose bit fields are in several registers, as GCC describes them (DWARF 5, 2.6.1.2).
_BITS = """
struct bits { unsigned first : 3, second : 7, third : 22; };
__attribute__((noinline)) int get(int number) { __asm__ volatile("" : "+r"(number)); return number; }
__attribute__((noinline)) void use(int number) { __asm__ volatile("" :: "r"(number)); }
void _start(int number)
{
	struct bits bits;
	bits.first = get(number);
	bits.second = get(number + 1);
	__asm__ volatile("hint 1" ::: "x0", "x1", "x2");
	bits.third = get(number + 2);
	__asm__ volatile("hint 2" ::: "x0", "x1", "x2");
	use(bits.first);
	use(bits.second);
	use(bits.third);
}
"""


@pytest.fixture(scope="module")
def bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return described(tmp_path_factory.mktemp("bits"), 5, _BITS, "-fno-stack-protector")


def hint(path: Path, number: int) -> int:
    start = symbol_of(path, "_start")
    code = ElfImage(path).read_at(start.vaddr, start.size)
    assert code is not None
    return start.vaddr + code.index((0xD503201F | number << 5).to_bytes(4, "little"))


def test_each_field_is_in_its_register(bits: Path) -> None:
    answer = arguments_at(bits, hint(bits, 2), "bits.first", "bits.second", "bits.third")
    lines, missing = answer or ([], {})
    registers = [line.partition("=")[2].partition(":")[0] for line in lines]
    assert [line.partition(":")[2] for line in lines] == ["b3@0/64", "b7@0/64", "b22@0/64"]
    assert len(set(registers)) == 3
    assert not missing


def test_a_field_that_has_no_value_yet(bits: Path) -> None:
    answer = arguments_at(bits, hint(bits, 1), "bits.first", "bits.third", "bits")
    lines, missing = answer or ([], {})
    assert [line.partition(":")[2] for line in lines] == ["b3@0/64"]
    assert missing == {"bits.third": OPTIMISED_OUT, "bits": "it is in several registers: name a member"}


_SEVERAL = """
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
    out = described(tmp_path, version, _SEVERAL, "-fstack-protector")
    assembly, guarded = symbol_of(out, "in_assembly"), symbol_of(out, "protected_by_gcc")
    had: tuple[list[str], dict[str, str]] = (["first=%x0:s64"], {})
    overwritten: tuple[list[str], dict[str, str]] = ([], {"first": OVERWRITTEN})
    at = [arguments_at(out, assembly.vaddr + offset, "first") for offset in (0, 4, 8)]
    assert at == [had, overwritten, overwritten]
    at = [arguments_at(out, vaddr, "first") for vaddr in range(guarded.vaddr, guarded.vaddr + guarded.size, 4)]
    assert at[0] == had
    assert at.count(overwritten) == 2


_UNUSED = "long _start(long first, int second, long third)\n{\n\treturn first + third;\n}\n"


@pytest.mark.parametrize("keeps", [True, False])
def test_a_parameter_without_a_location_at_the_entry(keeps: bool, tmp_path: Path) -> None:
    """Clang's begin after the landing pad, and some are never used."""
    path = by_clang(tmp_path, _UNUSED, "-O2", "-mbranch-protection=bti")
    start = symbol_of(path, "_start").vaddr
    with readable_dwarf(path, "debug information"):
        debug = open_debug(ElfImage(path))
        found = debug.function_at(start) if debug is not None else None
        assert found is not None
        before = CodeBefore(keeps_arguments=keeps, has_set=lambda _: False)
        arguments, omitted = find_arguments(None, Scope(*found, start, code_before=before), NO_DATA)
    wanted = ["first=%x0:s64", "second=%x1:s32", "third=%x2:s64"]
    assert [str(argument) for argument in arguments] == (wanted if keeps else [])
    assert [each.asked for each in omitted] == ([] if keeps else ["first", "second", "third"])
