"""A real kernel with its function tracer on: what it executed, its memory, and what ``prologue trace`` says of both."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from prologue.cli.main import main
from prologue.insn.rows import flows
from prologue.kernel.kernel import Kernel
from prologue.live.memory.sources import open_memory
from prologue.live.system.programs import linked_program, running_program
from prologue.live.system.running_system import RunningSystem
from prologue.trace.path.branching import PLAIN
from prologue.trace.ranges import EXCEPTION, RETURN
from prologue.trace.readers.recording import load_recording
from prologue.trace.readers.sources import open_trace
from prologue_bench.guest.modules import load_order
from tests.support.compare import addresses
from tests.support.cs_recorded import (
    branches_as_perf_prints,
    branches_as_recorded,
    executed_as_decoded,
    executed_as_recorded,
)
from tests.support.needs import needs_kernel, needs_modules, needs_opencsd, needs_tools
from tests.support.tool import Tool
from tests.support.truth import load_truth

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]


_KERNEL = 0xFFFF000000000000
_FIXMAP = 0xFFFFFFFFFF000000

MODULE = "brd"  # a disk in memory: its module reads what dd asks for
# Past the page cache: each block is a system call of its own, so that the window, which begins in the first one and
# ends before dd does, has entries from user space. No number of instructions ends it except in an emergency: on a busy
# host, a virtual CPU spins for millions of them while another one, which holds the lock, waits for the host.
_DD = "dd if=/tmp/ram of=/dev/null bs=4k count=64 iflag=direct"
_OTHER = "while :; do read line </proc/version; done"  # for the other CPU; a shell's own read, so that nothing exits
_RUN = f"sh -c 'mknod /tmp/ram b 1 0; {_OTHER} & {_DD}'"
# What the command calls, and no timer: a traced function takes 600 instructions, a tick has a hundred functions, and
# on a busy host a CPU that traces them all does nothing else in the window. Each matches something: the kernel takes
# none of those that come after one that does not.
_TRACED = (
    f"vfs_* ksys_* __arm64_sys_* el0_* blk* bio_* submit_bio* {MODULE}_* copy_* kmem_* __alloc* "
    "path_* lookup_* link_path* file* proc_* seq_* d_* security_* fput* getname*"
)
_SETUP = f"cd /sys/kernel/tracing; echo '{_TRACED}' >set_ftrace_filter; echo function >current_tracer"


class Recorded(NamedTuple):
    vmlinux: Path
    modules: Path
    trace: Path
    dump: Path
    executed: npt.NDArray[Any]  # distinct (vaddr, word) of the kernel
    slide: int

    def images(self) -> list[str]:
        """The trace, and all that had text."""
        text = ["--memory", str(self.dump), "--modules", str(self.modules)]
        return [str(self.trace), "--vmlinux", str(self.vmlinux), *text]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    needs_tools("qemu-system-aarch64")
    kernel, directory = needs_kernel("trixie"), tmp_path_factory.mktemp("trace")
    vmlinux, modules = kernel.vmlinux, needs_modules(kernel)
    trace, truth, dump = (directory / name for name in ("trace", "truth", "dump"))
    saved = ["--save-truth", str(truth), "--save-memory", str(dump)]
    command = ["trace", "record", str(vmlinux), "-o", str(trace), *saved]
    command += [word for path in load_order(modules, [MODULE]) for word in ("--insmod", str(path))]
    window = ["--begin", "submit_bio_noacct", "--until", "do_exit", "--count", "50000000", "--command", _RUN]
    assert main([*command, *window, "--setup", _SETUP]) == 0
    with open_trace(str(trace)) as opened:
        assert opened.header is not None
        slide = opened.header.slide
        assert slide
    rows = load_truth(truth)
    rows = rows[rows["flags"] & 1 == 0]
    executed = np.unique(rows[rows["level"] > 0][["vaddr", "word"]])
    truth.unlink()
    return Recorded(vmlinux, modules, trace, dump, executed, slide)


def test_an_interrupt_returns_to_the_side_that_a_branch_took(tmp_path: Path) -> None:
    """The exception clears the flags that a B.cond looked at: the handler is asked."""
    needs_tools("qemu-system-aarch64")
    trace, truth = tmp_path / "trace", tmp_path / "truth"
    command = ["trace", "record", str(needs_kernel("trixie").vmlinux), "-o", str(trace), "--save-truth", str(truth)]
    assert main([*command, "--cpus", "1", "--command", "busybox seq 1 30000", "--count", "6000000"]) == 0
    executed = load_truth(truth)
    executed = executed[executed["flags"] & 1 == 0]
    _, records = load_recording(trace)
    done = np.cumsum(records["count"])
    notes = np.flatnonzero((records["count"] == 0) & (records["flags"] == EXCEPTION))
    notes = notes[executed["word"][done[notes] - 1] >> 24 == 0x54]
    said, seen = [], []
    for note in notes.tolist():
        branch = executed[done[note] - 1]
        field = int(branch["word"]) >> 5 & 0x7FFFF
        sides = np.array([4, 4 * (field - (field >> 18 << 19))]).astype(np.uint64) + branch["vaddr"]
        later = records[note + 1 :]
        back = later[(later["flags"] & RETURN > 0) & np.isin(later["start"], sides)]
        said.append(int(records["start"][note]) - int(branch["vaddr"]))
        seen.append(int(back["start"][0]) - int(branch["vaddr"]) if len(back) else said[-1])
    assert said == seen
    assert len(said) > 10
    assert 0 < said.count(4) < len(said)


def check(tool: Tool, recorded: Recorded, *options: object) -> dict[str, Any]:
    said = tool("trace", "check", recorded.trace, "--vmlinux", recorded.vmlinux, "--json", *options, status=None)
    data: dict[str, Any] = said.json
    assert said.status == (1 if data["stale"] else 0)
    return data


def test_the_memory_is_what_ran(recorded: Recorded, tool: Tool) -> None:
    alone = check(tool, recorded, "--memory", recorded.dump)
    assert alone["stale"] == []
    assert alone["steps_judged"] > 50_000
    data = check(tool, recorded, "--memory", recorded.dump, "--modules", recorded.modules)
    assert data["stale"] == []
    assert data["steps_judged"] > alone["steps_judged"] + 16


def test_the_entry_trampoline_is_read_where_it_runs(recorded: Recorded) -> None:
    """The machine's CPU has no other defence, so with KASLR the kernel is not mapped while user space runs."""
    program = running_program(RunningSystem(recorded.vmlinux, open_memory(str(recorded.dump))))
    vaddrs, words = recorded.executed["vaddr"], recorded.executed["word"]
    mine = vaddrs >= np.uint64(_FIXMAP)
    text, there = program.words_at(vaddrs[mine])
    assert mine.sum() > 10
    assert addresses(vaddrs[mine][~there]) == []
    assert np.array_equal(text, words[mine])
    first = int(vaddrs[mine].min())
    assert program.place(first)[0] in ("tramp_vectors", "__entry_tramp_text_start")


