"""Where output may go, and what is left behind when it cannot."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.arrays import I64, U64
from prologue.cli.main import main
from prologue.errors import OutputError
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import PlacedWords, with_words
from prologue.patching.apply import apply_in_place
from prologue.patching.patch import PatchRequest, patch_or_error
from prologue.patching.reread.vmlinux import RereadRecords, reread
from prologue.patching.words import write_words
from prologue.plan.build import build_plan
from prologue.plan.edits import PatchPlan
from prologue.rules.engine import ApprovedPlan, approve
from tests.mini_kernel.build import Form, Spec
from tests.support.cases import one_quick
from tests.support.elf_edit import NOP, ElfEdit, edit
from tests.support.needs import missing
from tests.support.tool import Tool

Mini = Callable[[Spec], Path]
Writer = Callable[[int, I64, U64, int], None]


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    return mini(Spec())


def expect_refusal(vmlinux: Path, message: str, tool: Tool, *options: str) -> None:
    before, listing = vmlinux.read_bytes(), sorted(vmlinux.parent.iterdir())
    assert message in tool("patch", vmlinux, *options, status=2).err
    assert vmlinux.read_bytes() == before
    assert sorted(vmlinux.parent.iterdir()) == listing


def test_output_is_input(vmlinux: Path, tool: Tool) -> None:
    expect_refusal(vmlinux, "is the input", tool, "-o", str(vmlinux))


def test_output_directory_is_missing(vmlinux: Path, tool: Tool) -> None:
    expect_refusal(vmlinux, "No such file or directory", tool, "-o", str(vmlinux.parent / "no" / "out"))


@pytest.mark.parametrize("kind", ["directory", "fifo", "symlink", "dangling", "hard link", "read-only"])
def test_output_that_must_not_be_replaced(vmlinux: Path, kind: str, tool: Tool) -> None:
    out, other = vmlinux.with_name("out"), vmlinux.with_name("other")
    other.write_text("precious")
    if kind == "directory":
        out.mkdir()
    elif kind == "fifo":
        os.mkfifo(out)
    elif kind in ("symlink", "dangling"):
        out.symlink_to(other if kind == "symlink" else "nowhere")
    elif kind == "hard link":
        out.hardlink_to(other)
    else:
        out.write_text("precious")
        out.chmod(0o444)
    words = {"directory": "not a regular file", "fifo": "not a regular file", "hard link": "hard links"}
    words |= {"read-only": "read-only"}
    expect_refusal(vmlinux, words.get(kind, "symbolic link"), tool, "-o", str(out))
    assert other.read_text() == "precious"


@pytest.mark.parametrize("kind", ["symlink", "hard link", "read-only"])
def test_in_place_needs_a_plain_file(vmlinux: Path, kind: str, tool: Tool) -> None:
    target = vmlinux
    if kind == "symlink":
        target = vmlinux.with_name("link")
        target.symlink_to(vmlinux)
    elif kind == "hard link":
        vmlinux.with_name("link").hardlink_to(vmlinux)
    else:
        vmlinux.chmod(0o444)
    word = {"symlink": "symbolic link", "hard link": "2 hard links", "read-only": "read-only (mode 0444)"}[kind]
    expect_refusal(target, word, tool, "--in-place")


def test_unwritable_directory(vmlinux: Path, tool: Tool) -> None:
    if os.geteuid() == 0:
        # root may write anywhere; /proc refuses even root.
        expect_refusal(vmlinux, "cannot be created", tool, "-o", "/proc/out")
        return
    closed = vmlinux.parent / "closed"
    closed.mkdir(mode=0o555)
    expect_refusal(vmlinux, "cannot be created", tool, "-o", str(closed / "out"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 16 KiB."""
    mount = tmp_path / "small"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(mount)], capture_output=True, check=False
    )
    if done.returncode:
        if os.geteuid() == 0:
            missing("mount of a tmpfs")
        pytest.skip("needs root to mount a small tmpfs")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_full_disk(vmlinux: Path, small_disk: Path, tool: Tool) -> None:
    expect_refusal(vmlinux, "No space left on device", tool, "-o", str(small_disk / "out"))
    assert "No space left on device" in tool("image", vmlinux, "-o", small_disk / "Image", status=2).err
    assert list(small_disk.iterdir()) == []


def test_the_second_of_two_refuses(vmlinux: Path, tool: Tool) -> None:
    with vmlinux.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        expect_refusal(vmlinux, "another prologue is working on this file", tool, "--in-place")
        expect_refusal(vmlinux, "another prologue is working on this file", tool, "-o", str(vmlinux.with_name("out")))
    assert main(["patch", str(vmlinux), "--in-place"]) == 0


