"""Debian's 5.10, 6.1, 7.2 and 7.3 while they run, traced and probed: every word is decided, and damage is found."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.elf.image import ElfImage
from prologue.live.audit.run import KERNEL, audit
from prologue.live.memory.sources import open_memory
from prologue.live.system.module_files import module_files
from prologue.live.system.running_kernel import RunningKernel, open_running
from prologue.live.system.running_system import RunningSystem
from tests.real_kernels.states import programs
from tests.support.btf import type_ids
from tests.support.cases import one_tested
from tests.support.live_guest import TRACING, Guest, live_guest
from tests.support.needs import needs_kernel, needs_modules
from tests.support.planted import ChangedMemory, Planter

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

_TRACE = (
    f"echo p:mine vfs_read >{TRACING}/kprobe_events; echo 1 >{TRACING}/events/kprobes/mine/enable;"
    f"echo function >{TRACING}/current_tracer"
)


@pytest.fixture(scope="module", params=one_tested("trixie-backports", "bullseye", "bookworm", "sid"))
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    kernel = needs_kernel(request.param)
    package, directory = needs_modules(kernel), tmp_path_factory.mktemp(request.param)
    with live_guest(kernel.vmlinux, directory, package=package, modules=("overlay",), files=programs()) as made:
        made.shell(_TRACE)
        yield made


def test_the_graph_tracer_is_explained(guest: Guest, capsys: pytest.CaptureFixture[str]) -> None:
    """5.10 patches a branch of ftrace_caller for it."""
    guest.shell(f"echo function_graph >{TRACING}/current_tracer")
    dump = guest.dump()
    guest.shell(f"echo function >{TRACING}/current_tracer")
    capsys.readouterr()
    assert main(["live", "audit", str(guest.vmlinux), str(dump)]) == 0
    assert " clean (" in capsys.readouterr().out


_CHOOSE = (
    f"cd {TRACING}; echo 'vfs_r*' >set_ftrace_filter; echo function_graph >current_tracer; mkdir instances/one;"
    " echo 'vfs_*' >instances/one/set_ftrace_filter; echo function >instances/one/current_tracer"
)
_UNDO = f"cd {TRACING}; rmdir instances/one; echo >set_ftrace_filter; echo function >current_tracer"


def test_the_listing_has_what_ftrace_says(guest: Guest, capsys: pytest.CaptureFixture[str]) -> None:
    """Each function with as many callbacks, users of the function graph at theirs, and BPF programs at theirs."""
    btf = ElfImage(guest.vmlinux).section(".BTF")
    assert btf is not None
    ids = type_ids(ElfImage(guest.vmlinux).data(btf), {"vfs_read"})
    guest.shell(f"{_CHOOSE}; /more/fentry {ids['vfs_read']} >/tmp/fentry </dev/null 2>&1 & sleep 5")
    is_attached = guest.shell("cat /tmp/fentry").startswith("+")  # arm64 has direct calls since 6.4
    enabled, dump = guest.shell(f"cat {TRACING}/enabled_functions"), guest.dump()
    guest.shell(f"kill $(pidof fentry); {_UNDO}")
    capsys.readouterr()
    assert main(["live", "audit", str(guest.vmlinux), str(dump), "-q"]) == 0
    capsys.readouterr()
    assert main(["live", "hooks", str(guest.vmlinux), str(dump), "--json"]) == 0
    listeners = json.loads(capsys.readouterr().out)["listeners"]
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


def test_every_word_is_decided_and_damage_is_found(
    guest: Guest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = guest.dump()
    command = ["live", "audit", str(guest.vmlinux), str(dump), "--modules", str(guest.modules), "--json"]
    capsys.readouterr()
    assert main(command) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["findings"] == data["unknown"] == data["errors"] == []
    (probe,) = [row for row in data["files"][0]["mechanisms"] if row["mechanism"] == "breakpoints"]
    assert probe["words"] == 1

    memory = open_memory(str(dump))
    kernel = RunningKernel(open_running(guest.vmlinux, memory), memory)
    planted = [
        change for change in Planter(kernel, 3).changes(40) if kernel.text.in_text(np.array([change[1]], np.uint64))[0]
    ]
    changed = ChangedMemory(memory, {vaddr + kernel.slide: word for _, vaddr, word in planted})
    done = audit(RunningSystem(guest.vmlinux, changed, module_files(guest.modules)))
    words = next(one for one in done.files if one.name == KERNEL).audited.words
    found = {word.vaddr + 4 * k for word in words for k in range(word.words)}
    assert [one for one in planted if one[1] not in found] == []

    # The same machine, if its release had never been compared: nothing is accused, and nothing passes.
    monkeypatch.setattr("prologue.releases.COMPARED", ())
    done = audit(RunningSystem(guest.vmlinux, changed))
    assert done.findings == ()
    assert len(done.files[0].unknown) == len(words)
    assert main([*command, "-q"]) == 0