@pytest.mark.parametrize("option", ["--memory", "--explain"])
def test_memory_of_another_boot_is_refused(recorded: Recorded, tmp_path: Path, tool: Tool, option: str) -> None:
    header, _ = load_recording(recorded.trace)
    with recorded.trace.open("rb") as stream:
        records = stream.read(len(header.pack()) + 3200)[len(header.pack()) :]
    (tmp_path / "other").write_bytes(replace(header, slide=recorded.slide + 0x200000).pack() + records)
    command = ("trace", "check", tmp_path / "other", "--vmlinux", recorded.vmlinux, option, recorded.dump)
    said = f"{recorded.dump}: has the kernel at slide {recorded.slide:#x}, {tmp_path / 'other'} at "
    assert said in tool(*command, status=2).err


def went_on(trace: Path, vaddr: int) -> bool:
    """Whether the flow itself ever left a word: not if an exception came, or the window ended, each time."""
    _, records = load_recording(trace)
    for cpu in np.unique(records["cpu"]).tolist():
        mine = records[(records["cpu"] == cpu) & (records["count"] > 0)]
        last = mine["start"] + np.uint64(4) * (mine["count"].astype(np.uint64) - np.uint64(1))
        inside = (mine["start"] <= np.uint64(vaddr)) & (np.uint64(vaddr) < last)
        if inside.any() or ((last[:-1] == np.uint64(vaddr)) & (mine["flags"][1:] & EXCEPTION == 0)).any():
            return True
    return False


