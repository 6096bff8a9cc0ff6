"""A host runs the mini kernel with KVM, from a program of ours: one recording has both, at EL0, EL1 and EL2."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue.trace.ranges import EXCEPTION
from prologue.trace.readers.recording import TraceRecords, load_recording
from prologue_bench.guest.vm import Machine
from prologue_bench.trace.guest import pack_guest
from prologue_bench.trace.record import Guest, RecordingFiles, Window, record
from tests.mini_kernel.build import Spec, run_command
from tests.support.built import Mini
from tests.support.compare import addresses
from tests.support.cs_recorded import (
    branches_as_perf_prints,
    branches_as_recorded,
    executed_as_decoded,
    executed_as_recorded,
)
from tests.support.needs import needs_kernel, needs_opencsd, needs_tools
from tests.support.texts import text_at
from tests.support.tool import Tool
from tests.support.truth import WordCounts, compare, compare_words

# A guest in a guest of an emulator; tests/trace has recordings of both worlds that it makes.
pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended]

SOURCE = Path(__file__).parent / "kvm" / "run_guest.c"
OTHER = Spec(form="static", layout="4,2", compiler="clang")
HYPERVISOR = Machine(cpu="max,pauth-impdef=on,sve=off", memory=512, virtualization=True)


def build_program(directory: Path) -> Path:
    out = directory / "run_guest"
    flags = ["-O2", "-Wall", "-Werror", "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-stack-protector"]
    place = "-Wl,-Ttext-segment=0x5a5c0000,-z,max-page-size=65536,--build-id=none"
    run_command(["aarch64-linux-gnu-gcc", *flags, place, str(SOURCE), "-o", str(out)])
    return out


@dataclass(frozen=True, slots=True)
class Virtual:
    """A recorded host with its guest."""

    live: Path
    guest: Path
    program: Path
    out: Path
    truth: Path
    slide: int

    def words(self, path: Path, slide: int, level: int) -> WordCounts:
        return compare_words(self.truth, text_at(path, slide), (level,))


def record_host(mini: Mini, directory: Path, append: str) -> Virtual:
    host, guest = Kernel(needs_kernel("trixie").vmlinux), mini(Spec(form="static"))
    program, image, live = build_program(directory), directory / "guest.Image", directory / "live"
    write_flat(ElfImage(guest), image)
    files = RecordingFiles(**{name: directory / name for name in ("out", "truth", "dump", "log")})
    archive = pack_guest(["/run_guest"], more={"run_guest": program.read_bytes(), "guest": image.read_bytes()})
    # Between these two the key of preempt notifiers stays as the dump has it.
    window = Window(begin="kvm_arch_vcpu_ioctl_run", until="kvm_vm_release")
    record(host, window, files, Guest(initramfs=archive, machine=HYPERVISOR, append=append))
    assert "mini: FAIL CPU 1 does not start" in (directory / "log").read_text()  # it has one, and ran to its end
    assert main(["live", "overlay", str(host.path), str(directory / "dump"), "-o", str(live), "-q"]) == 0
    header, _ = load_recording(files.out)
    assert header.slide
    assert compare(directory / "out", directory / "truth").differences == []
    return Virtual(live, guest, program, files.out, directory / "truth", header.slide)


def stale_in(images: tuple[Path, ...], made: Path, host: Path, tool: Tool) -> list[int]:
    """How many words of each guest's image cannot be what ran, if the guests have the VMIDs 1 and 2 in this order."""
    _, records = load_recording(made)
    own = sorted(vmids(records, 1))
    assert len(own) == len(images)
    named = [f"--guest-vmlinux={image}@{vmid}" for image, vmid in zip(images, own, strict=True)]
    said = tool("trace", "check", made, "--vmlinux", host, *named, "--json", status=None).json
    return [sum(place["image"] == str(image) for place in said["stale"]) for image in images]


def vmids(records: TraceRecords, level: int) -> set[int]:
    return set(records["vmid"][records["level"] == level].tolist())


