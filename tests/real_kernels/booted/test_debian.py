"""Debian's own arm64 kernels, processed, booted and traced; and what wrong processing looks like."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.plan.build import _record_edits, _site_edits
from prologue_bench.errors import GuestLostError
from prologue_bench.guest.initramfs import build_initramfs
from prologue_bench.guest.vm import GuestRun, Job, boot
from tests.real_kernels.conftest import DEMO_FIRST, Case
from tests.support.cases import one_tested
from tests.support.needs import needs_common_tools
from tests.support.plain_boots import boot_plain

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]
demo_first = pytest.mark.parametrize("case", DEMO_FIRST, indirect=True, scope="module")
newest_tested = pytest.mark.parametrize("case", one_tested("trixie", "bookworm"), indirect=True, scope="module")

TRACE = Job(names=("ftrace_cycle",), parameters=(("cycles", 1),))


def booted(vmlinux: Path, directory: Path, job: Job, *, plain: bool = False) -> GuestRun:
    needs_common_tools("qemu-system-aarch64")
    image = directory / f"{vmlinux.name}.Image"
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    return (boot_plain if plain else boot)(image, build_initramfs(), directory / f"{vmlinux.name}.log", job)


@demo_first
def test_processed_kernel_boots_and_traces(case: Case) -> None:
    plain = booted(case.vmlinux, case.directory, Job(), plain=True)
    functions = plain.one("start").data["functions"]
    assert functions > 30000

    job = Job(names=("ftrace_cycle",), parameters=(("cycles", 2),), timeout=400)
    traced = booted(case.processed, case.directory, job)
    assert traced.one("start").data == {"release": case.kernel.release, "cpus": 2, "functions": functions}
    cycles = traced.all("traced")
    assert [event.data["tracer"] for event in cycles] == ["function", "function_graph"] * 2
    assert all(event.data["entries"] > 100 for event in cycles)
    load = traced.one("load").data
    assert load["runs"] > 0
    assert load["failed"] == 0
    assert traced.all("dmesg") == []
    assert traced.all("error") == []
    assert traced.one("end").data == {"functions": functions, "taint": 0}


@newest_tested
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


@newest_tested
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
