"""Inlined code, and lines that call it, as GCC describes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue.kernel.module import Module
from prologue.probe.language import parse_request
from prologue.probe.module_judge import judge_module
from prologue.probe.places import find_places
from prologue.probe.probe_target import ProbeTarget, kernel_target
from tests.mini_kernel.build import run_command
from tests.probe.made_kernel import TOOLS, make
from tests.probe.test_parts import DIVIDED
from tests.support.needs import needs_tools

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
    kernel, module = kernel_target(Kernel(make(directory))), open_binary(made)
    assert isinstance(module, Module)
    return ProbeTarget(judge_module(kernel.judge_at(0), module), "some", kernel)


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
