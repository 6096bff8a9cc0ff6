"""``prologue trace stats`` and call trees: sums that can be counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.trace.made import KERNEL, perf_text, recording
from tests.trace.test_check import STEPS


@pytest.fixture
def vmlinux(tmp_path: Path) -> Path:
    return KERNEL.write(tmp_path / "vmlinux")


def run(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    assert main(["trace", *map(str, args)]) == 0
    return capsys.readouterr().out


def test_functions_by_instructions_and_entries(
    tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    trace.write_text(perf_text(STEPS))
    data = json.loads(run(capsys, "stats", trace, "--vmlinux", vmlinux, "--json"))
    (image,) = data["images"]
    found = {one["name"]: (one["instructions"], one["entries"], one["words_executed"]) for one in image["functions"]}
    # vfs_read: 5 up to the call, 2, 2, then 1, 3 and 3 around the exception; read_zero: 5 and its return.
    assert found == {"vfs_read": (16, 2, 10), "read_zero": (6, 1, 6), "vectors": (4, 0, 4)}
    assert (image["instructions"], image["words_executed"]) == (26, 20)
    assert (data["ranges"], data["gaps"], image["prologues"]) == (11, 0, None)


def test_the_text(tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace"
    trace.write_text(perf_text(STEPS))
    lines = run(capsys, "stats", trace, "--vmlinux", vmlinux, "--top", 1).splitlines()
    assert "26 instructions in 3 functions; 20 of" in lines[0]
    assert lines[1:] == [
        "  instructions      %      entries  function",
        "            16  61.54            2  vfs_read",
    ]


def test_stacks_of_calls_and_exceptions(tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "trace", tmp_path / "stacks"
    trace.write_text(perf_text(STEPS))
    run(capsys, "stats", trace, "--vmlinux", vmlinux, "--folded", out)
    found = dict(line.rsplit(" ", 1) for line in out.read_text().splitlines())
    assert found == {
        "vfs_read": "16", "vfs_read;read_zero": "6", "vfs_read;vectors": "2", "[user]": "5", "vectors": "2",
    }  # fmt: skip


def test_a_loss_forgets_the_stack(tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "trace", tmp_path / "stacks"
    rows = [
        {"start": KERNEL.at("vfs_read"), "count": 5},
        {"count": 0, "flags": 17},
        {"start": KERNEL.at("read_zero"), "count": 5},
    ]
    trace.write_bytes(recording(rows))
    run(capsys, "stats", trace, "--vmlinux", vmlinux, "--folded", out)
    assert sorted(out.read_text().splitlines()) == ["read_zero 5", "vfs_read 5"]


def test_call_trees(tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace"
    trace.write_text(perf_text(STEPS * 2))
    for depth, lines in ((1, [" vfs_read", "   read_zero"]), (0, [" vfs_read"])):
        said = run(capsys, "disasm", trace, "--vmlinux", vmlinux, "--from", "vfs_read", "--depth", depth)
        rows = [line.partition("cpu 0")[2] for line in said.splitlines()]
        assert rows[: len(lines)] == lines
        assert set(rows) <= {*lines, "   (exception) vectors"}
    assert main(["trace", "disasm", str(trace), "--vmlinux", str(vmlinux), "--from", "no_such"]) == 2
    assert (
        main(["trace", "disasm", str(trace), "--vmlinux", str(vmlinux), "--from", "vfs_read", "--format", "json"]) == 2
    )


def test_an_output_is_no_input(tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace"
    trace.write_text(perf_text(STEPS))
    assert main(["trace", "stats", str(trace), "--vmlinux", str(vmlinux), "--folded", str(vmlinux)]) == 2
    assert "is also an input" in capsys.readouterr().err
