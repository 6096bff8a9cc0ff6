"""Where output may go, and what is left behind when it cannot."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.plan.build import build_plan
from prologue.reread.vmlinux import Reread
from prologue.rules.engine import ApprovedPlan, approve
from prologue.sites.kernel import Kernel
from prologue.write.apply import apply_in_place
from tests.mini_kernel.build import Spec
from tests.support.elf_edit import NOP, ElfEdit
from tests.support.needs import missing

Mini = Callable[[Spec], Path]


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    return mini(Spec())


def expect_refusal(vmlinux: Path, message: str, capsys: pytest.CaptureFixture[str], *options: str) -> None:
    before, listing = vmlinux.read_bytes(), sorted(vmlinux.parent.iterdir())
    assert main(["patch", str(vmlinux), *options]) == 2
    assert message in capsys.readouterr().err
    assert vmlinux.read_bytes() == before
    assert sorted(vmlinux.parent.iterdir()) == listing


def test_output_is_input(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect_refusal(vmlinux, "is the input", capsys, "-o", str(vmlinux))


def test_output_directory_is_missing(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect_refusal(vmlinux, "No such file or directory", capsys, "-o", str(vmlinux.parent / "no" / "out"))


@pytest.mark.parametrize("kind", ["directory", "fifo", "symlink", "dangling", "hard link", "read-only"])
def test_output_that_must_not_be_replaced(vmlinux: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
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
    expect_refusal(vmlinux, words.get(kind, "symbolic link"), capsys, "-o", str(out))
    assert other.read_text() == "precious"


@pytest.mark.parametrize("kind", ["symlink", "hard link", "read-only"])
def test_in_place_needs_a_plain_file(vmlinux: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = vmlinux
    if kind == "symlink":
        target = vmlinux.with_name("link")
        target.symlink_to(vmlinux)
    elif kind == "hard link":
        vmlinux.with_name("link").hardlink_to(vmlinux)
    else:
        vmlinux.chmod(0o444)
    word = {"symlink": "symbolic link", "hard link": "2 hard links", "read-only": "read-only (mode 0444)"}[kind]
    expect_refusal(target, word, capsys, "--in-place")


def test_unwritable_directory(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.geteuid() == 0:
        # root may write anywhere; /proc refuses even root.
        expect_refusal(vmlinux, "cannot be created", capsys, "-o", "/proc/out")
        return
    closed = vmlinux.parent / "closed"
    closed.mkdir(mode=0o555)
    expect_refusal(vmlinux, "cannot be created", capsys, "-o", str(closed / "out"))


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


def test_full_disk(vmlinux: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect_refusal(vmlinux, "No space left on device", capsys, "-o", str(small_disk / "out"))
    assert main(["image", str(vmlinux), "-o", str(small_disk / "Image")]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert list(small_disk.iterdir()) == []


def test_the_second_of_two_refuses(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with vmlinux.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        expect_refusal(vmlinux, "another prologue is working on this file", capsys, "--in-place")
        expect_refusal(vmlinux, "another prologue is working on this file", capsys, "-o", str(vmlinux.with_name("out")))
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


def test_a_copy_that_does_not_read_back_never_gets_its_name(
    vmlinux: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(offsets: object, *_: object) -> None:
        """A writer that writes nothing."""

    monkeypatch.setattr("prologue.write.apply._write_stage", spoil)
    listing = sorted(vmlinux.parent.iterdir())
    assert main(["patch", str(vmlinux), "-o", str(vmlinux.with_name("out"))]) == 3
    assert "does not read back" in capsys.readouterr().err
    assert sorted(vmlinux.parent.iterdir()) == listing


def test_lief_disagreeing_is_our_failure(
    vmlinux: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("prologue.reread.vmlinux.reread", lambda *_, **__: Reread((1,), (2,)))
    assert main(["patch", str(vmlinux), "-o", str(vmlinux.with_name("out"))]) == 3
    assert "LIEF reads other records" in capsys.readouterr().err
    assert not vmlinux.with_name("out").exists()


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
    elf = ElfEdit(vmlinux)
    elf.set_word(elf.value("work_leaf"), 0xD2800000)
    elf.save(vmlinux)
    before = vmlinux.read_bytes()
    with pytest.raises(Exception, match=r"work_leaf .*expected d503201f, found d2800000; nothing was written"):
        apply_in_place(approved)
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize("form", ["rela", "rela-applied", "relr", "static"])
def test_every_interrupted_state_is_unfinished_and_is_finished(mini: Mini, layout: str, form: str) -> None:
    """Write the plan's words one by one: each state between says PL202, and a rerun ends in the same bytes."""
    spec = Spec(layout=layout, form=form)  # type: ignore[arg-type]  # parametrize loses the literals
    vmlinux = mini(spec)
    elf = ElfEdit(vmlinux)
    # A function may begin with a NOP of its own (a jump label): then its moved record looks much like an unmoved one.
    for slot in elf.live_slots()[:3]:
        elf.set_word(elf.first_slot(slot, call_ops=layout == "4,2") + 8, NOP)
    elf.save(vmlinux)
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
