"""Debian's own arm64 kernels: processed, re-read, booted, traced; and what wrong processing looks like."""

from __future__ import annotations

import filecmp
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.insn import a64
from prologue.plan.build import _record_edits, _site_edits
from prologue.reread.vmlinux import reread
from prologue.sites.kernel import Kernel
from prologue_bench.errors import GuestLostError
from prologue_bench.guest.initramfs import build_initramfs
from prologue_bench.guest.kernels import DebianKernel
from prologue_bench.guest.vm import GuestRun, Job, boot
from tests.support.needs import needs_kernel, needs_tools

pytestmark = pytest.mark.kernel

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
TRACE = Job(("ftrace_cycle",), parameters=(("cycles", 1),))
LAYOUT = {"bookworm": "2", "trixie": "4,2"}


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel, its processed copy, and a directory for more."""

    kernel: DebianKernel
    processed: Path
    plan: Path
    directory: Path

    @property
    def vmlinux(self) -> Path:
        return self.kernel.vmlinux


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    kernel = needs_kernel(request.param)
    directory = tmp_path_factory.mktemp(str(request.param))
    made = Case(kernel, directory / "processed", directory / "plan.json", directory)
    # -o re-reads the result with LIEF before it is called good.
    command = ["patch", str(kernel.vmlinux), "-o", str(made.processed), "--contract", "stock"]
    assert main([*command, "--save-plan", str(made.plan)]) == 0
    yield made
    shutil.rmtree(directory)


def booted(vmlinux: Path, directory: Path, job: Job) -> GuestRun:
    needs_tools("qemu-system-aarch64")
    image = directory / f"{vmlinux.name}.Image"
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    return boot(image, build_initramfs(), directory / f"{vmlinux.name}.log", job)


def test_scan_figures(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", str(case.vmlinux), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
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


def test_processed_is_what_it_should_be(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    before = reread(case.vmlinux, processed=False, moved=False)
    after = reread(case.processed, moved=False)
    assert before == after
    assert main(["verify", str(case.processed), "--against", str(case.vmlinux)]) == 0
    assert main(["scan", str(case.processed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))["state"] == "processed"


def test_reversal_is_bit_exact_and_a_second_run_changes_nothing(case: Case) -> None:
    work = Path(shutil.copy(case.processed, case.directory / "work"))
    assert main(["patch", str(work), "--in-place", "--contract", "stock"]) == 0
    assert filecmp.cmp(work, case.processed, shallow=False)
    assert main(["patch", str(work), "--in-place", "--reverse", str(case.plan)]) == 0
    assert filecmp.cmp(work, case.vmlinux, shallow=False)
    work.unlink()


def test_image_equals_objcopy(case: Case) -> None:
    needs_tools("aarch64-linux-gnu-objcopy")
    ours, theirs = case.directory / "ours", case.directory / "theirs"
    removed = ["-R", ".note", "-R", ".note.gnu.build-id", "-R", ".comment"]
    objcopy = ["aarch64-linux-gnu-objcopy", "-O", "binary", *removed, "-S"]
    for vmlinux in (case.vmlinux, case.processed):
        assert main(["image", str(vmlinux), "-o", str(ours)]) == 0
        subprocess.run([*objcopy, str(vmlinux), str(theirs)], check=True)
        assert filecmp.cmp(ours, theirs, shallow=False)


@pytest.mark.qemu
def test_processed_kernel_boots_and_traces(case: Case) -> None:
    plain = booted(case.vmlinux, case.directory, Job())
    functions = plain.one("start").data["functions"]
    assert functions > 30000

    job = Job(("ftrace_cycle",), parameters=(("cycles", 10),), timeout=400)
    traced = booted(case.processed, case.directory, job)
    assert traced.one("start").data == {"release": case.kernel.release, "cpus": 2, "functions": functions}
    cycles = traced.all("traced")
    assert [event.data["tracer"] for event in cycles] == ["function", "function_graph"] * 10
    assert all(event.data["entries"] > 100 for event in cycles)
    load = traced.one("load").data
    assert load["runs"] > 0
    assert load["failed"] == 0
    assert traced.all("dmesg") == []
    assert traced.all("error") == []
    assert traced.one("end").data == {"functions": functions, "taint": 0}


@pytest.mark.qemu
def test_wrong_processing_dies_with_ftrace_bug(case: Case) -> None:
    """Moved records on a stock kernel: the check above can fail."""
    kernel = Kernel(case.vmlinux)
    assert kernel.sites is not None
    wrong = Path(shutil.copy(case.vmlinux, case.directory / "wrong"))
    wrong.chmod(0o644)
    with wrong.open("r+b") as stream:
        for stage in (_site_edits(kernel, kernel.sites), _record_edits(kernel, kernel.sites)):
            for offset, new in zip(stage.offsets.tolist(), stage.new.tolist(), strict=True):
                os.pwrite(stream.fileno(), int(new).to_bytes(stage.width, "little"), offset)
    if kernel.layout == "2":
        # rec->ip is one word too far: boot writes the MOV into the second slot, and the first swing finds no NOP.
        lines = " ".join(event.data["line"] for event in booted(wrong, case.directory, TRACE).all("dmesg"))
        assert "ftrace bug" in lines
    else:
        # A CALL_OPS kernel does not even reach the console: rec->ip is 0 and so is the literal's place.
        loud = Job(append="earlycon ignore_loglevel")
        with pytest.raises(GuestLostError, match="Kernel panic"):
            booted(wrong, case.directory, loud)
        console = (case.directory / "wrong.log").read_text()
        assert "Misaligned patch-site" in console
        assert "ftrace_init_nop" in console
    wrong.unlink()


@pytest.mark.qemu
def test_sites_without_the_init_stub_die_with_ftrace_bug(case: Case) -> None:
    """All prologues in place, but the kernel's own init left alive: what PL202 calls unfinished."""
    kernel = Kernel(case.vmlinux)
    assert kernel.sites is not None
    wrong = Path(shutil.copy(case.vmlinux, case.directory / "unfinished"))
    wrong.chmod(0o644)
    stage = _site_edits(kernel, kernel.sites)
    with wrong.open("r+b") as stream:
        for offset in stage.offsets.tolist():
            os.pwrite(stream.fileno(), a64.MOV_X9_X30.to_bytes(4, "little"), offset)
    assert Kernel(wrong).state == "unfinished"
    lines = " ".join(event.data["line"] for event in booted(wrong, case.directory, TRACE).all("dmesg"))
    wrong.unlink()
    assert "ftrace bug" in lines


KILLS = 100


def test_killed_at_random_and_finished(case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    """SIGKILL at random moments of --in-place; a rerun always ends in the bytes of an undisturbed run."""
    work = Path(shutil.copy(case.vmlinux, case.directory / "killed"))
    work.chmod(0o644)
    command = ["patch", str(work), "--in-place", "--contract", "stock"]
    stage = json.loads(case.plan.read_text())["stages"][0]["edits"]
    offsets = np.array([edit[1] for edit in stage])
    seed = random.Random(3)  # noqa: S311 - not a secret
    unfinished = 0
    for _ in range(KILLS):
        _run_and_kill(command, work, int(offsets[seed.randrange(len(offsets))]), seed.random() < 0.2, seed)
        unfinished += Kernel(work).state == "unfinished"
        assert main(command) == 0
        assert filecmp.cmp(work, case.processed, shallow=False)
        assert main(["patch", str(work), "--in-place", "--reverse", str(case.plan)]) == 0
    assert filecmp.cmp(work, case.vmlinux, shallow=False)
    work.unlink()
    capfd.readouterr()
    # If fewer were caught half-way, this test would not test what it says.
    assert unfinished >= KILLS // 5, unfinished


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
