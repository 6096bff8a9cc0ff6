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
    run(capsys, "stats", trace, "--vmlinux", vmlinux, "--save-stacks", out)
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
    run(capsys, "stats", trace, "--vmlinux", vmlinux, "--save-stacks", out)
    assert sorted(out.read_text().splitlines()) == ["read_zero 5", "vfs_read 5"]


def levels(*rows: tuple[str, int, int]) -> bytes:
    """A recording of (place, instructions, level)."""
    return recording([{"start": KERNEL.at(place), "count": count, "level": level} for place, count, level in rows])


CALLED = [("vfs_read", 5, 1), ("read_zero", 5, 1), ("read_zero+24", 1, 1), ("vfs_read+20", 2, 1), ("vfs_read+32", 2, 1)]


@pytest.mark.parametrize(
    ("option", "stacks"),
    [
        (("--symbols", "read_zero"), {"vfs_read;read_zero": "6"}),
        (("--level", 1), {"vfs_read": "9", "vfs_read;read_zero": "6"}),
        (("--level", 2), {"vfs_read;read_zero;vectors": "2"}),
        (("--time", "5,6"), {"vfs_read;read_zero": "1"}),
    ],
)
def test_what_is_left_out_still_called(
    tmp_path: Path,
    vmlinux: Path,
    capsys: pytest.CaptureFixture[str],
    option: tuple[str, object],
    stacks: dict[str, str],
) -> None:
    """Filters say what is counted; the stacks are those of the whole trace."""
    trace, out = tmp_path / "trace", tmp_path / "stacks"
    rows = [*CALLED[:2], ("vectors+0x200", 2, 2), *CALLED[2:]]
    made = [{"start": KERNEL.at(place), "count": count, "level": level, "time": 5 * 10**9 * (k == 3)} for k, (
        place, count, level) in enumerate(rows)]  # fmt: skip
    trace.write_bytes(recording(made))
    run(capsys, "stats", trace, "--vmlinux", vmlinux, "--save-stacks", out, *option)
    assert dict(line.rsplit(" ", 1) for line in out.read_text().splitlines()) == stacks


def test_call_trees_of_a_part(tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace"
    trace.write_bytes(levels(("vfs_read", 5, 2), *CALLED[1:]))
    said = run(capsys, "disasm", trace, "--vmlinux", vmlinux, "--from", "vfs_read", "--depth", 2, "--level", 1)
    rows = [line.partition("cpu 0")[2] for line in said.splitlines()]
    assert rows == ["   read_zero"]


def test_an_exception_right_after_a_return_from_one_is_not_below_it(
    tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "trace", tmp_path / "stacks"
    irq = [("vectors+0x280", 2, 1)]
    trace.write_bytes(levels(*CALLED[:2], *irq * 3, CALLED[2], CALLED[3]))
    run(capsys, "stats", trace, "--vmlinux", vmlinux, "--save-stacks", out)
    found = dict(line.rsplit(" ", 1) for line in out.read_text().splitlines())
    assert found == {"vfs_read": "7", "vfs_read;read_zero": "6", "vfs_read;read_zero;vectors": "6"}


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
        main(["trace", "disasm", str(trace), "--vmlinux", str(vmlinux), "--from", "vfs_read", "--format", "jsonl"]) == 2
    )


def test_call_trees_of_a_function_that_a_return_enters(
    tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ret_from_fork is, by the return of cpu_switch_to."""
    trace = tmp_path / "trace"
    steps = [("vfs_read+16", "read_zero"), ("read_zero+24", "vfs_read"), ("vfs_read+16", "read_zero")]
    trace.write_text(perf_text([*steps, ("read_zero+24", "vfs_read+20"), ("vfs_read+24", "vfs_read+32")]))
    said = run(capsys, "disasm", trace, "--vmlinux", vmlinux, "--from", "vfs_read", "--depth", 1)
    assert [line.partition("cpu 0")[2] for line in said.splitlines()] == [" vfs_read", "   read_zero"]


def test_an_output_is_no_input(tmp_path: Path, vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace"
    trace.write_text(perf_text(STEPS))
    assert main(["trace", "stats", str(trace), "--vmlinux", str(vmlinux), "--save-stacks", str(vmlinux)]) == 2
    assert "is also an input" in capsys.readouterr().err
