"""Code that a module leaves in packs of BPF and slots of kprobes, and a module without ftrace sites that hides."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from prologue.kernel.kernel import Kernel
from prologue.live.memory.sources import open_memory
from tests.real_kernels.booted.conftest import MODULES
from tests.real_kernels.booted.imitated import Imitation, write_sources
from tests.real_kernels.booted.test_hooks import audited
from tests.real_kernels.states import programs
from tests.support.debian_modules import build_modules
from tests.support.live_guest import TRACING, live_guest
from tests.support.needs import needs_kernel, needs_modules
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(1200)]

_FORGER: Final = Path(__file__).with_name("forger.c")
_ADDRESSES: Final = {
    "bpf_prog_pack_alloc_at": "bpf_prog_pack_alloc", "bpf_ksym_add_at": "bpf_ksym_add",
    "bpf_arch_text_copy_at": "bpf_arch_text_copy", "get_insn_slot_at": "__get_insn_slot",
    "insn_slots_at": "kprobe_insn_slots", "patch_at": "aarch64_insn_patch_text_nosync",
}  # fmt: skip
_HOOKED: Final = ("kernel_halt", "kernel_restart", "vfs_writev", "kernel_power_off", "kernel_kexec")


def test_made_up_owners_are_none(tmp_path: Path, tool: Tool) -> None:
    """With kprobe events, tracers, filters and nf_tables nothing is found before; then each hook, and the code."""
    kernel = needs_kernel("trixie")
    package = needs_modules(kernel)
    source = write_sources(tmp_path / "sources", (Imitation("silent", ""),))
    shutil.copy(_FORGER, source)
    (source / "Kbuild").write_text(
        "obj-m := imitator_silent.o forger.o\nCFLAGS_REMOVE_imitator_silent.o := $(CC_FLAGS_FTRACE)\n"
    )
    build_modules(kernel, source)
    files = programs() | {f"more/{path.name}": path.read_bytes() for path in source.glob("*.ko")}
    modules = (*MODULES, "nf_tables")
    with live_guest(kernel.vmlinux, tmp_path, package=package, modules=modules, files=files) as guest:
        events = f"echo p:place vfs_statx+0x20 >{TRACING}/kprobe_events; echo 1 >{TRACING}/events/kprobes/enable"
        guest.shell(f"{events}; echo function_graph >{TRACING}/current_tracer; echo 1 >{TRACING}/events/sched/enable")
        filters = "filter:socket filter:reuseport filter:seccomp"
        assert guest.shell(f"/more/fentry {filters} >/tmp/said </dev/null 2>&1 & sleep 3; cat /tmp/said") == "+++\n"
        before = audited(guest.vmlinux, guest.dump, tool)
        assert before == ([], [])
        guest.shell(f"echo nop >{TRACING}/current_tracer")
        symbols, slide = Kernel(guest.vmlinux).symbols, open_memory(str(guest.dump())).info.slide
        assert slide is not None
        words = " ".join(f"{key}={symbols.require(name).vaddr + slide:#x}" for key, name in _ADDRESSES.items())
        for technique in ("pack", "unnamed", "timer", "slot", "function"):
            guest.shell(f"insmod /more/forger.ko technique={technique} {words}; true")
        guest.shell("insmod /more/imitator_silent.ko hide=7; sleep 3")
        done = audited(guest.vmlinux, guest.dump, tool)
    wrong = [one for one in done.findings if one["code"] == "PL509"]
    timers = [one for one in wrong if one["message"].startswith("the timer at")]  # the silent module has one, too
    assert [one["message"].endswith("which has no owner") for one in timers] == [True, True]
    assert {one["symbol"] for one in wrong if one not in timers} == set(_HOOKED)
    said = [one["message"] for one in done.findings if one["code"] == "PL511"]
    for part in ("in bpf_kallsyms are of no program of BPF", "holds more than an instruction to step", "load_module"):
        assert any(part in message for message in said), part
    assert any("is no program, and of no list" in note for note in done.notes)  # the unnamed code, with its neighbour
