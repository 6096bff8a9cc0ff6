"""Debian's 5.10, 6.1, 7.2 and 7.3 while they run, probed and traced: every word is decided, and damage is found."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from prologue.elf.image import ElfImage
from prologue.live.audit.outcome import KERNEL
from prologue.live.memory.sources import open_memory
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.live.system.running_system import RunningSystem, module_files
from tests.real_kernels.live_probe_examples import LEFT, check_examples
from tests.real_kernels.states import programs
from tests.support.btf import type_ids
from tests.support.cases import one_tested
from tests.support.live_guest import HOST, TRACING, Guest, live_guest
from tests.support.needs import needs_kernel, needs_modules
from tests.support.planted import ChangedMemory, Planter, audit_text
from tests.support.processes import HEEDING
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

_TRACE = (
    f"echo p:mine vfs_read >{TRACING}/kprobe_events; echo 1 >{TRACING}/events/kprobes/mine/enable;"
    f"echo function >{TRACING}/current_tracer"
)


@pytest.fixture(scope="module", params=one_tested("trixie-backports", "bullseye", "bookworm", "sid"))
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    kernel = needs_kernel(request.param)
    package, directory = needs_modules(kernel), tmp_path_factory.mktemp(request.param)
    modules = ("overlay", "loop")
    with live_guest(kernel.vmlinux, directory, package=package, modules=modules, files=programs()) as made:
        yield made


@pytest.mark.extended
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("guest", ["bullseye", "sid", "trixie-backports"], indirect=True)
def test_probes_are_traced(guest: Guest, tool: Tool) -> None:
    """Of the others in test_live.py."""
    check_examples(guest, tool)


@pytest.mark.extended
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("guest", ["bullseye", "sid", "trixie-backports"], indirect=True)
@pytest.mark.parametrize(("end", "status"), [(signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_nothing_stays_of_a_trace_of_probes(guest: Guest, end: signal.Signals, status: int) -> None:
    """Whether Ctrl-C ends it, or somebody kills it; what others have set stays."""
    guest.shell(f"echo 'p:theirs vfs_write' >>{TRACING}/kprobe_events")
    reading = guest.shell("(while read -r line </proc/uptime; do sleep 1; done) >/dev/null 2>&1 & echo $!").strip()
    try:
        before = guest.shell(LEFT)
        process = _probing(guest)
        process.send_signal(end)
        process.communicate(timeout=600)
        for _ in range(30):
            if guest.shell(LEFT) == before:
                break
            time.sleep(1)
        assert guest.shell(LEFT) == before
        assert process.returncode == status
    finally:
        guest.shell(f"kill {reading}; echo -:theirs >>{TRACING}/kprobe_events")


def _probing(guest: Guest) -> subprocess.Popen[str]:
    """A trace of what reads, which has printed its first event."""
    options = ["vfs_read count", "--seconds", "0"]
    command = [sys.executable, "-m", "prologue", "live", "probe", str(guest.vmlinux), HOST, guest.ssh, *options]
    process = subprocess.Popen([*HEEDING, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert " vfs_read: (vfs_read+0x0) " in process.stdout.readline()
    return process


@pytest.fixture(scope="module")
def traced(guest: Guest) -> Guest:
    """It stays so for the tests that follow."""
    guest.shell(_TRACE)
    return guest


def test_the_graph_tracer_is_explained(traced: Guest, tool: Tool) -> None:
    """5.10 patches a branch of ftrace_caller for it."""
    traced.shell(f"echo function_graph >{TRACING}/current_tracer")
    dump = traced.dump()
    traced.shell(f"echo function >{TRACING}/current_tracer")
    assert " clean (" in tool("live", "audit", traced.vmlinux, dump).out


_CHOOSE = (
    f"cd {TRACING}; echo 'vfs_r*' >set_ftrace_filter; echo function_graph >current_tracer; mkdir instances/one;"
    " echo 'vfs_*' >instances/one/set_ftrace_filter; echo function >instances/one/current_tracer"
)
_UNDO = f"cd {TRACING}; rmdir instances/one; echo >set_ftrace_filter; echo function >current_tracer"


def test_the_listing_has_what_ftrace_says(traced: Guest, tool: Tool) -> None:
    """Each function with as many callbacks, users of the function graph at theirs, and BPF programs at theirs."""
    btf = ElfImage(traced.vmlinux).section(".BTF")
    assert btf is not None
    ids = type_ids(ElfImage(traced.vmlinux).data(btf), {"vfs_read"})
    traced.shell(f"{_CHOOSE}; /more/fentry {ids['vfs_read']} >/tmp/fentry </dev/null 2>&1 & sleep 5")
    is_attached = traced.shell("cat /tmp/fentry").startswith("+")  # arm64 has direct calls since 6.4
    enabled, dump = traced.shell(f"cat {TRACING}/enabled_functions"), traced.dump()
    traced.shell(f"kill $(pidof fentry); {_UNDO}")
    tool("live", "audit", traced.vmlinux, dump, "-q")
    listeners = tool("live", "hooks", traced.vmlinux, dump, "--json").json["listeners"]
    places = {
        kind: [place.partition("+")[0] for one in listeners if one["kind"] == kind for place in one["functions"]]
        for kind in ("ftrace_ops", "function graph", "BPF program")
    }
    counts = {name: int(count) for name, count in re.findall(r"^(\S+) \((\d+)\)", enabled, re.MULTILINE)}
    assert counts
    assert Counter(places["ftrace_ops"]) == counts
    assert sorted(places["function graph"]) == sorted(name for name in counts if name.startswith("vfs_r"))
    (graph,) = (one for one in listeners if one["kind"] == "function graph")
    assert [call["symbol"] for call in graph["calls"]] == ["trace_graph_entry", "trace_graph_return"]
    assert places["BPF program"] == ["vfs_read"] * is_attached


def test_every_word_is_decided_and_damage_is_found(traced: Guest, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = traced.dump()
    command = ("live", "audit", traced.vmlinux, dump, "--modules", traced.modules, "--json")
    data = tool(*command).json
    assert data["findings"] == data["unknown"] == data["errors"] == []
    (probe,) = [row for row in data["files"][0]["mechanisms"] if row["mechanism"] == "breakpoints"]
    assert probe["words"] == 1

    memory = open_memory(str(dump))
    kernel = RunningKernel(open_running(traced.vmlinux, memory), memory)
    planted = [
        change for change in Planter(kernel, 3).changes(40) if kernel.text.in_text(np.array([change[1]], np.uint64))[0]
    ]
    changed = ChangedMemory(memory, {vaddr + kernel.slide: word for _, vaddr, word in planted})
    done = audit_text(RunningSystem(traced.vmlinux, changed, module_files(traced.modules)))
    words = next(one for one in done.files if one.name == KERNEL).audited.words
    found = {word.vaddr + 4 * k for word in words for k in range(word.words)}
    assert [one for one in planted if one[1] not in found] == []

    # The same machine, if its release had never been compared: nothing is accused, and nothing passes.
    monkeypatch.setattr("prologue.releases.COMPARED", ())
    done = audit_text(RunningSystem(traced.vmlinux, changed))
    assert done.findings == ()
    assert len(done.files[0].unknown) == len(words)
    tool(*command, "-q")
