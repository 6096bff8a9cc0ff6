"""Structs whose bit fields are in several registers, as GCC describes them (DWARF 5, 2.6.1.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.probe.storage import OPTIMISED_OUT
from tests.mini_kernel.build import run_command
from tests.probe.test_scopes import arguments_at
from tests.support.needs import needs_tools

_SOURCE = """
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
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tools("aarch64-linux-gnu-gcc")
    directory = tmp_path_factory.mktemp("bits")
    (directory / "bits.c").write_text(_SOURCE)
    path = directory / "bits"
    flags = ["-O2", "-g", "-nostdlib", "-static", "-fno-stack-protector"]
    run_command(["aarch64-linux-gnu-gcc", *flags, "-o", str(path), str(directory / "bits.c")])
    return path


def hint(path: Path, number: int) -> int:
    image = ElfImage(path)
    start = Symbols(image).find("_start")
    assert start is not None
    code = image.read_at(start.vaddr, start.size)
    assert code is not None
    return start.vaddr + code.index((0xD503201F | number << 5).to_bytes(4, "little"))


def test_each_field_is_in_its_register(made: Path) -> None:
    answer = arguments_at(made, hint(made, 2), "bits.first", "bits.second", "bits.third")
    assert answer is not None
    lines, missing = answer
    registers = [line.partition("=")[2].partition(":")[0] for line in lines]
    assert [line.partition(":")[2] for line in lines] == ["b3@0/64", "b7@0/64", "b22@0/64"]
    assert len(set(registers)) == 3
    assert not missing


def test_a_field_that_has_no_value_yet(made: Path) -> None:
    answer = arguments_at(made, hint(made, 1), "bits.first", "bits.third", "bits")
    assert answer is not None
    lines, missing = answer
    assert [line.partition(":")[2] for line in lines] == ["b3@0/64"]
    assert missing == {"bits.third": OPTIMISED_OUT, "bits": "it is in several registers: name a member"}
