"""Inlined code, lines that call it, and functions of which GCC separates a part: elsewhere, or put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.dwarf.debug_info import open_debug
from prologue.dwarf.statements import declared, function_statements, inlined_into
from prologue.elf.image import ElfImage
from prologue.probe.language import parse_request
from prologue.probe.places import find_places
from prologue.probe.probe_target import ProbeTarget
from tests.mini_kernel.build import run_command
from tests.probe.made_kernel import TOOLS, module_target, symbol_of
from tests.probe.test_scopes import arguments_at, described
from tests.support.needs import needs_tools

# GCC separates all after the first return, and puts it back, as nothing else calls it.
DIVIDED = """
__attribute__((noipa)) int next(long *list, int last) { return list[last]; }
int divided(long *list, int number)
{
	int error = 0;
	long *before = list;
	if (__builtin_expect(!before, 1))
		return error;
	error = next(list, 0);
	while (error) {
		error = next(list, error + number);
		number += next(list, 0);
	}
	number += next(list, number);
	next(list, number);
	next(list + number, 0);
	return number + error;
}
int calls_divided(void) { return divided(0, 1); }
"""

# Line 10 is where split() is declared, and where one of its callers calls it, as if GCC had separated a part of it.
# Line 50 calls twice(), whose code has that line once more, as if GCC had copied a part of it.
_SOURCE = (
    """
#line 10 "some.c"
static inline __attribute__((always_inline)) void split(long number) { __asm__ volatile("nop" :: "r"(number)); }
#line 8
void itself(long own)
{
	split(own);
}
void caller(long own)
{
	split(own + 1);
}
#line 30
static inline __attribute__((always_inline)) void twice(long number)
{
	__asm__ volatile("nop" :: "r"(number));
#line 50
	__asm__ volatile("hint 1" :: "r"(number));
}
#line 48
void calls(long own)
{
	twice(own);
}
#line 5 "other.h"
static inline __attribute__((always_inline)) void foreign(long number) { __asm__ volatile("nop" :: "r"(number)); }
#line 80 "some.c"
void before(long own)
{
	__asm__ volatile("" :: "r"(own));
	foreign(own);
}
#line 100
static inline __attribute__((always_inline)) void between(long number)
{
	foreign(number + 1);
}
void outer(long own)
{
	__asm__ volatile("nop" :: "r"(own));
	between(own);
}
#line 120"""
    + DIVIDED
)


@pytest.fixture(scope="module", params=[4, 5])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ProbeTarget:
    return compiled(tmp_path_factory.mktemp("inlined"), f"-gdwarf-{request.param}")


def compiled(directory: Path, *more: str) -> ProbeTarget:
    needs_tools(*TOOLS)
    source, made = directory / "some.c", directory / "some.ko"
    source.write_text(_SOURCE)
    flags = ["-O2", "-g", *more, "-ffreestanding"]
    run_command(["aarch64-linux-gnu-gcc", *flags, "-c", str(source), "-o", str(made)])
    return module_target(made)


def places(target: ProbeTarget, asked: str) -> list[tuple[str, str, str]]:
    """Symbol and offset of each place, the function whose variables are meant, and what that is inlined in."""
    return [
        (target.place_text(place.vaddr).partition(":")[2], place.function, place.inlined_in)
        for place in find_places(target, parse_request(asked))
    ]


def test_a_part_of_a_function_is_not_a_call_of_it(target: ProbeTarget) -> None:
    assert [inlined_in for _, _, inlined_in in places(target, "split")] == ["caller"]


@pytest.mark.parametrize("asked", ["divided:8", "some.c:129"])
def test_a_part_of_a_function_that_was_put_back_is_no_call(target: ProbeTarget, asked: str) -> None:
    """GCC separates all after the first return, and puts it back, as nothing else calls it."""
    assert {(function, outer) for _, function, outer in places(target, asked)} == {("divided", "")}


@pytest.mark.parametrize("asked", ["calls:2", "some.c:50"])
def test_a_call_is_everywhere_that_its_line_is(target: ProbeTarget, asked: str) -> None:
    assert places(target, asked) == [("calls", "calls", ""), ("calls+0x4", "calls", "")]


def test_a_line_before_a_call_is_not_of_what_is_called(target: ProbeTarget) -> None:
    """Both begin at the same instruction."""
    assert places(target, "some.c:82") == [("before", "before", "")]


@pytest.mark.parametrize(
    ("asked", "function", "inlined_in"), [("some.c:102", "between", "outer"), ("some.c:107", "outer", "")]
)
def test_a_line_that_only_calls_inlined_code(tmp_path: Path, asked: str, function: str, inlined_in: str) -> None:
    """The line table lacks it: what it calls begins with code of another line."""
    target = compiled(tmp_path, "-gno-statement-frontiers")
    assert places(target, asked) == [("outer+0x4", function, inlined_in)]


def test_a_path_may_begin_as_builds_print_it(target: ProbeTarget) -> None:
    assert places(target, "./some.c:82") == places(target, "some.c:82")


@pytest.mark.parametrize("version", [4, 5])
def test_statements_of_a_part_that_was_put_back(tmp_path: Path, version: int) -> None:
    """It looks like a call of the function, and has its statements, and its variables as they are there."""
    out = described(tmp_path, version, DIVIDED)
    debug, symbol = open_debug(ElfImage(out)), symbol_of(out, "divided")
    assert debug is not None
    found = debug.function_at(symbol.vaddr)
    assert found is not None
    unit, function = found
    assert [is_part for _, is_part in inlined_into(function)] == [True]
    by_line: dict[int, list[int]] = {}
    for row in function_statements(unit, function):
        by_line.setdefault(row.line - declared(unit, function)[1], []).append(row.vaddr)
    assert by_line[0] == [symbol.vaddr]
    assert {6, 7, 8, 9, 11, 12, 13, 14} <= by_line.keys()
    for vaddr in by_line[8]:  # not 0, as before the part
        (error,), _ = arguments_at(out, vaddr, "error") or ([""], {})
        assert error.startswith("error=%x")
    # The part does not describe what only the code before it has.
    assert arguments_at(out, by_line[6][0], "before") == (["before=%x0"], {})


@pytest.mark.parametrize("version", [4, 5])
def test_arguments_of_a_function_in_two_parts(tmp_path: Path, version: int) -> None:
    """Its unlikely part stands elsewhere, so that DWARF gives ranges and no single start."""
    out = described(tmp_path, version)
    for name in ("in_two_parts", "in_two_parts.cold"):
        assert arguments_at(out, symbol_of(out, name).vaddr) == (["first=%x0:s64", "second=%x1:s64"], {})