def test_vhe(mini: Mini, tmp_path: Path) -> None:
    """The host is at EL2, the guest at EL1."""
    needs_tools("qemu-system-aarch64")
    made = record_host(mini, tmp_path, "")
    _, records = load_recording(made.out)
    assert vmids(records, 0) == vmids(records, 2) == {-1}
    assert len(vmids(records, 1)) == 1
    assert min(vmids(records, 1)) > 0
    for ran in (made.words(made.live, made.slide, 2), made.words(made.guest, 0, 1)):
        assert ran.inside > 5_000
        assert (ran.outside, ran.wrong) == (0, 0)
    user = made.words(made.program, 0, 0)
    assert user.inside > 1_000
    assert user.wrong == 0
    # In the wrong image is nothing of what ran.
    assert made.words(made.live, made.slide, 1).inside == 0

    # perf has the host's processes in CONTEXTIDR_EL2, and nothing of the guest.
    needs_tools("perf")
    needs_opencsd()
    vmlinux, directory = needs_kernel("trixie").vmlinux, tmp_path / "perf.data"
    command = ["trace", "etm", str(made.out), "--vmlinux", str(vmlinux), "--perf", "--memory", str(tmp_path / "dump")]
    assert main([*command, "-o", str(directory), "-q"]) == 0
    assert list(branches_as_perf_prints(directory)) == list(branches_as_recorded(records, (2,)))
    found = executed_as_decoded(directory, vmlinux)
    for cpu, own in executed_as_recorded(records, (2,)).items():
        assert np.array_equal(found[cpu].vaddrs, own.vaddrs)
        assert (found[cpu].tids != own.tids).sum() < len(own.tids) // 1000


def test_nvhe(mini: Mini, tmp_path: Path) -> None:
    """Host and guest are at EL1, and the VMID tells them apart; at EL2 is the host's text elsewhere."""
    needs_tools("qemu-system-aarch64")
    made = record_host(mini, tmp_path, "kvm-arm.mode=nvhe")
    _, records = load_recording(made.out)
    of_guest = (records["level"] == 1) & (records["vmid"] > 0)
    of_host = (records["level"] == 1) & (records["vmid"] == -1)
    host, guest = made.words(made.live, made.slide, 1), made.words(made.guest, 0, 1)
    assert (host.inside, guest.inside) == (records["count"][of_host].sum(), records["count"][of_guest].sum())
    assert guest.inside > 5_000
    assert (host.wrong, guest.wrong) == (0, 0)
    # An HVC of the host enters its vector for AArch64 at a lower level.
    vectors = Kernel(made.live).symbols.require("__kvm_nvhe___kvm_hyp_host_vector")
    entered = records[(records["level"] == 2) & (records["count"] > 0) & (records["flags"] & EXCEPTION > 0)]["start"]
    offsets = np.unique(entered - np.uint64(vectors.vaddr + 0x400))
    slide = [int(offset) for offset in offsets if offset & np.uint64(0xFFFF) == 0]
    hyp = [made.words(made.live, offset, 2) for offset in slide]
    assert [(ran.outside, ran.wrong) for ran in hyp if ran.inside > 5_000] == [(0, 0)]


def test_two_guests(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    """Side by side, two kernels at the same addresses: each range is of the guest whose VMID it has."""
    needs_tools("qemu-system-aarch64")
    host = Kernel(needs_kernel("trixie").vmlinux)
    specs = {"one": Spec(form="static"), "two": OTHER}
    guests = {name: mini(spec).rename(tmp_path / f"vmlinux.{name}") for name, spec in specs.items()}
    more = {"run_guest": build_program(tmp_path).read_bytes()}
    for name, vmlinux in guests.items():
        write_flat(ElfImage(vmlinux), tmp_path / name)
        more[f"{name}.Image"] = (tmp_path / name).read_bytes()
    files = RecordingFiles(**{name: tmp_path / name for name in ("out", "truth", "dump", "log")})
    places = "; ".join(f"mkdir /{name} && mv /{name}.Image /{name}/guest" for name in guests)
    both = " ".join(f"cd /{name}; /run_guest >said &" for name in guests)
    archive = pack_guest(["sh", "-c", f"{both} wait; cat /*/said"], places, more=more)
    record(host, Window(begin="kvm_arch_vcpu_ioctl_run"), files, Guest(initramfs=archive, machine=HYPERVISOR))
    assert (tmp_path / "log").read_text().count("mini: FAIL CPU 1 does not start") == 2

    one, two = guests.values()
    found = {order: stale_in(order, files.out, host.path, tool) for order in ((one, two), (two, one))}
    right = min(found, key=lambda order: sum(found[order]))
    assert found[right] == [0, 0]
    assert min(found[right[::-1]]) > 10  # the other way round neither image is what ran
    _, records = load_recording(files.out)
    for guest, vmid in zip(right, sorted(vmids(records, 1)), strict=True):
        mine = records[(records["level"] == 1) & (records["vmid"] == vmid)]
        assert mine["count"].sum() > 5_000
        inside = np.zeros(len(mine), np.bool_)
        for vaddr, words in text_at(guest, 0):
            inside |= (mine["start"] >= vaddr) & (mine["start"] < vaddr + 4 * len(words))
        assert addresses(mine["start"][~inside]) == []
