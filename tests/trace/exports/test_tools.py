"""Exports are opened by the tools that they are for: a program of C, and a walk through it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from prologue.insn.rows import flows
from prologue.live.system.programs import Program, linked_program
from prologue.trace.path.branching import BL, CONDITIONAL, RET, B, targets
from tests.support.needs import needs_tools
from tests.support.tool import Tool
from tests.trace.exports.exporting import Traced
from tests.trace.made import recording

pytestmark = pytest.mark.thorough
SOURCE = """\
volatile int sink;
__attribute__((noinline)) int leaf(int x)
{
	if (x & 1)
		sink += x;
	return x * 3;
}
__attribute__((noinline)) int never(int x)
{
	return x + sink;
}
int caller(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += leaf(i);
	return sum;
}
"""
BASE = 0xFFFF800080010000
OPTIONS = ["--target=aarch64-linux-gnu", "-O1", "-g", "-gdwarf-4", "-gdwarf-aranges", "-nostdlib", "-static",
           "-fdebug-info-for-profiling", "-fuse-ld=lld", "-Wl,-q", f"-Wl,-Ttext={BASE:#x}",
           "-Wl,--build-id=none"]  # fmt: skip


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    """2,000 ranges of the program, with DWARF 4 and relocations, as these tools want it."""
    needs_tools("clang-19", "ld.lld-19")
    (tmp_path / "program.c").write_text(SOURCE)
    command = ["clang-19", *OPTIONS, "-Wl,-e,caller", "program.c", "-o", "vmlinux"]
    subprocess.run(command, cwd=tmp_path, check=True)
    program = linked_program(tmp_path / "vmlinux", 0)
    rows = [{"start": start, "count": (end - start) // 4, "level": 1} for start, end in walk(program, 2000)]
    (tmp_path / "trace").write_bytes(recording(rows))
    return Traced(tmp_path / "trace", tmp_path / "vmlinux")


def walk(program: Program, count: int) -> list[tuple[int, int]]:
    """Ranges: conditional branches are taken two times of three, a return that leads nowhere begins anew."""
    (entry,), stack, turn, ranges = program.find("caller"), list[int](), 0, list[tuple[int, int]]()
    at = entry
    while len(ranges) < count:
        start = at
        while True:
            word = program.words_at(np.array([at], np.uint64))[0]
            kind, place = flows(word)[0], at
            at += 4
            turn += kind == CONDITIONAL
            if kind in (B, BL, RET) or (kind == CONDITIONAL and turn % 3):
                break
        ranges.append((start, at))
        if kind == BL:
            stack.append(at)
        at = (stack.pop() if stack else entry) if kind == RET else int(targets(word, np.array([place], np.uint64))[0])
    return ranges


def entries(traced: Traced, tool: Tool) -> dict[str, int]:
    """How often each function was entered."""
    (image,) = traced.stats(tool)["images"]
    return {one["name"]: one["entries"] for one in image["functions"]}


def test_autofdo(traced: Traced, tmp_path: Path, tool: Tool) -> None:
    needs_tools("create_llvm_prof", "llvm-profdata-19")
    profile = tmp_path / "profile"
    where = [f"--profile={traced.export('autofdo')}", f"--binary={traced.vmlinux}", f"--out={profile}"]
    subprocess.run(["create_llvm_prof", "--profiler=text", "--format=text", *where], check=True)
    shown = subprocess.run(
        ["llvm-profdata-19", "show", "--sample", profile], check=True, capture_output=True, text=True
    )
    heads = {name: int(count) for name, count in re.findall(r"Function: (\w+): \d+, (\d+),", shown.stdout)}
    want = entries(traced, tool)
    assert want["leaf"] > 100
    assert heads["leaf"] == want["leaf"]
    assert "never" not in heads


def test_line_coverage(traced: Traced, tmp_path: Path, tool: Tool) -> None:
    needs_tools("genhtml")
    path = traced.export("lcov")
    said = subprocess.run(["genhtml", path, "-o", tmp_path / "html"], check=True, capture_output=True, text=True)
    assert "functions..: 66.7% (2 of 3 functions)" in said.stdout
    assert (tmp_path / "html" / "index.html").is_file()
    lines = path.read_text().splitlines()
    counts = {int(line): int(count) for line, count in re.findall(r"^DA:(\d+),(\d+)$", path.read_text(), re.MULTILINE)}
    want = entries(traced, tool)
    assert {f"FNDA:{want['leaf']},leaf", f"FNDA:{want['caller']},caller", "FNDA:0,never"} <= set(lines)
    assert {"FN:4,leaf", "FN:10,never", "FN:13,caller"} <= set(lines)
    assert 0 < counts[5] < counts[4] == want["leaf"]  # the branch, and what it skips
    assert counts[10] == 0


@pytest.mark.parametrize("ran", [(3, 0), (0, 3), (1, 2)])
def test_line_coverage_of_a_function_in_several_units(tmp_path: Path, ran: tuple[int, int]) -> None:
    """A header's function has a copy in each unit: it ran as often as all of them."""
    needs_tools("clang-19", "ld.lld-19")
    (tmp_path / "both.h").write_text("static __attribute__((noinline)) int both(int x)\n{\n\treturn x * 3;\n}\n")
    for name in ("one", "two"):
        (tmp_path / f"{name}.c").write_text(f'#include "both.h"\nint {name}(int x)\n{{\n\treturn both(x) + 1;\n}}\n')
    subprocess.run(["clang-19", *OPTIONS, "-Wl,-e,one", "one.c", "two.c", "-o", "vmlinux"], cwd=tmp_path, check=True)
    program = linked_program(tmp_path / "vmlinux", 0)
    counts = dict(zip(program.find("both"), ran, strict=True))
    starts = [*program.find("one"), *program.find("two"), *(place for place in counts for _ in range(counts[place]))]
    (tmp_path / "trace").write_bytes(recording({"start": start, "count": 1, "level": 1} for start in starts))
    text = Traced(tmp_path / "trace", tmp_path / "vmlinux").export("lcov").read_text()
    assert re.findall(r"^FNDA:(\d+),both$", text, re.MULTILINE) == ["3"]


def test_line_coverage_says_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Code without lines, as assembly may be, and processes: lines and notes have all that stats counts."""
    needs_tools("clang-19", "ld.lld-19")
    (tmp_path / "one.c").write_text("int one(int x)\n{\n\treturn x + 1;\n}\n")
    (tmp_path / "two.S").write_text(".globl two\n.type two, %function\ntwo: nop\nret\n.size two, . - two\n")
    options = [option for option in OPTIONS if option != "-g"]
    subprocess.run(["clang-19", *options, "-c", "-g0", "two.S", "-o", "two.o"], cwd=tmp_path, check=True)
    subprocess.run(["clang-19", *OPTIONS, "-Wl,-e,one", "one.c", "two.o", "-o", "vmlinux"], cwd=tmp_path, check=True)
    program = linked_program(tmp_path / "vmlinux", 0)
    spans = [(program.find("one")[0], 2, 1), (program.find("two")[0], 2, 1), (0x400000, 5, 0)]
    rows = [{"start": start, "count": count, "level": level} for start, count, level in spans]
    (tmp_path / "trace").write_bytes(recording(rows))
    Traced(tmp_path / "trace", tmp_path / "vmlinux").export("lcov")
    said = capsys.readouterr().err
    assert f"5 instructions not of {tmp_path / 'vmlinux'} left out" in said
    assert f"2 instructions without a line in {tmp_path / 'vmlinux'} left out" in said