def test_output_takes_the_mode_of_its_input(vmlinux: Path) -> None:
    vmlinux.chmod(0o751)
    out = vmlinux.with_name("out")
    assert main(["patch", str(vmlinux), "-o", str(out)]) == 0
    assert out.stat().st_mode & 0o777 == 0o751
    assert out.stat().st_mtime >= vmlinux.stat().st_mtime


def test_a_copy_of_a_read_only_kernel_can_be_made_again(vmlinux: Path) -> None:
    vmlinux.chmod(0o444)
    out = vmlinux.with_name("out")
    for _ in range(2):
        assert main(["patch", str(vmlinux), "-o", str(out)]) == 0
    assert out.stat().st_mode & 0o777 == 0o644


def nothing(write: Writer, fd: int, offsets: I64, words: U64, width: int) -> None:
    """A writer that writes nothing."""


def all_but_one(write: Writer, fd: int, offsets: I64, words: U64, width: int) -> None:
    write(fd, offsets[1:], words[1:], width)


def one_word_off(write: Writer, fd: int, offsets: I64, words: U64, width: int) -> None:
    write(fd, offsets + 4, words, width)


def one_bit_off(write: Writer, fd: int, offsets: I64, words: U64, width: int) -> None:
    write(fd, offsets, words ^ np.uint64(1), width)


def too_wide(write: Writer, fd: int, offsets: I64, words: U64, width: int) -> None:
    """The second slot gets a zero."""
    write(fd, offsets, words, 8)


def cut_short(write: Writer, fd: int, offsets: I64, words: U64, width: int) -> None:
    write(fd, offsets, words, width)
    os.ftruncate(fd, os.fstat(fd).st_size - 1)


def a_record_more(write: Writer, fd: int, offsets: I64, words: U64, width: int) -> None:
    """Records are those edits that come close together and are addresses."""
    write(fd, offsets, words, width)
    if width == 8 and len(offsets) > 1:
        write(fd, offsets[:1], words[1:2], width)


@pytest.mark.parametrize("where", ["copy", "in place"])
@pytest.mark.parametrize(
    ("contract", "spoil"),
    [
        *((c, s) for c in ("native", "stock") for s in (nothing, all_but_one, one_word_off, one_bit_off, too_wide)),
        *((c, cut_short) for c in ("native", "stock")),
        ("native", a_record_more),
    ],
)
def test_what_does_not_read_back_is_our_failure(
    mini: Mini, monkeypatch: pytest.MonkeyPatch, tool: Tool, *,
    spoil: Callable[..., None], where: str, contract: str,
) -> None:  # fmt: skip
    vmlinux = mini(Spec(contract=contract))  # type: ignore[arg-type]  # parametrize loses the literals
    monkeypatch.setattr("prologue.patching.apply.write_words", partial(spoil, write_words))
    listing = sorted(vmlinux.parent.iterdir())
    there = ["--in-place"] if where == "in place" else ["-o", str(vmlinux.with_name("out"))]
    said = tool("patch", vmlinux, "--contract", contract, "--no-reread", *there, status=3).err
    assert re.search("does not read back|bytes, expected", said)
    assert sorted(vmlinux.parent.iterdir()) == listing  # a copy never gets its name


