"""A campaign on a disk that is really full: one error that says what to do, nothing torn, and it resumes later."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from prologue.errors import OutputError
from prologue_bench.errors import BenchError
from prologue_bench.guest.vm import run_console
from prologue_bench.results.journal import hold
from prologue_bench.results.store import read_results
from prologue_bench.targets.remote import Transcript, execute
from tests.bench.campaign.made import PLAN, Machine, record
from tests.support.needs import missing

FULL = "No space left on device: free some space, then run it again"
Disk = Callable[[str], Path]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A tmpfs of a size, or of another size when called again."""
    mount = tmp_path / "disk"
    mount.mkdir()

    def resize(size: str) -> Path:
        options = f"size={size}" + (",remount" if mount.is_mount() else "")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(mount)], capture_output=True, check=False
        )
        if done.returncode:
            if os.geteuid() == 0:
                missing("mount of a tmpfs")
            pytest.skip("needs root to mount a small tmpfs")
        return mount

    yield resize
    if mount.is_mount():
        subprocess.run(["umount", str(mount)], check=True)


def test_a_boot_that_has_no_room_is_made_again(disk: Disk) -> None:
    plan, directory = replace(PLAN, blocks=30), disk("16k") / "campaign"
    with pytest.raises(BenchError, match=rf"results\.jsonl: {FULL}"):
        record(directory, Machine(), plan)
    recorded = read_results(directory).boots
    assert 0 < len(recorded) < 90
    disk("1m")
    record(directory, Machine(), plan)
    boots = read_results(directory).boots
    assert boots[: len(recorded)] == recorded
    assert [boot.number for boot in boots] == list(range(1, 91))


def test_no_room_for_the_plan(disk: Disk) -> None:
    directory = disk("4k") / "campaign"
    directory.mkdir()
    (directory.parent / "filler").write_bytes(b"x" * 4096)
    with pytest.raises(OutputError, match="No space left on device") as full:
        record(directory, Machine())
    assert full.value.exit_code == 2
    assert [path.name for path in directory.iterdir()] == ["lock"]


@pytest.mark.thorough
def test_no_room_for_the_console(disk: Disk, tmp_path: Path) -> None:
    """The machine runs to its end: it must not wait for ever for a reader."""
    directory = disk("64k")
    with pytest.raises(BenchError, match=FULL), hold(directory):
        run_console(["sh", "-c", f"seq 100000; touch {tmp_path}/ended"], directory / "log", 20)
    assert (tmp_path / "ended").exists()


@pytest.mark.thorough
def test_no_room_for_the_log_of_a_board(disk: Disk) -> None:
    directory, whole = disk("64k"), []

    def work() -> None:
        with Transcript(directory / "log") as log:
            whole.append(execute(["seq", "100000"], 20, log))

    with pytest.raises(BenchError, match=FULL), hold(directory):
        work()
    assert [(said.status, len(said.lines)) for said in whole] == [(0, 100_000)]
