"""``prologue transition``: which instructions may become which others live."""

from __future__ import annotations

import pytest

from tests.support.needs import needs_wheel
from tests.support.tool import Tool


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nop", "bl"], 0, "safe live"),
        (["bl", "nop"], 0, "safe live"),
        (["nop", "mov"], 1, "NOT safe"),
        (["0xd503201f", "0xaa1e03e9"], 1, "LR is lost"),
        (["mov x9, x30", "b"], 1, "MOV X9, X30 is not on the CMODX list"),
        (["nop", "bti c"], 1, "BTI C is not on the CMODX list"),
        (["paciasp", "0xf800865e"], 1, "PACIASP and f800865e are not on the CMODX list"),
        (["b.eq", "nop"], 1, "--issue new"),
        (["b.eq", "nop", "--issue", "new"], 0, "safe live"),
        (["cbz x0, #8", "tbnz", "--issue", "new"], 0, "safe live"),
        # Of one class, and yet another word.
        (["cbz x0, 8", "cbz x1, 8"], 1, "CBZ is not on the CMODX list; newer"),
        (["b.eq 8", "b.ne 8"], 1, "B.cond is not on the CMODX list; newer"),
        (["b.eq 8", "b.ne 8", "--issue", "new"], 0, "both are on the CMODX list"),
        (["br x1", "br x2"], 1, "BR is not on the CMODX list"),
        (["tbz", "tbz"], 1, "TBZ is not on the CMODX list"),
        (["bl one", "bl other"], 0, "both are on the CMODX list"),
        (["cbz  X0,8", "cbz x0, 8"], 0, "nothing changes"),
        (["ret", "ret x30"], 0, "nothing changes"),
    ],
)
def test_transition(arguments: list[str], status: int, words: str, tool: Tool) -> None:
    said = tool("transition", *arguments, status=status).out
    assert words in said
    assert "Concurrent modification and execution of instructions" in said


def test_what_has_no_name_is_assembled(tool: Tool) -> None:
    needs_wheel("keystone")
    said = tool("transition", "paciasp", "str x30, [x18], #8", status=1).out
    assert "PACIASP and f800865e are not on the CMODX list" in said


def test_quiet_is_silent_about_a_safe_one(tool: Tool) -> None:
    assert tool("transition", "nop", "bl", "-q").out == ""
    assert "NOT safe" in tool("transition", "nop", "mov", "-q", status=1).out


def test_transition_of_nonsense(tool: Tool) -> None:
    assert "frobnicate" in tool("transition", "nop", "frobnicate", status=2).err
    for text in ("-1", "*", "x: -1", "x =y,", "nop; nop"):  # from some of these keystone never returns
        printed = tool("transition", "nop", text, status=2)
        assert printed.err == f"prologue: {text!r} is neither a mnemonic nor a 32-bit word (0x...)\n"
