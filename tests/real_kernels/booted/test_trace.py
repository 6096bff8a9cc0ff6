"""A real kernel with its function tracer on: what it executed, its memory, and what ``prologue trace`` says of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from prologue.cli.main import main
from prologue.trace.branching import PLAIN, classes
from prologue.trace.programs import linked_program
from prologue.trace.sources import open_trace
from tests.support.needs import needs_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

_TRUTH = np.dtype([("vaddr", "<u8"), ("word", "<u4"), ("cpu", "<u2"), ("level", "u1"), ("flags", "u1")])


class Recorded(NamedTuple):
    vmlinux: Path
    trace: Path
    dump: Path
    executed: npt.NDArray[Any]  # distinct (vaddr, word) of the kernel
    slide: int


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    needs_tools("qemu-system-aarch64")
    vmlinux, directory = needs_kernel("trixie").vmlinux, tmp_path_factory.mktemp("trace")
    trace, truth, dump = (directory / name for name in ("trace", "truth", "dump"))
    command = ["trace", "record", str(vmlinux), "-o", str(trace), "--truth", str(truth), "--dump", str(dump)]
    window = ["--begin", "vfs_read", "--count", "1000000", "--run", "hackbench -g 1 -l 50"]
    assert main([*command, *window, "--setup", "echo function >/sys/kernel/tracing/current_tracer"]) == 0
    with open_trace(str(trace)) as opened:
        assert opened.header is not None
        slide = opened.header.slide
        assert slide
    rows = np.fromfile(truth, _TRUTH, offset=16)
    kept = rows[(rows["level"] > 0) & (rows["flags"] & 1 == 0)]
    truth.unlink()
    return Recorded(vmlinux, trace, dump, np.unique(kept[["vaddr", "word"]]), slide)


def check(capsys: pytest.CaptureFixture[str], recorded: Recorded, *options: object) -> dict[str, Any]:
    args = ["trace", "check", str(recorded.trace), "--vmlinux", str(recorded.vmlinux), "--json", *map(str, options)]
    code = main(args)
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (1 if data["stale"] else 0)
    return data


def test_the_memory_is_what_ran(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    data = check(capsys, recorded, "--memory", recorded.dump)
    assert data["stale"] == []
    assert data["steps_judged"] > 50_000


def test_stale_words_of_the_vmlinux_are_named_all_of_them_and_no_other(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that direct the flow: others (NOP to MOV) leave no mark in a trace."""
    data = check(capsys, recorded, "--explain", recorded.dump)
    linked, inside = linked_program(recorded.vmlinux, recorded.slide).words_at(
        np.ascontiguousarray(recorded.executed["vaddr"])
    )
    ran = np.ascontiguousarray(recorded.executed["word"])
    stale = inside & (linked != ran) & ((classes(linked) != PLAIN) | (classes(ran) != PLAIN))
    assert stale.sum() > 100
    assert {int(one["vaddr"], 16) for one in data["stale"]} == set(recorded.executed["vaddr"][stale].tolist())
    assert {"second slots", "jump labels"} <= {one["mechanism"] for one in data["stale"]}
    assert None not in {one["mechanism"] for one in data["stale"]}


def test_the_instructions_are_those_that_were_executed(recorded: Recorded, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = ["trace", "disasm", str(recorded.trace), "--vmlinux", str(recorded.vmlinux), "--memory", str(recorded.dump)]
    assert main([*args, "-o", str(out)]) == 0
    lines = (line.split(maxsplit=2) for line in out.read_text().splitlines() if line.startswith("\tffff"))
    printed = {(int(line[0][:-1], 16), int(line[1], 16)) for line in lines if line[0].endswith(":")}
    executed = set(map(tuple, recorded.executed.tolist()))
    assert printed <= executed
    assert {vaddr for vaddr, _ in executed - printed} <= {vaddr for vaddr, _ in executed if vaddr >= 0xFFFFFDFF << 32}
    assert len(printed) > 5_000


def test_what_ran_most(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["trace", "stats", str(recorded.trace), "--vmlinux", str(recorded.vmlinux), "--memory", str(recorded.dump)]
    assert main([*args, "--json"]) == 0
    (image,) = json.loads(capsys.readouterr().out)["images"]
    entries = {one["name"]: one["entries"] for one in image["functions"]}
    # Every traced function calls the tracer after its first slot, but for a last one that the window cut.
    assert 0 <= image["prologues"] - entries["ftrace_caller"] <= 200
    assert image["words_executed"] == len(
        {vaddr for vaddr in recorded.executed["vaddr"].tolist() if vaddr < 0xFFFFFDFF << 32}
    )