def test_stale_words_of_the_vmlinux_are_named_all_of_them_and_no_other(recorded: Recorded, tool: Tool) -> None:
    """Those that direct the flow: others (NOP to MOV) leave no mark in a trace."""
    data = check(tool, recorded, "--explain", recorded.dump)
    linked, inside = linked_program(recorded.vmlinux, recorded.slide).words_at(
        np.ascontiguousarray(recorded.executed["vaddr"])
    )
    ran = np.ascontiguousarray(recorded.executed["word"])
    stale = inside & (linked != ran) & ((flows(linked) != PLAIN) | (flows(ran) != PLAIN))
    assert stale.sum() > 40
    named, wrong = {int(one["vaddr"], 16) for one in data["stale"]}, set(recorded.executed["vaddr"][stale].tolist())
    assert named <= wrong
    assert [hex(vaddr) for vaddr in wrong - named if went_on(recorded.trace, vaddr)] == []
    assert {"second slots", "jump labels"} <= {one["mechanism"] for one in data["stale"]}
    assert None not in {one["mechanism"] for one in data["stale"]}


def test_the_instructions_are_those_that_were_executed(recorded: Recorded, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["trace", "disasm", *recorded.images(), "-o", str(out)]) == 0
    lines = (line.split(maxsplit=2) for line in out.read_text().splitlines() if line.startswith("\tffff"))
    printed = {(int(line[0][:-1], 16), int(line[1], 16)) for line in lines if line[0].endswith(":")}
    executed = set(map(tuple, recorded.executed.tolist()))
    assert printed == executed
    assert len(printed) > 5_000


def test_what_ran_most(recorded: Recorded, tool: Tool) -> None:
    (image,) = tool("trace", "stats", *recorded.images(), "--json").json["images"]
    entries = {one["name"]: one["entries"] for one in image["functions"]}
    of_module = sum(count for name, count in entries.items() if name.endswith(f" [{MODULE}]"))
    assert of_module
    kernel = Kernel(recorded.vmlinux)
    assert kernel.sites is not None
    places = kernel.symbols.locate_all(kernel.sites.first.tolist())
    names = {place.symbol for place in places if place.symbol is not None}
    traced = {name for name in names if any(fnmatchcase(name, glob) for glob in _TRACED.split())}
    # Every traced function calls the tracer after its first slot, but for a last one of each CPU, that the window cut.
    calls = of_module + sum(entries.get(name, 0) for name in traced)
    assert 0 <= calls - entries["ftrace_caller"] <= 2
    assert image["prologues"] >= calls - of_module
    assert image["words_executed"] == len(np.unique(recorded.executed["vaddr"]))


def test_a_module_s_function(recorded: Recorded, tmp_path: Path) -> None:
    """Its text is where the kernel put it, linked, and with the tracer's calls: each executed word of it."""
    out = tmp_path / "out"
    options = ["--symbols", "brd_submit_bio", "--format", "jsonl", "-o", str(out)]
    assert main(["trace", "disasm", *recorded.images(), *options]) == 0
    ranges = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    assert {one["symbol"] for one in ranges} == {f"brd_submit_bio [{MODULE}]"}
    insns = {int(insn["vaddr"], 16): insn for one in ranges for insn in one["instructions"]}
    executed = recorded.executed[
        (recorded.executed["vaddr"] >= min(insns)) & (recorded.executed["vaddr"] <= max(insns))
    ]
    assert {(vaddr, int(insn["word"], 16)) for vaddr, insn in insns.items()} == set(executed.tolist())
    assert len(insns) > 50
    first = [insn["text"].split()[0] for insn in ranges[0]["instructions"][:2]]
    assert first == ["mov", "bl"]  # two NOPs in the file


