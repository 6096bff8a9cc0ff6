"""What a decoder reports of its own program image: a finding of ``trace check``, with the word and its address."""

from __future__ import annotations

from typing import Any

import pytest

from prologue.insn.a64 import encode_b
from prologue.trace.coresight.elements import ROLLED_BACK, ElementKind
from prologue.trace.coresight.process import DecoderText
from tests.trace import elements
from tests.trace.elements import (
    BAD_IMAGE,
    CALL,
    NOT_TAKEN,
    ON,
    OTHER,
    RET,
    TAKEN,
    ElementTrace,
    Message,
    context,
    element,
    error,
    range_,
)
from tests.trace.made import KERNEL, Run, perf_text
from tests.trace.test_check import STEPS

NOP = 0xD503201F
SYNC = elements.GAP + ON + context(1)
DIRECT = "Bad program image - N Atom on unconditional direct BR."
INDIRECT = "Bad program image - N Atom on unconditional indirect BR."
BROKEN = "Discontinuous ranges - Inconsistent program image for decode"


def ran(first: str, end: str, last: tuple[int, int, int]) -> list[Message]:
    """The range from one place to the instruction at another one."""
    return range_(KERNEL.at(first), (KERNEL.at(end) - KERNEL.at(first)) // 4 + 1, last=last)


def bad(message: str) -> list[Message]:
    return error("OCSD_ERR_BAD_DECODE_IMAGE", message, code=0x2E) + BAD_IMAGE


def check(run: Run, ran: list[Message], changed: dict[str, int] | None = None) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON, and standard output of the same without ``--json``."""
    printed = run("check", ElementTrace(ran), "--json", changed=changed, status=None)
    return printed.status, printed.json, run("check", ElementTrace(ran), changed=changed, status=printed.status).out


CALLED = SYNC + ran("vfs_read", "vfs_read+0xc", NOT_TAKEN)
BRANCHED = SYNC + ran("vfs_read", "vfs_read+0xc", TAKEN)
PLACES = {
    "after a branch that was not taken": (CALLED + bad(DIRECT), "vfs_read+0x10", "bl "),
    "after a taken branch": (BRANCHED + bad(INDIRECT), "vfs_read+0x24", "ret"),
    "two ranges that do not join": (
        SYNC + ran("read_zero", "read_zero+0x10", NOT_TAKEN) + bad(BROKEN), "read_zero+0x10", "b.eq "
    ),
    "an element without an error": ([*CALLED, DecoderText(b"no error"), *BAD_IMAGE], "vfs_read+0x10", "bl "),
}  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
def test_the_word_is_found_in_the_image(run: Run, where: str) -> None:
    text, place, start = PLACES[where]
    code, data, out = check(run, text)
    (word,) = data["reported"]
    assert code == 1
    assert (word["vaddr"], word["fits"], word["after"]) == (hex(KERNEL.at(place)), True, False)
    assert word["message"].startswith(start)
    assert f"image stale at {place} ({KERNEL.at(place):#x}): {start}" in out
    assert "the decoder reports 1 word of its image that cannot be what ran" in out
    assert data["stale"] == []


def test_a_word_that_is_no_instruction(run: Run) -> None:
    text = CALLED + error("OCSD_ERR_INVALID_OPCODE", "Error processing atom packet.")
    code, data, _ = check(run, text, {"vfs_read+0x10": 0x1234})
    (word,) = data["reported"]
    assert (code, word["vaddr"], word["word"], word["fits"]) == (1, hex(KERNEL.at("vfs_read+0x10")), "00001234", True)


GAP = CALLED + ON


def test_a_branch_that_the_report_does_not_describe_is_not_accused(run: Run) -> None:
    """A later one may be meant, or the decoder had another image."""
    _, data, out = check(run, CALLED + bad(DIRECT))
    assert data["reported"][0]["exact"] is False
    assert "perhaps it is a branch after this one" in out
    _, data, _ = check(run, CALLED + bad(DIRECT), {"vfs_read+0x10": NOP, "vfs_read+0x18": NOP})
    (word,) = data["reported"]
    assert (word["vaddr"], word["after"], word["fits"]) == (hex(KERNEL.at("vfs_read+0xc")), True, False)
    to_next = encode_b(KERNEL.at("vfs_read+0x10"), KERNEL.at("vfs_read+0x14"))
    assert not check(run, CALLED + bad(DIRECT), {"vfs_read+0x10": to_next})[1]["reported"][0]["fits"]


UNKNOWN = {
    "after a return": (SYNC + ran("vfs_read+0x14", "vfs_read+0x24", RET), "vfs_read+0x24", True),
    "after an exception": (
        CALLED + element(ElementKind.EXCEPTION), "vfs_read+0xc", True
    ),
    "after a gap": (GAP + context(1), None, False),
}  # fmt: skip


@pytest.mark.parametrize("where", UNKNOWN)
def test_an_address_that_is_not_said_is_not_guessed(run: Run, where: str) -> None:
    text, place, after = UNKNOWN[where]
    code, data, _ = check(run, text + bad(DIRECT))
    (word,) = data["reported"]
    assert (code, word["after"], word["fits"]) == (1, after, False)
    assert word["vaddr"] == (hex(KERNEL.at(place)) if place else None)


OTHERS = {"a process": (context(0), 0), "a Secure kernel": (context(1, security=0), 0), "this kernel": (context(1), 1)}


@pytest.mark.parametrize("whose", OTHERS)
def test_only_reports_about_the_kernel_count(run: Run, whose: str) -> None:
    level, count = OTHERS[whose]
    text = SYNC + ran("vfs_read", "vfs_read+0xc", NOT_TAKEN) + ran("vfs_read+0x10", "vfs_read+0x10", CALL)
    other = level + ran("read_zero", "read_zero+0x10", NOT_TAKEN)
    code, data, _ = check(run, text + other + bad(BROKEN))
    assert (code, len(data["reported"])) == (count, count)


def test_other_errors_are_gaps_with_their_text(run: Run) -> None:
    text = SYNC + ran("vfs_read", "vfs_read+0xc", NOT_TAKEN) + ran("vfs_read+0x10", "vfs_read+0x10", CALL)
    text += error("OCSD_ERR_BAD_DECODE_PKT", "Unknown packet type.") + element(ElementKind.NO_SYNC)
    code, data, _ = check(run, text + ran("vfs_read", "vfs_read+0xc", NOT_TAKEN))
    assert (code, data["reported"], data["gaps"]) == (0, [], 1)
    assert (
        data["not_used"]["errors of the decoder on trace ID 0x10: OCSD_ERR_BAD_DECODE_PKT, Unknown packet type."] == 1
    )


def test_a_failed_transaction_accuses_no_word(run: Run) -> None:
    text = SYNC + ran("vfs_read", "vfs_read+0x8", OTHER) + element(ElementKind.MEMTRANS, value=1)
    text += ran("vfs_read+0xc", "vfs_read+0xc", NOT_TAKEN)
    again = ran("vfs_read+0xc", "vfs_read+0xc", TAKEN)
    assert check(run, text + element(ElementKind.MEMTRANS, value=ROLLED_BACK) + again)[0] == 0
    assert check(run, text + element(ElementKind.MEMTRANS, value=2) + again)[0] == 1


def test_a_text_of_perf_says_what_newer_ones_hide(run: Run) -> None:
    hint = "perf after 6.12, with OpenCSD 1.5.4 or later, leaves a gap (trace on)"
    assert hint not in run("check", perf_text([(0, "vfs_read"), *STEPS[1:]])).err
    assert hint in run("check", perf_text([*STEPS, (0, "vfs_read"), *STEPS[1:]])).err


@pytest.mark.parametrize("action", ["disasm", "stats"])
def test_other_commands_warn_once_of_what_the_decoder_reports(run: Run, action: str) -> None:
    printed = run(action, ElementTrace((CALLED + bad(DIRECT)) * 2))
    (warning,) = (line for line in printed.err.splitlines() if "warning" in line)
    assert warning.startswith("warning: the decoder reports 1 word of its image that cannot be what ran: ")


def test_a_word_that_is_reported_on_several_ways_is_one(run: Run) -> None:
    again = SYNC + ran("vfs_read+0x8", "vfs_read+0xc", NOT_TAKEN) + bad(DIRECT)
    code, data, out = check(run, CALLED + bad(DIRECT) + again)
    assert (code, [word["count"] for word in data["reported"]]) == (1, [2])
    assert "the decoder reports 1 word of its image" in out
