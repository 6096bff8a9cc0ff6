"""Debian's own arm64 kernels, processed and re-read."""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue.patching.reread.vmlinux import reread
from tests.real_kernels.conftest import DEMO_FIRST, Case
from tests.support.needs import needs_tools
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.parametrize("case", DEMO_FIRST, indirect=True, scope="module")]

# Measured on these very packages; another version is compared with what LIEF counts.
FIGURES: dict[str, dict[str, object]] = {
    "6.1.192-2": {
        "layout": "2", "encoding": "RELA unapplied", "records": 38577, "zero_records": 0, "sites": 38577,
        "sites_by_section": {".text": 36784, ".init.text": 1793}, "bti_sites": 0,
    },
    "6.12.107-1": {
        "layout": "4,2", "encoding": "RELR", "records": 44216, "zero_records": 336, "sites": 43880, "bti_sites": 0,
    },
}  # fmt: skip
LAYOUT = {"bookworm": "2", "trixie": "4,2"}


def test_scan_figures(case: Case, tool: Tool) -> None:
    (data,) = tool("scan", case.vmlinux, "--json").json["files"]
    suite = case.kernel.suite
    assert (data["layout"], data["state"], data["contract"]) == (LAYOUT[suite], "untouched", "stock")
    assert data["release"] == case.kernel.release
    assert data["init"] == "live"
    known = FIGURES.get(case.kernel.package_version)
    if known is not None:
        assert {name: data[name] for name in known} == known
    seen = reread(case.vmlinux, processed=False, moved=False)
    assert (len(seen.records), len(seen.first_slots)) == (data["records"], data["sites"])
    assert {a["code"] for a in data["anomalies"]} <= {"PL109"}


def test_processed_is_what_it_should_be(case: Case, tool: Tool) -> None:
    before = reread(case.vmlinux, processed=False, moved=False)
    after = reread(case.processed, moved=False)
    assert before == after
    tool("verify", case.processed, "--against", case.vmlinux)
    assert tool("scan", case.processed, "--json").json["files"][0]["state"] == "processed"


def same(one: Path, other: Path) -> bool:
    """Whether both have the same bytes: cmp reads 300 MB in a third of the time that filecmp takes."""
    return subprocess.run(["cmp", "--silent", one, other], check=False).returncode == 0


def test_reversal_is_bit_exact_and_a_second_run_changes_nothing(case: Case) -> None:
    work = Path(shutil.copy(case.processed, case.directory / "work"))
    assert main(["patch", str(work), "--in-place", "--contract", "stock"]) == 0
    assert same(work, case.processed)
    assert main(["patch", str(work), "--in-place", "--reverse", str(case.plan)]) == 0
    assert same(work, case.vmlinux)
    work.unlink()


def test_image_equals_objcopy(case: Case) -> None:
    needs_tools("aarch64-linux-gnu-objcopy")
    ours, theirs = case.directory / "ours", case.directory / "theirs"
    removed = ["-R", ".note", "-R", ".note.gnu.build-id", "-R", ".comment"]
    objcopy = ["aarch64-linux-gnu-objcopy", "-O", "binary", *removed, "-S"]
    for vmlinux in (case.vmlinux, case.processed):
        assert main(["image", str(vmlinux), "-o", str(ours)]) == 0
        subprocess.run([*objcopy, str(vmlinux), str(theirs)], check=True)
        assert same(ours, theirs)


KILLS = 6  # of each kernel, at least
UNFINISHED = 2  # of them in the middle of the writing, at least


def test_killed_at_random_and_finished(case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    """SIGKILL at random moments of --in-place; a rerun always ends in the bytes of an undisturbed run."""
    work = Path(shutil.copy(case.vmlinux, case.directory / "killed"))
    work.chmod(0o644)
    command = ["patch", str(work), "--in-place", "--contract", "stock"]
    stage = json.loads(case.plan.read_text())["stages"][0]["edits"]
    offsets = np.array([edit[1] for edit in stage])
    seed = random.Random(3)  # noqa: S311 - not a secret
    kills = unfinished = 0
    # On a busy machine, this process may not run while the other one writes, which is then killed too late.
    while kills < KILLS or unfinished < UNFINISHED:
        kills += 1
        _run_and_kill(command, work, int(offsets[seed.randrange(len(offsets))]), seed.random() < 0.2, seed)
        unfinished += Kernel(work).state == "unfinished"
        assert main(command) == 0
        assert same(work, case.processed)
        assert main(["patch", str(work), "--in-place", "--reverse", str(case.plan)]) == 0
    assert same(work, case.vmlinux)
    work.unlink()
    capfd.readouterr()


def _run_and_kill(command: list[str], path: Path, offset: int, blind: bool, seed: random.Random) -> None:
    """Fork a run, and kill it when the word at ``offset`` changes, or, if blind, after a random time."""
    child = os.fork()
    if child == 0:
        try:
            main(command)
        finally:
            os._exit(0)
    if blind:
        time.sleep(seed.random() * 0.2)
    else:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as view:
            deadline = time.monotonic() + 5
            while view[offset : offset + 4] == b"\x1f\x20\x03\xd5" and time.monotonic() < deadline:
                pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
