"""``prologue.open_trace``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import prologue
from prologue.trace.readers.recording import RecordingHeader
from tests.live.overlay.test_modules import load
from tests.mini_kernel.build import Spec
from tests.rules.fixture import as_running, process
from tests.support.built import Mini
from tests.support.cores import SLIDE
from tests.support.elf_edit import ElfEdit
from tests.trace.made import KERNEL, perf_text, recording

CALL = ("vfs_read+0x10", "read_zero")
BEFORE = ("read_zero+0x18", "vfs_read")
AFTER = [("read_zero+0x18", "vfs_read+0x14"), ("vfs_read+0x18", "vfs_read+0x20")]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return KERNEL.write(tmp_path / "vmlinux", build_id=bytes(range(20)))


def test_a_trace_that_can_have_run(made: Path, tmp_path: Path) -> None:
    (tmp_path / "perf.txt").write_text(perf_text([BEFORE, CALL, *AFTER]))
    trace = prologue.open_trace(tmp_path / "perf.txt", made)
    for _ in range(2):  # each method reads the trace anew
        check = trace.check()
        assert (check.passed, check.stale) == (True, ())
        assert check.judged
    assert [use.name for use in trace.functions()] == ["vfs_read", "read_zero"]
    assert sum(len(ranges) for ranges in trace.ranges()) == 3


def test_a_word_that_cannot_be_what_ran(made: Path, tmp_path: Path) -> None:
    (tmp_path / "perf.txt").write_text(perf_text([BEFORE, ("vfs_read+0x8", "read_zero"), *AFTER]))
    check = prologue.open_trace(tmp_path / "perf.txt", prologue.open(made)).check()
    assert not check.passed
    (stale,) = check.stale
    assert (stale.kind, stale.where.symbol, stale.where.symbol_offset, stale.count) == ("stale", "vfs_read", 8, 1)
    assert str(stale).startswith("vfs_read+0x8 (")


def test_a_trace_of_another_kernel_is_bad_input(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(recording([{"start": KERNEL.at("read_zero"), "count": 7}], RecordingHeader(build_id=b"another")))
    with pytest.raises(prologue.InputError, match="recorded of another kernel"):
        prologue.open_trace(path, made)
    for content in (b"", b"PROTRACE", b"no trace\n"):
        path.write_bytes(content)
        with pytest.raises(prologue.InputError):
            prologue.open_trace(path, made)
    with pytest.raises(prologue.InputError):
        prologue.open_trace(tmp_path / "none", made)


def test_a_trace_that_says_nothing_is_undecided(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(recording([{"start": KERNEL.at("read_zero"), "count": 7}]))
    with pytest.raises(prologue.UndecidedError, match="no step could be judged"):
        prologue.open_trace(path, made).check()


def test_the_text_of_memory(mini: Mini, tmp_path: Path) -> None:
    """The file has a NOP where the CPU called; memory has the call."""
    vmlinux = process(mini(Spec(form="relr", labels=True)))
    elf = ElfEdit(vmlinux)
    leaf, sub = elf.value("work_leaf"), elf.value("work_sub")
    system = prologue.open_system(
        *map(str, as_running(vmlinux, {leaf + 4: 0x94000000 | (sub - leaf - 4) // 4 & 0x3FFFFFF}))
    )
    rows = [{"start": place + SLIDE, "count": count, "cpu": 0} for place, count in ((leaf, 2), (sub, 4), (leaf + 8, 3))]
    path = tmp_path / "trace"
    path.write_bytes(recording(rows, RecordingHeader(cpus=1, slide=SLIDE)))
    check = prologue.open_trace(path, system).check()
    assert check.passed
    assert check.notes[0].startswith("3 ranges (3 distinct), 9 instructions")
    assert [each.where.vaddr for each in prologue.open_trace(path, vmlinux).check().stale] == [leaf + 4 + SLIDE]
    assert {use.name for use in prologue.open_trace(path, system).functions()} == {"work_leaf", "work_sub"}
    path.write_bytes(recording(rows, RecordingHeader(cpus=1, slide=SLIDE + 0x10000)))
    with pytest.raises(prologue.InputError, match="another boot"):
        prologue.open_trace(path, system)


def test_what_is_not_known_of_the_text_is_said(mini: Mini, tmp_path: Path) -> None:
    loaded = load(mini)
    system = prologue.open_system(process(loaded.vmlinux), loaded.capture(), loaded.ko.parent)
    start = ElfEdit(loaded.vmlinux).value("work_leaf") + SLIDE
    path = tmp_path / "trace"
    path.write_bytes(recording([{"start": start, "count": 5, "cpu": 0}, {"start": start, "count": 5, "cpu": 0}]))
    without = f"without a file in {loaded.ko.parent}, of no image here: absent"
    assert f"1 loaded module {without}" in prologue.open_trace(path, system).check().notes


def test_what_cannot_be_read_twice_is_refused(made: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in ("-", tmp_path / "pipe"):
        with pytest.raises(prologue.UsageError, match="save it to a file"):
            prologue.open_trace(source, made)