@pytest.mark.parametrize(
    ("contract", "kind"),
    [("native", "site"), ("native", "record"), ("native", "marker"), ("stock", "site"), ("stock", "init")],
)
def test_a_plan_that_misses_something_is_found_out(
    mini: Mini, kind: str, contract: str, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check knows what processed means, and does not take the plan's word for it."""

    def shorter(*arguments: Any) -> PatchPlan:
        plan = build_plan(*arguments)
        return replace(plan, stages=tuple(stage for stage in plan.stages if stage.kind != kind))

    vmlinux = mini(Spec(contract=contract))  # type: ignore[arg-type]  # parametrize loses the literals
    assert build_plan(Kernel(vmlinux), contract).count(kind)  # type: ignore[arg-type]
    monkeypatch.setattr("prologue.patching.patch.build_plan", shorter)
    out = vmlinux.with_name("out")
    said = tool("patch", vmlinux, "--contract", contract, "--no-reread", "-o", out, status=3).err
    assert "does not read back" in said
    assert not out.exists()


def test_lief_disagreeing_is_our_failure(vmlinux: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    def only_before(path: Path, *, processed: bool, moved: bool) -> RereadRecords:
        return RereadRecords((1,), (2,)) if processed else reread(path, processed=processed, moved=moved)

    monkeypatch.setattr("prologue.patching.reread.vmlinux.reread", only_before)
    assert "LIEF reads other records" in tool("patch", vmlinux, "-o", vmlinux.with_name("out"), status=3).err
    assert not vmlinux.with_name("out").exists()


@pytest.mark.parametrize("where", ["in place", "a copy"])
def test_a_file_that_lief_reads_in_another_way_is_refused(
    vmlinux: Path, where: str, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """Before it is written, and as a fault of the file: no bug in the writer made it so."""
    monkeypatch.setattr("prologue.patching.reread.vmlinux.reread", lambda *_, **__: RereadRecords((1,), (2,)))
    before, listing = vmlinux.read_bytes(), sorted(vmlinux.parent.iterdir())
    there = ["--in-place", "--reread"] if where == "in place" else ["-o", str(vmlinux.with_name("out"))]
    assert "read this file differently (LIEF reads other records" in tool("patch", vmlinux, *there, status=2).err
    assert vmlinux.read_bytes() == before
    assert sorted(vmlinux.parent.iterdir()) == listing


def test_dry_run_writes_nothing(vmlinux: Path) -> None:
    before, listing = vmlinux.read_bytes(), sorted(vmlinux.parent.iterdir())
    assert main(["patch", str(vmlinux), "--dry-run"]) == 0
    assert vmlinux.read_bytes() == before
    assert sorted(vmlinux.parent.iterdir()) == listing


def test_only_approved_plans_are_written(vmlinux: Path) -> None:
    kernel = Kernel(vmlinux)
    with pytest.raises(TypeError, match="approved"):
        ApprovedPlan(kernel, build_plan(kernel, "native"))


def test_a_word_that_changed_since_planning_stops_everything(vmlinux: Path) -> None:
    kernel = Kernel(vmlinux)
    approved = approve(kernel, build_plan(kernel, "native"))
    with edit(vmlinux) as elf:
        elf.set_word(elf.value("work_leaf"), 0xD2800000)
    before = vmlinux.read_bytes()
    with pytest.raises(Exception, match=r"work_leaf .*found d2800000, .*nothing was written: link again"):
        apply_in_place(approved)
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("form", ["rela", "rela-applied"])
def test_a_record_that_is_relocated_by_its_addend_is_moved_there(mini: Mini, form: Form) -> None:
    """What the table itself holds is overwritten when the kernel relocates itself."""
    vmlinux = mini(Spec(form=form))
    table = ElfEdit(vmlinux)
    slots = {slot: table.quad(slot) for slot in table.live_slots()}
    addends = {slot: table.record(slot) for slot in slots}
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    after = ElfEdit(vmlinux)
    assert {slot: after.record(slot) - 4 for slot in slots} == addends
    assert {slot: after.quad(slot) for slot in slots} == slots
    assert main(["verify", str(vmlinux), "--release"]) == 0


def test_undoing_that_is_interrupted_is_unfinished(vmlinux: Path) -> None:
    """The last stage goes first: with the flag set, a kernel believes in records and sites of which some are undone."""
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    kernel = Kernel(vmlinux)
    done = [PlacedWords(s.offsets, s.new, s.width) for s in build_plan(kernel, "native").inverse().stages]
    states = [with_words(kernel, done[:count]).state for count in range(len(done) + 1)]
    assert states == ["processed", *["unfinished"] * (len(done) - 1), "untouched"]


@pytest.mark.thorough
@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize("form", one_quick("relr", "rela", "rela-applied", "static"))
def test_every_interrupted_state_is_unfinished_and_is_finished(mini: Mini, layout: str, form: str) -> None:
    """Write the plan's words one by one: each state between says PL202, and a rerun ends in the same bytes."""
    spec = Spec(layout=layout, form=form)  # type: ignore[arg-type]  # parametrize loses the literals
    vmlinux = mini(spec)
    # A function may begin with a NOP of its own (a jump label): then its moved record looks much like an unmoved one.
    with edit(vmlinux) as elf:
        for slot in elf.live_slots()[:3]:
            elf.set_word(elf.first_slot(slot, call_ops=layout == "4,2") + 8, NOP)
    original = bytearray(vmlinux.read_bytes())
    plan = build_plan(Kernel(vmlinux), "native")
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    final = vmlinux.read_bytes()
    edits = [
        (int(offset), int(new).to_bytes(stage.width, "little"))
        for stage in plan.stages
        for offset, new in zip(stage.offsets, stage.new, strict=True)
    ]
    for offset, new in edits[:-1]:
        original[offset : offset + len(new)] = new
        vmlinux.write_bytes(original)
        assert Kernel(vmlinux).state == "unfinished"
        assert main(["verify", str(vmlinux), "--select", "PL202"]) == 1
        assert main(["patch", str(vmlinux), "--in-place"]) == 0
        assert vmlinux.read_bytes() == final


def test_a_file_system_without_locks_is_an_error_of_that_file(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many files the others are processed all the same."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    result = patch_or_error(PatchRequest(), mini(Spec()))
    assert isinstance(result, OutputError)
    assert "cannot be processed: No locks available" in str(result)
