"""Numbers that nothing real has: each is refused or counted, and never read as another number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.trace.made import KERNEL, perf_line, perf_text
from tests.trace.test_check import STEPS
from tests.trace.test_opencsd import CONTEXT, element, range_

Said = pytest.CaptureFixture[str]
TEXT = perf_text(STEPS)
LAST = (1 << 64) - 4
A = KERNEL.at("vfs_read")


def disasm(tmp_path: Path, text: str, *options: str) -> int:
    vmlinux, trace = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace"
    trace.write_text(text)
    return main(["trace", "disasm", str(trace), "--vmlinux", str(vmlinux), "--format", "text", *options])


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
def test_no_number_of_perf_is_read_as_another(tmp_path: Path, capsys: Said, old: str, new: str) -> None:
    wrong = TEXT.replace(old, new)
    assert wrong != TEXT
    assert disasm(tmp_path, wrong) == 2
    assert "is not what `perf script" in capsys.readouterr().err
    # One such line among others is a gap.
    lines = TEXT.splitlines(keepends=True)
    assert disasm(tmp_path, "".join([*lines[:4], lines[4].replace(old, new), *lines[5:]])) == 0
    said = capsys.readouterr()
    assert "1 line that cannot be read: a gap on every CPU" in said.err
    assert said.out.count(" cpu 0 ") == len(STEPS) - 1 - 2
    assert "gap\n" in said.out


def test_a_wide_column_of_seconds(tmp_path: Path, capsys: Said) -> None:
    """The columns of blanks that one line has may be digits in the next."""
    line = perf_line(A, A, time=10**9)
    wide = [line.replace("     1.", f"{seconds:>24}.") for seconds in ("1", "2", "9" * 24, "9" * 15, "3")]
    assert disasm(tmp_path, "".join(wide)) == 0
    said = capsys.readouterr()
    assert [text.partition(" cpu")[0] for text in said.out.splitlines() if " cpu 0" in text] == ["2.000000000"]
    assert "2 lines that cannot be read" in said.err


def test_the_last_word_of_all_addresses(tmp_path: Path, capsys: Said) -> None:
    text = perf_line(0x10, LAST - 12) + perf_line(LAST, A) + perf_line(A + 16, A)
    for options in ((), ("--format", "perf"), ("--format", "jsonl")):
        assert disasm(tmp_path, text, *options) == 0
        said = capsys.readouterr()
        assert "..-0x" not in said.out
        assert "-4 " not in said.out
        assert '"0x0"' not in said.out
        assert "1 range (1 distinct), 5 instructions" in said.err
        assert "1 range that ends before it begins" in said.err


@pytest.mark.parametrize(
    "wrong",
    [
        range_(A, 2).replace("ID:10;", "ID:80;"),
        range_(A, 2).replace("ID:10;", "ID:ffffffff;"),
        range_(A, 2).replace("ID:10;", "ID:ffffffffffffffffffff;"),
        range_(A, 2).replace("num_i(2)", f"num_i({'9' * 5000})"),
        range_(A + 2, 2),
        range_(A - (1 << 60), (1 << 58) + 2),
        range_(0, (1 << 60)).replace("A64", "A32"),
    ],
)
def test_no_number_of_opencsd_either(tmp_path: Path, capsys: Said, wrong: str) -> None:
    assert disasm(tmp_path, CONTEXT + range_(A, 2) + wrong + range_(A, 2)) == 0
    said = capsys.readouterr()
    assert "2 ranges (1 distinct), 4 instructions, 1 CPU, 1 gap\n" in said.err
    assert "1 line that cannot be read: a gap on every CPU" in said.err


@pytest.mark.parametrize(
    ("old", "new"),
    [("VMID=0x7", "VMID=0x80000007"), ("CTXTID=0x4d2", "CTXTID=0x1000004d2"), ("TS=0x64", "TS=0x10000000000000064")],
)
def test_no_context_of_opencsd_is_read_as_another(tmp_path: Path, capsys: Said, old: str, new: str) -> None:
    said = CONTEXT + element("TIMESTAMP( [ TS=0x64]; )")
    assert old in said
    text = range_(A, 2) + said.replace(old, new) + range_(A, 2)
    assert disasm(tmp_path, text, "--format", "jsonl") == 0
    found = capsys.readouterr()
    assert "1 line that cannot be read: a gap on every CPU" in found.err
    (row,) = (json.loads(line) for line in found.out.splitlines()[2:])
    assert row["gap"] is True
    assert not row["time"] if old.startswith("TS") else not {"vmid", "pid", "level"} & set(row)


@pytest.mark.parametrize("cpu", ["000", "4095"])
def test_the_cpus_that_perf_can_say(tmp_path: Path, capsys: Said, cpu: str) -> None:
    assert disasm(tmp_path, TEXT.replace("[000]", f"[{cpu}]")) == 0
    assert "cannot be read" not in capsys.readouterr().err


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
def test_times_that_no_trace_has(tmp_path: Path, capsys: Said, times: str, said: str | None) -> None:
    assert disasm(tmp_path, TEXT, f"--time={times}") == (2 if said else 0)
    found = capsys.readouterr()
    assert said in found.err if said else "0 ranges" in found.err
    assert not found.out


def test_times_are_exact(tmp_path: Path, capsys: Said) -> None:
    """Seconds since 1970 with ns have more digits than a float."""
    text = "".join(perf_line(A + 16 * (k % 2), A, time=1_700_000_000 * 10**9 + 1000 * k) for k in range(1, 6))
    assert disasm(tmp_path, text, "--time", "1700000000.000003,1700000000.000005") == 0
    assert capsys.readouterr().out.count(" cpu 0 ") == 3


@pytest.mark.parametrize("slide", ["2", "-1", "4", "0xffffffffffffffff"])
def test_a_kernel_moves_by_pages(tmp_path: Path, capsys: Said, slide: str) -> None:
    """Between two of its words there is nothing that could be disassembled."""
    assert disasm(tmp_path, TEXT, f"--slide={slide}") == 2
    assert "not a multiple of 4096" in capsys.readouterr().err
    assert disasm(tmp_path, TEXT, "--guest-vmlinux", f"{tmp_path / 'vmlinux'}@1+{slide}") == 2
    assert "not a multiple of 4096" in capsys.readouterr().err
    assert disasm(tmp_path, TEXT, "--slide=-4096") == 0