@pytest.fixture(scope="module")
def perf_data(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as perf record --kcore would have left it."""
    directory = tmp_path_factory.mktemp("perf") / "perf.data"
    assert main(["trace", "etm", *recorded.images(), "--perf", "-o", str(directory), "-q"]) == 0
    return directory


def test_perf_data_says_what_was_recorded(recorded: Recorded, perf_data: Path) -> None:
    """OpenCSD's library gives it back to the last instruction of the module, of KPTI's trampoline, of PLTs."""
    needs_opencsd()
    header, records = load_recording(recorded.trace)
    expected, found = executed_as_recorded(records), executed_as_decoded(perf_data, recorded.vmlinux, recorded.modules)
    assert found.keys() == expected.keys() == {0, 1}
    switch = linked_program(recorded.vmlinux, header.slide or 0).find("cpu_switch_to")[0]
    for cpu, ran in expected.items():
        assert np.array_equal(found[cpu].vaddrs, ran.vaddrs)
        # A trace unit has a new process or time from the next branch on: that of the switch is its RET.
        others = ran.vaddrs[found[cpu].tids != ran.tids]
        assert addresses(others[others - np.uint64(switch) >= np.uint64(0x100)]) == []
        assert addresses(ran.vaddrs[found[cpu].times > ran.times]) == []
        later = int((found[cpu].times < ran.times).sum())
        assert max(len(others), later) < len(ran.vaddrs) // 1000


def test_perf_prints_what_was_recorded(recorded: Recorded, perf_data: Path) -> None:
    needs_tools("perf", "aarch64-linux-gnu-objdump")
    _, records = load_recording(recorded.trace)
    assert list(branches_as_perf_prints(perf_data)) == list(branches_as_recorded(records))

    def perf(*command: object) -> str:
        run = subprocess.run(["perf", *map(str, command)], capture_output=True, text=True, check=True, timeout=300)
        return run.stdout

    samples = ("--itrace=i1000il", "-i", perf_data)
    reported = perf("report", *samples, "--stdio", "--sort", "comm,sym")
    assert "[k] ftrace_caller" in reported
    assert " dd " in reported
    first = linked_program(recorded.vmlinux, recorded.slide).find("ftrace_caller")[0]
    annotated = perf("annotate", *samples, "--stdio", "--objdump", "aarch64-linux-gnu-objdump", "ftrace_caller")
    assert re.search(rf"{first:x}: +bti +c", annotated)
    injected = perf_data.parent / "injected"
    perf("inject", *samples, "--strip", "-o", injected)
    sampled = perf("script", *samples, "-F", "ip")
    assert len(sampled.splitlines()) > 1000
    assert perf("script", "-i", injected, "-F", "ip") == sampled


def test_perf_takes_the_kernel_that_is_made_of_its_data(recorded: Recorded, perf_data: Path, tmp_path: Path) -> None:
    """Of data without kcore_dir, too, each branch of the kernel is there; modules are other files to perf."""
    needs_tools("perf")
    out = tmp_path / "kernel.elf"
    assert main(["live", "overlay", "--without-vmlinux", str(perf_data), "-o", str(out), "-q"]) == 0
    _, records = load_recording(recorded.trace)
    (module,) = open_memory(str(perf_data)).state().modules
    own = (records["start"] >= module.base) & (records["start"] < module.base + module.size)
    branches = list(branches_as_perf_prints(perf_data / "data", "-k", str(out)))
    assert len(branches) > 100_000
    assert branches == list(branches_as_recorded(records[~own]))


def test_perf_data_shows_the_stale_vmlinux(recorded: Recorded, perf_data: Path, tool: Tool) -> None:
    needs_opencsd()
    command = ("trace", "check", perf_data, "--vmlinux", recorded.vmlinux, "--modules", recorded.modules, "--json")
    data = tool(*command, status=1).json
    assert data["stale"] == []
    named = {int(word["vaddr"], 16) for word in data["divergence"]["words"]}
    ran = dict(recorded.executed.tolist())
    linked, _ = linked_program(recorded.vmlinux, recorded.slide).words_at(np.array(sorted(named), np.uint64))
    assert named
    assert all(ran[vaddr] != word for vaddr, word in zip(sorted(named), linked.tolist(), strict=True))


def test_the_process_is_the_commands_whoever_calls_the_first_function(tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64")
    out, log = tmp_path / "trace", tmp_path / "log"
    command = ["trace", "record", str(needs_kernel("trixie").vmlinux), "-o", str(out), "--save-console", str(log)]
    command += ["--process", "--begin", "vfs_read", "--setup", "dd if=/dev/zero of=/dev/null bs=1 &"]
    assert main([*command, "--command", "sh -c 'echo pid $$; read x </proc/uptime'"]) == 0
    (pid,) = re.findall(r"^pid (\d+)", log.read_text(), re.MULTILINE)
    _, records = load_recording(out)
    assert np.unique(records["task"]).tolist() == [int(pid)]


@pytest.mark.extended  # it forks 300 times
def test_more_calls_at_once_than_can_be_followed_end_the_window(tmp_path: Path, tool: Tool) -> None:
    needs_tools("qemu-system-aarch64")
    many = "sh -c 'n=0; while [ $n -lt 300 ]; do sleep 60 & n=$((n+1)); done; wait'"
    command = ("trace", "record", needs_kernel("trixie").vmlinux, "-o", tmp_path / "trace")
    said = tool(*command, "--function", "do_nanosleep", "--command", many).out
    assert "the window ended: 256 tasks were in --function at once" in said
