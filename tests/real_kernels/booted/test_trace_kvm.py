"""A VHE host at EL2 runs the mini kernel at EL1, and a program of ours at EL0 runs both: one recording has them all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from prologue.sites.kernel import Kernel
from prologue.trace.truth import compare, compare_words, load_recording
from prologue_bench.guest.vm import Machine
from prologue_bench.trace.guest import pack_guest
from prologue_bench.trace.record import Guest, RecordingFiles, Window, record
from tests.mini_kernel.build import Spec, run_command
from tests.support.built import Mini
from tests.support.needs import needs_kernel, needs_tools
from tests.support.texts import text_at

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

SOURCE = Path(__file__).parent / "kvm" / "run_guest.c"
HYPERVISOR = Machine(cpu="max,pauth-impdef=on", memory=512, virtualization=True)


def build_program(directory: Path) -> Path:
    out = directory / "run_guest"
    flags = ["-O2", "-Wall", "-Werror", "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-stack-protector"]
    place = "-Wl,-Ttext-segment=0x5a5c0000,-z,max-page-size=65536,--build-id=none"
    run_command(["aarch64-linux-gnu-gcc", *flags, place, str(SOURCE), "-o", str(out)])
    return out


def test_host_and_guest(mini: Mini, tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64")
    host, guest, program = Kernel(needs_kernel("trixie").vmlinux), mini(Spec(form="static")), build_program(tmp_path)
    image = tmp_path / "guest.Image"
    write_flat(ElfImage(guest), image)
    files = RecordingFiles(out=tmp_path / "out", truth=tmp_path / "truth", dump=tmp_path / "dump", log=tmp_path / "log")
    archive = pack_guest(["/run_guest"], more={"run_guest": program.read_bytes(), "guest": image.read_bytes()})
    # Between these two the key of preempt notifiers stays as the dump has it.
    window = Window(begin="kvm_arch_vcpu_ioctl_run", until="kvm_vm_release")
    record(host, window, files, Guest(initramfs=archive, machine=HYPERVISOR))
    assert "mini: FAIL CPU 1 does not start" in (tmp_path / "log").read_text()  # the guest has one, and ran to its end
    live = tmp_path / "live"
    assert main(["live", "overlay", str(host.path), str(files.dump), "-o", str(live), "-q"]) == 0

    assert compare(tmp_path / "out", tmp_path / "truth").differences == []
    header, records = load_recording(tmp_path / "out")
    assert header.slide
    assert np.unique(records["level"]).tolist() == [0, 1, 2]
    vmids = {level: set(records["vmid"][records["level"] == level].tolist()) for level in (0, 1, 2)}
    assert vmids[0] == vmids[2] == {-1}
    assert len(vmids[1]) == 1
    assert min(vmids[1]) > 0
    for path, slide, level in ((live, header.slide, 2), (guest, 0, 1)):
        ran = compare_words(tmp_path / "truth", text_at(path, slide), (level,))
        assert ran.inside > 5_000
        assert (ran.outside, ran.wrong_addresses.tolist()) == (0, [])
    user = compare_words(tmp_path / "truth", text_at(program, 0), (0,))
    assert user.inside > 1_000
    assert user.wrong == 0
    # Of the wrong image nothing can be what ran.
    assert compare_words(tmp_path / "truth", text_at(live, header.slide), (1,)).inside == 0
