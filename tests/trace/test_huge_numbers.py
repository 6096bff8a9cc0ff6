"""Numbers that nothing real has: each is refused or counted, and never read as another number."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tool import Printed
from tests.trace.made import KERNEL, Run, perf_line, perf_text
from tests.trace.test_check import STEPS

TEXT = perf_text(STEPS)
LAST = (1 << 64) - 4
A = KERNEL.at("vfs_read")


def disasm(run: Run, text: str, *options: str, status: int = 0) -> Printed:
    return run("disasm", text, "--format", "text", *options, status=status)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[000]", "[99999999999999999999]"),
        ("[000]", "[4294967296]"),
        ("[000]", "[123456789]"),
        ("[000]", "[99999999]"),
        ("[000]", "[4096]"),
        ("[000]", "[-5]"),
        ("    1.", " 99999999999999999999."),
        ("    1.", " 99999999999999."),
        ("77/77   ", "99999999999999999999/99999999999999999999 "),
    ],
)
def test_no_number_of_perf_is_read_as_another(run: Run, old: str, new: str) -> None:
    wrong = TEXT.replace(old, new)
    assert wrong != TEXT
    assert "is not what `perf script" in disasm(run, wrong, status=2).err
    # One such line among others is a gap.
    lines = TEXT.splitlines(keepends=True)
    said = disasm(run, "".join([*lines[:4], lines[4].replace(old, new), *lines[5:]]))
    assert "1 line that cannot be read: a gap on every CPU" in said.err
    assert said.out.count(" cpu 0 ") == len(STEPS) - 1 - 2
    assert "gap\n" in said.out


def test_a_wide_column_of_seconds(run: Run) -> None:
    """The columns of blanks that one line has may be digits in the next."""
    line = perf_line(A, A, time=10**9)
    wide = [line.replace("     1.", f"{seconds:>24}.") for seconds in ("1", "2", "9" * 24, "9" * 15, "3")]
    said = disasm(run, "".join(wide))
    assert [text.partition(" cpu")[0] for text in said.out.splitlines() if " cpu 0" in text] == ["2.000000000"]
    assert "2 lines that cannot be read" in said.err


def test_the_last_word_of_all_addresses(run: Run) -> None:
    text = perf_line(0x10, LAST - 12) + perf_line(LAST, A) + perf_line(A + 16, A)
    for options in ((), ("--format", "perf"), ("--format", "jsonl")):
        said = disasm(run, text, *options)
        assert "..-0x" not in said.out
        assert "-4 " not in said.out
        assert '"0x0"' not in said.out
        assert "1 range (1 distinct), 5 instructions" in said.err
        assert "1 range that ends before it begins" in said.err


@pytest.mark.parametrize("cpu", ["000", "4095"])
def test_the_cpus_that_perf_can_say(run: Run, cpu: str) -> None:
    assert "cannot be read" not in disasm(run, TEXT.replace("[000]", f"[{cpu}]")).err


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ("0,-5", None),
        ("1e30,", None),
        ("5,1", "ends before it begins"),
        ("1,1e999999999999999999999", "expected FROM,TO"),
        ("nan,", "expected FROM,TO"),
    ],
)
def test_times_that_no_trace_has(run: Run, times: str, said: str | None) -> None:
    found = disasm(run, TEXT, f"--time={times}", status=2 if said else 0)
    assert said in found.err if said else "0 ranges" in found.err
    assert not found.out


def test_times_are_exact(run: Run) -> None:
    """Seconds since 1970 with ns have more digits than a float."""
    text = "".join(perf_line(A + 16 * (k % 2), A, time=1_700_000_000 * 10**9 + 1000 * k) for k in range(1, 6))
    assert disasm(run, text, "--time", "1700000000.000003,1700000000.000005").out.count(" cpu 0 ") == 3


@pytest.mark.parametrize("slide", ["2", "-1", "4", "0xffffffffffffffff"])
def test_a_kernel_moves_by_pages(run: Run, tmp_path: Path, slide: str) -> None:
    """Between two of its words there is nothing that could be disassembled."""
    assert "not a multiple of 4096" in disasm(run, TEXT, f"--slide={slide}", status=2).err
    printed = disasm(run, TEXT, "--guest-vmlinux", f"{tmp_path / 'vmlinux'}@1+{slide}", status=2)
    assert "not a multiple of 4096" in printed.err
    disasm(run, TEXT, "--slide=-4096")
