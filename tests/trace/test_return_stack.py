"""Returns that the decoder led to an older call's address, because it had no memory for code that called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prologue.trace.coresight.elements import ElementKind
from tests.support.tool import Tool
from tests.trace.elements import BAD_IMAGE, CALL, ON, OTHER, RET, ElementTrace, Message, element, error, range_
from tests.trace.test_impossible import KERNEL, Run

NO_MEMORY = element(ElementKind.ADDR_NACC, start=0xFFFF000008894654)


def ran(first: str, end: str, last: tuple[int, int, int]) -> list[Message]:
    """The range from one place to the instruction at another one."""
    return range_(KERNEL.at(first), (KERNEL.at(end) - KERNEL.at(first)) // 4 + 1, last=last)


CALLED = ran("first", "first+0x4", CALL)  # the callee itself has no memory
RETURNS = ran("callee", "callee+0x8", RET)
FOLLOWED = ran("first", "first+0x4", CALL) + RETURNS + ran("first+0x8", "first+0x14", RET)
# Where the decoder went on from the older call, and the address that the trace gave then.
ASTRAY = ran("first+0x8", "first+0xc", OTHER) + ran("second+0x8", "second+0x14", RET)
UNSURE = "steps that cannot be, after a return which the decoder may have followed wrongly"


def check(directory: Path, tool: Tool, messages: list[Message]) -> tuple[list[str], int]:
    """The accused words, and how many steps were not judged."""
    run = Run(directory, tool, ElementTrace(messages), {})
    data: dict[str, Any] = run.check()
    places = [f"{word['symbol']}+{word['symbol_offset']:#x}" for word in data["stale"] + data["follow"]]
    return places, data["steps_not_judged"].get(UNSURE, 0)


@pytest.mark.parametrize(
    ("between", "sure"),
    [
        pytest.param(CALLED + NO_MEMORY + RETURNS, False, id="the call is from before"),
        pytest.param(CALLED + NO_MEMORY + FOLLOWED, False, id="after calls that were followed"),
        pytest.param(CALLED + NO_MEMORY + RETURNS + ASTRAY, False, id="again"),
        pytest.param(CALLED + NO_MEMORY + ON + CALLED + RETURNS, True, id="tracing began anew"),
        pytest.param(CALLED + NO_MEMORY + CALLED + RETURNS, True, id="the call is from after it"),
        pytest.param(CALLED + RETURNS, True, id="all of the code was there"),
    ],
)
def test_a_return_beyond_the_calls_that_were_followed_accuses_no_word(
    between: list[Message], sure: bool, tmp_path: Path, tool: Tool
) -> None:
    found, left = check(tmp_path, tool, ON + between + ASTRAY)
    assert (found, left > 0) == (["first+0xc"] if sure else [], not sure)


def test_an_exception_ends_the_doubt(tmp_path: Path, tool: Tool) -> None:
    text = ON + CALLED + NO_MEMORY + RETURNS + ran("first+0x8", "first+0xc", OTHER) + element(ElementKind.EXCEPTION)
    text += ran("vectors", "vectors", OTHER) + ran("second", "second", OTHER)
    assert check(tmp_path, tool, text) == (["vectors+0x0"], 0)


def test_an_exception_return_on_a_way_that_did_not_run(tmp_path: Path, tool: Tool) -> None:
    """Only an ERET returns from an exception; where the decoder is astray, it may have met any instruction."""
    text = ON + CALLED + NO_MEMORY + RETURNS + ran("first+0x8", "first+0xc", OTHER)
    text += element(ElementKind.EXCEPTION_RET) + ran("second", "second", OTHER)
    assert check(tmp_path, tool, text) == ([], 1)


def test_a_range_that_did_not_run_is_left_out_and_accuses_no_word(tmp_path: Path, tool: Tool) -> None:
    text = ON + CALLED + NO_MEMORY + RETURNS + ran("first", "first+0x8", OTHER)
    run = Run(tmp_path, tool, ElementTrace(text), {})
    out, err = run("check")
    assert "none impossible; 1 could not be judged" in out
    assert f"1 step {UNSURE.removeprefix('steps ')}: not judged" in err
    assert "1 range with 3 instructions left out" in err


def test_what_the_decoder_reports_of_its_image_there_is_not_judged(tmp_path: Path, tool: Tool) -> None:
    begin = ON + CALLED + NO_MEMORY
    bad = error("OCSD_ERR_BAD_DECODE_IMAGE", "Bad program image - N Atom on unconditional direct BR.") + BAD_IMAGE
    for way, report in ((CALLED + RETURNS, 1), (FOLLOWED, 0)):
        data = Run(tmp_path, tool, ElementTrace(begin + way + bad), {}).check()
        assert len(data["reported"]) == report
        assert any("may have followed wrongly: not judged" in what for what in data["not_used"]) == (not report)
