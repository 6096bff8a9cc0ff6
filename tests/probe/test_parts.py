"""Functions of which the compiler separates a part: it stands elsewhere, or is put back."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.dwarf.debug_info import open_debug
from prologue.dwarf.statements import declared, function_statements, inlined_into
from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from tests.probe.test_scopes import arguments_at, described

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


@pytest.mark.parametrize("version", [4, 5])
def test_a_part_of_a_function_that_was_put_back(tmp_path: Path, version: int) -> None:
    """It looks like a call of the function, and has its statements, and its variables as they are there."""
    out = described(tmp_path, version, DIVIDED)
    debug, symbol = open_debug(ElfImage(out)), Kernel(out).symbols.find("divided")
    assert debug is not None
    assert symbol is not None
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
    symbols = Kernel(out).symbols
    function, cold = symbols.find("in_two_parts"), symbols.find("in_two_parts.cold")
    assert function is not None
    assert cold is not None
    expected: tuple[list[str], dict[str, str]] = (["first=%x0:s64", "second=%x1:s64"], {})
    assert arguments_at(out, function.vaddr) == expected
    assert arguments_at(out, cold.vaddr) == expected
