"""A program with shared libraries, all of them position-independent: what it executed, from its execve on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from prologue.cli.main import main
from prologue.trace.path.kernel_images import HostImage, open_kernels
from prologue.trace.path.known import KnownRanges
from prologue.trace.readers.recording import TraceRecords, load_recording
from prologue.trace.readers.sources import open_trace
from prologue_bench.guest.initramfs import fetch_programs
from tests.support.cs_recorded import (
    Executed,
    TakenBranch,
    branches_as_perf_prints,
    branches_as_recorded,
    executed_as_recorded,
    executed_of_ranges,
)
from tests.support.needs import needs_kernel, needs_opencsd, needs_tools
from tests.support.truth import load_truth

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

_KERNEL: Final = 0xFFFF000000000000
_RUN: Final = "hackbench -g 1 -f 4 -l 10"
# The parent reads when it has made all of its eight children, each of which writes first. None has ended.
_WINDOW: Final = ("--until", "unix_stream_recvmsg", "--count", "50000000", "--command", _RUN)
_HOSTS: Final = {
    "nvhe": (1, []),
    "vhe": (2, ["--virtualization", "--cpu-model", "max,pauth-impdef=on,sve=off"]),
}


@dataclass(frozen=True, slots=True)
class Ran:
    """A recording with all that the machine had."""

    vmlinux: Path
    level: int  # of the kernel
    records: TraceRecords
    perf_data: Path
    root: Path  # of the guest's file system
    truth: Path


@pytest.fixture(scope="module", params=[pytest.param("nvhe"), pytest.param("vhe", marks=pytest.mark.extended)])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    needs_tools("qemu-system-aarch64")
    needs_opencsd()
    level, machine = _HOSTS[request.param]
    vmlinux, directory = needs_kernel("trixie").vmlinux, tmp_path_factory.mktemp("programs")
    trace, truth, dump, data = (directory / name for name in ("trace", "truth", "dump", "perf.data"))
    saved = ["--save-truth", str(truth), "--save-memory", str(dump)]
    assert main(["trace", "record", str(vmlinux), "-o", str(trace), *saved, *_WINDOW, *machine]) == 0
    levels = ["--level", "0", "--level", str(level)]
    made = ["--perf", "--memory", str(dump), "-o", str(data), "-q"]
    assert main(["trace", "etm", str(trace), "--vmlinux", str(vmlinux), *levels, *made]) == 0
    dump.unlink()
    for name, content in fetch_programs()[0].items():
        (directory / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / "root" / name).write_bytes(content)
    return Ran(vmlinux, level, load_recording(trace)[1], data, directory / "root", truth)


def decoded(ran: Ran) -> dict[int, Executed]:
    """Of each CPU, what ran in programs."""
    with open_trace(str(ran.perf_data)) as trace:
        known = KnownRanges(open_kernels(trace, HostImage(vmlinux=ran.vmlinux, symfs=ran.root), ()))
        batches = [batch for batch, _ in known.numbered(trace)]
    ranges = np.concatenate([batch.ranges[batch.ranges["level"] == 0] for batch in batches])
    tids = np.array([max(task.tid, 0) for task in batches[-1].tasks], np.int64)
    return {cpu: executed_of_ranges(ranges[ranges["cpu"] == cpu], tids) for cpu in np.unique(ranges["cpu"]).tolist()}


def test_every_instruction_comes_back(ran: Ran) -> None:
    """Except the instructions of the recorder's own program, which execve replaces."""
    expected, found = executed_as_recorded(ran.records, (0,)), decoded(ran)
    assert sum(len(executed.vaddrs) for executed in found.values()) > 50_000
    assert len({tid for executed in found.values() for tid in np.unique(executed.tids).tolist()}) > 4
    earlier = 0
    for cpu, executed in expected.items():
        missing = len(executed.vaddrs) - len(found[cpu].vaddrs)
        assert np.array_equal(executed.vaddrs[missing:], found[cpu].vaddrs)
        assert np.array_equal(executed.tids[missing:], found[cpu].tids)
        earlier += missing
    assert 0 < earlier < 20


def test_perf_prints_the_same_branches(ran: Ran) -> None:
    needs_tools("perf")
    levels, said = (0, ran.level), list(branches_as_perf_prints(ran.perf_data, "--symfs", str(ran.root)))
    recorded = [branch for branch in branches_as_recorded(ran.records, levels) if not _is_recorder(branch)]
    assert said == recorded
    assert sum(branch.ip < _KERNEL for branch in said) > 5_000


def _is_recorder(branch: TakenBranch) -> bool:
    """Return whether it is of the program that execve replaced: it is at a low address, busybox is below."""
    return any(0x5A000000 <= vaddr < 0x5B000000 for vaddr in (branch.ip, branch.addr))


def test_words_and_names_are_those_of_the_files(ran: Ran, tmp_path: Path) -> None:
    """A name is its symbol's as far as the symbol goes, the rest is of the section: libraries are stripped."""
    out = tmp_path / "out"
    images = ["--vmlinux", str(ran.vmlinux), "--symfs", str(ran.root)]
    options = ["--level", "0", "--format", "jsonl", "-o", str(out)]
    assert main(["trace", "disasm", str(ran.perf_data), *images, *options]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    ran_words = {(int(insn["vaddr"], 16), int(insn["word"], 16)) for row in rows for insn in row["instructions"]}
    truth = load_truth(ran.truth)
    truth = truth[(truth["level"] == 0) & (truth["flags"] & 1 == 0)]
    executed = set(map(tuple, np.unique(truth[["vaddr", "word"]]).tolist()))
    assert ran_words <= executed
    assert len(executed - ran_words) < 20  # of the recorder's program
    for library, function in (("libc.so.6", "__libc_malloc"), ("ld-linux-aarch64.so.1", "__tunable_get_val")):
        own = [row for row in rows if row["symbol"].endswith(f" [{library}]")]
        named = list(_extents(ELFFile(BytesIO((ran.root / "lib" / library).read_bytes()))))
        entry = next(row for row in own if row["symbol"] == f"{function} [{library}]" and row["offset"] == 0)
        slide = int(entry["start"], 16) - next(begin for name, begin, _ in named if name == function)
        for symbol, start, offset in {(row["symbol"], int(row["start"], 16) - slide, row["offset"]) for row in own}:
            over = [(name, begin) for name, begin, end in named if begin <= start < end]
            functions = [each for each in over if not each[0].startswith(".")]
            assert (symbol.partition(" [")[0], start - offset) in (functions or over), symbol


def _extents(file: ELFFile) -> Iterator[tuple[str, int, int]]:
    """Yield name, begin and end of each function and section of text of a stripped library."""
    table = file.get_section_by_name(".dynsym")
    assert isinstance(table, SymbolTableSection)
    for symbol in table.iter_symbols():
        if symbol["st_info"]["type"] in ("STT_FUNC", "STT_LOOS") and symbol["st_shndx"] != "SHN_UNDEF":
            yield symbol.name, symbol["st_value"], symbol["st_value"] + symbol["st_size"]
    for section in file.iter_sections():
        if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR:
            yield section.name, section["sh_addr"], section["sh_addr"] + section["sh_size"]
