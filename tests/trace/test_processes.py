"""Code of processes: what they had mapped, when, and whether the file is what ran."""

from __future__ import annotations

import json
import random
import struct
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.errors import InputError, UsageError
from prologue.trace.etm.stream import ProgramText, encode
from prologue.trace.etm.unit import perf_unit
from prologue.trace.path.kernel_images import HostImage, open_kernels
from prologue.trace.path.known import KnownRanges
from prologue.trace.ranges import AARCH32, EXCEPTION, GAP, OTHER_WORLD, RETURN
from prologue.trace.readers.recording import RECORD
from prologue.trace.readers.sources import open_trace
from tests.support.compare import addresses
from tests.support.cs_etm import CsTrace, record, sample, write
from tests.support.needs import needs_tools
from tests.support.tool import Tool
from tests.trace.made import KERNEL, MadeKernel
from tests.trace.test_damaged import mutated

pytestmark = pytest.mark.usefixtures("opencsd")

AT: Final = 0x400000
"""The address that these binaries are linked at, and where their text is in the file is not: both matter."""
CAT: Final = MadeKernel({"main": ["nop", "nop", "b work"], "work": ["nop", "nop", "nop", "cbz x0, main"]}, AT)
DD: Final = MadeKernel({"begin": ["nop", "b run"], "run": ["nop", "b begin"]}, AT)
ID: Final = {"cat": bytes(range(20)), "dd": bytes(range(20, 40))}
CAT_ROUND: Final = ((CAT.at("main"), 3), (CAT.at("work"), 4))
DD_ROUND: Final = ((DD.at("begin"), 2), (DD.at("run"), 2))


def mapped(pid: int, path: str, build_id: bytes = b"", *, time: int = 0, start: int = AT) -> bytes:
    """MMAP2 of the text of a made binary, which is at offset 64 of its file."""
    misc = 2 | (1 << 14 if build_id else 0)
    identity = struct.pack("<B3x20s", len(build_id), build_id)
    body = struct.pack("<iiQQQ24sII", pid, pid, start - 64, 0x1000, 0, identity, 5, 2)
    name = path.encode() + b"\0"
    return record(10, misc, body + name + bytes(-len(name) % 8) + sample(pid, time, 0))


def forked(pid: int, parent: int, time: int, misc: int = 0) -> bytes:
    return record(7, misc, struct.pack("<iiiiQ", pid, parent, pid, parent, time) + sample(pid, time, 0))


def executed(pid: int, comm: str, time: int) -> bytes:
    return record(3, 1 << 13, struct.pack("<ii", pid, pid) + comm.encode().ljust(8, b"\0") + sample(pid, time, 0))


def stream(runs: Iterable[tuple[int, int, MadeKernel, tuple[tuple[int, int], ...]]]) -> bytes:
    """Packets of a core that goes from process to process, without any code between: thread, time, binary, ranges."""
    data = bytearray()
    for task, time, program, ranges in runs:
        rows = np.zeros(len(ranges), RECORD)
        rows["start"], rows["count"] = np.array(ranges, np.uint64).T
        rows["level"], rows["vmid"], rows["task"], rows["time"] = 0, -1, task, time
        rows["flags"][0] = GAP
        text = ProgramText([(program.base, np.array(program.words, np.uint32))])
        data += encode(rows, text, (0,), perf_unit(0, vhe=False, timed=False)).data
    return bytes(data)


def perf_data(path: Path, streams: dict[int, bytes], extra: list[bytes], **how: Any) -> Path:
    text = (KERNEL.base, 4 * len(KERNEL.words))
    made = CsTrace(streams=streams, text=text, extra=extra, configr=1 << 6, comms={77: "cat", 78: "dd"}, **how)
    return write(path, made)


@pytest.fixture
def symfs(tmp_path: Path) -> Path:
    (tmp_path / "root" / "bin").mkdir(parents=True)
    CAT.write(tmp_path / "root" / "bin" / "cat", build_id=ID["cat"])
    DD.write(tmp_path / "root" / "bin" / "dd", build_id=ID["dd"])
    return tmp_path / "root"


def disasm(path: Path, tool: Tool, *options: str) -> tuple[list[dict[str, Any]], str]:
    vmlinux = KERNEL.write(path.parent / "vmlinux")
    out, err, _ = tool("trace", "disasm", path, "--vmlinux", vmlinux, "--format", "jsonl", *options)
    return [json.loads(line) for line in out.splitlines()[1:]], err


def ran(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    return [(row["tid"], row["symbol"], len(row["instructions"])) for row in rows]


CAT_RAN: Final = [(77, "main [cat]", 3), (77, "work [cat]", 4)]
DD_RAN: Final = [(78, "begin [dd]", 2), (78, "run [dd]", 2)]


@pytest.mark.parametrize("cpus", [1, 2])
def test_one_address_two_processes(cpus: int, tmp_path: Path, symfs: Path, tool: Tool) -> None:
    runs = stream([(77, 0, CAT, CAT_ROUND), (78, 0, DD, DD_ROUND)] * 20)
    extra = [mapped(77, "/bin/cat", ID["cat"]), mapped(78, "/bin/dd", ID["dd"])]
    path = perf_data(tmp_path / "perf.data", dict.fromkeys(range(cpus), runs), extra)
    rows, err = disasm(path, tool, "--symfs", str(symfs))
    assert ran(rows) == (CAT_RAN + DD_RAN) * 20 * cpus, err


def test_a_new_process_at_once(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """Without any other packet before its first branch: its code is asked for before the library says who runs.

    Both binaries have the same branches, which are all that packets say.
    """
    one = np.zeros(4, RECORD)
    one["start"], one["count"] = np.array(CAT_ROUND * 2, np.uint64).T
    one["vmid"], one["task"] = -1, (77, 77, 78, 78)
    rows = np.tile(one, 20)
    rows["flags"][0] = GAP
    text = ProgramText([(AT, np.array(CAT.words, np.uint32))])
    data = bytes(encode(rows, text, (0,), perf_unit(0, vhe=False, timed=False)).data)
    extra = [mapped(77, "/bin/cat", ID["cat"]), mapped(78, "/bin/dd", ID["dd"])]
    found, err = disasm(perf_data(tmp_path / "perf.data", {0: data}, extra), tool, "--symfs", str(symfs))
    assert ran(found) == (CAT_RAN + DD_RAN) * 20, err


def stats(path: Path, tool: Tool, *options: str) -> tuple[list[Any], str]:
    vmlinux = KERNEL.write(path.parent / "vmlinux")
    out, err, _ = tool("trace", "stats", path, "--vmlinux", vmlinux, *options)
    return out.splitlines(), err


def test_a_binary_at_two_places_is_counted_once(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """Two processes have it at other addresses, as with ASLR."""
    moved = MadeKernel({"main": ["nop", "nop", "b work"], "work": ["nop", "nop", "nop", "cbz x0, main"]}, AT + 0x10000)
    there = tuple((start + 0x10000, count) for start, count in CAT_ROUND)
    data = stream([(77, 0, CAT, CAT_ROUND), (78, 0, moved, there)] * 3)
    extra = [mapped(77, "/bin/cat", ID["cat"]), mapped(78, "/bin/cat", ID["cat"], start=AT + 0x10000)]
    path = perf_data(tmp_path / "perf.data", {0: data}, extra)
    lines, _ = stats(path, tool, "--symfs", str(symfs))
    assert lines[1:] == [
        f"/bin/cat: 42 instructions in 2 functions; 7 of {len(CAT.words)} words of text (87.50%)",
        "  instructions      %      entries  function",
        "            24  57.14            6  work [cat]",
        "            18  42.86            6  main [cat]",
    ]


def test_functions_of_programs(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """They are chosen as the kernel's are; of a file that is not there no function is known."""
    data = stream([(77, 0, CAT, CAT_ROUND), (78, 0, DD, DD_ROUND)] * 2)
    extra = [mapped(77, "/bin/cat", ID["cat"]), mapped(78, "/bin/dd", ID["dd"]), mapped(79, "/bin/tac", ID["dd"])]
    path, files = perf_data(tmp_path / "perf.data", {0: data}, extra), ("--symfs", str(symfs))
    rows, _ = disasm(path, tool, *files, "--symbols", "work", "--symbols", "begin")
    assert ran(rows) == [CAT_RAN[1], DD_RAN[0]] * 2
    lines, _ = stats(path, tool, *files, "--symbols", "run")
    assert lines[1:] == [
        f"/bin/dd: 4 instructions in 1 function; 2 of {len(DD.words)} words of text (25.00%)",
        "  instructions      %      entries  function",
        "             4 100.00            2  run [dd]",
    ]
    images = ["--vmlinux", str(tmp_path / "vmlinux"), *files]
    lines = tool("trace", "disasm", path, *images, "--from", "main").out.splitlines()
    assert [line.split(maxsplit=3)[3] for line in lines] == ["main [cat]", "work [cat]", "(gap)"] * 2
    printed = tool("trace", "disasm", path, *images, "--symbols", "begn", status=2)
    assert "has no symbol begn, and no program here has it: did you mean begin?" in printed.err


def test_fork_and_execve(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """Shells fork, one child goes on, another executes a program elsewhere; the records are in no order."""
    there = tuple((start + 0x10000, count) for start, count in DD_ROUND)
    moved = MadeKernel({"begin": ["nop", "b run"], "run": ["nop", "b begin"]}, AT + 0x10000)
    runs = [(77, 0, CAT, CAT_ROUND), (80, 0, CAT, CAT_ROUND), (81, 0, CAT, CAT_ROUND), (81, 0, moved, there)]
    extra = [mapped(81, "/bin/dd", ID["dd"], time=40, start=AT + 0x10000), executed(81, "dd", 39), forked(81, 80, 30),
             forked(80, 77, 20), mapped(77, "/bin/cat", ID["cat"])]  # fmt: skip
    rows, err = disasm(perf_data(tmp_path / "perf.data", {0: stream(runs)}, extra), tool, "--symfs", str(symfs))
    forks = [(pid, symbol, count) for pid in (80, 81) for _, symbol, count in CAT_RAN]
    assert ran(rows) == CAT_RAN + forks + [(81, symbol, count) for _, symbol, count in DD_RAN], err


def test_two_files_at_one_address_of_a_process(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """Not decided: the packets of both are the same, and the trace has its times too late."""
    extra = [mapped(80, "/bin/dd", ID["dd"], time=40), executed(80, "dd", 39), forked(80, 77, 20),
             mapped(77, "/bin/cat", ID["cat"])]  # fmt: skip
    data = stream([(77, 0, CAT, CAT_ROUND), (80, 0, CAT, CAT_ROUND), (80, 0, DD, DD_ROUND)])
    rows, err = disasm(perf_data(tmp_path / "perf.data", {0: data}, extra), tool, "--symfs", str(symfs))
    assert ran(rows) == CAT_RAN
    assert "2 of these in processes: dd\n" in err


def test_binaries_that_are_not_what_ran(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    other = ID["cat"][:-1] + b"\xff"
    data = stream([(77, 0, CAT, CAT_ROUND), (78, 0, DD, DD_ROUND), (79, 0, DD, DD_ROUND)])
    extra = [mapped(77, "/bin/cat", other), mapped(78, "/bin/nothing", ID["dd"]), mapped(79, "/bin/dd", ID["dd"])]
    path = perf_data(tmp_path / "perf.data", {0: data}, extra)
    rows, err = disasm(path, tool, "--symfs", str(symfs))
    assert ran(rows) == [(79, symbol, count) for _, symbol, count in DD_RAN]
    assert f"cat (/bin/cat: {symfs}/bin/cat has build-id {ID['cat'].hex()}, {other.hex()} ran)" in err
    assert "dd (/bin/nothing: not on this machine, see --symfs)" in err


def test_without_a_build_id_a_user_has_to_name_the_file(
    tmp_path: Path, symfs: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = [mapped(77, "/bin/cat"), mapped(78, "/bin/dd", ID["dd"])]
    data = stream([(77, 0, CAT, CAT_ROUND), (78, 0, DD, DD_ROUND)])
    path = perf_data(tmp_path / "perf.data", {0: data}, extra)
    rows, err = disasm(path, tool, "--symfs", str(symfs))
    assert ran(rows) == CAT_RAN + DD_RAN
    assert "1 binary of --symfs not compared, as the trace has no build-id" in err
    kept = tmp_path / "cache" / ".build-id" / ID["dd"].hex()[:2]
    kept.mkdir(parents=True)
    (symfs / "bin" / "dd").rename(kept / ID["dd"].hex()[2:])
    monkeypatch.setenv("PERF_BUILDID_DIR", str(tmp_path / "cache"))
    rows, err = disasm(path, tool)
    assert ran(rows) == DD_RAN
    assert "cat (/bin/cat: the trace has no build-id of it, see --symfs)" in err


def test_a_child_that_was_there_before(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """perf marks records that it made of tasks that it met (PERF_RECORD_MISC_FORK_EXEC): no map is the parent's."""
    extra = [mapped(77, "/bin/cat", ID["cat"]), forked(78, 77, 0, 1 << 13), mapped(78, "/bin/dd", ID["dd"])]
    data = stream([(77, 0, CAT, CAT_ROUND), (78, 0, DD, DD_ROUND)])
    rows, _ = disasm(perf_data(tmp_path / "perf.data", {0: data}, extra), tool, "--symfs", str(symfs))
    assert ran(rows) == CAT_RAN + DD_RAN


@pytest.mark.parametrize("size", [8, 16, 20, 32])
def test_build_ids_of_other_sizes(size: int, tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """simpleperf fills them up to 20 bytes, as linkers make 8 (xxhash) and 16 (md5), too."""
    own = bytes(range(1, 1 + size))
    CAT.write(symfs / "bin" / "cat", build_id=own)
    extra = [mapped(77, "/bin/cat", own[:20].ljust(20, b"\0"))]
    path = perf_data(tmp_path / "perf.data", {0: stream([(77, 0, CAT, CAT_ROUND)])}, extra)
    rows, err = disasm(path, tool, "--symfs", str(symfs))
    assert ran(rows) == CAT_RAN, err


def test_symbols_that_are_imports_name_no_text(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    file = symfs / "bin" / "cat"
    content = file.read_bytes()
    for name in CAT.places:
        content = content.replace(struct.pack("<BBHQ", 0x12, 0, 1, CAT.at(name)), struct.pack("<BBHQ", 0x12, 0, 0, 0))
    file.write_bytes(content)
    extra = [mapped(77, "/bin/cat", ID["cat"])]
    path = perf_data(tmp_path / "perf.data", {0: stream([(77, 0, CAT, CAT_ROUND)])}, extra)
    rows, _ = disasm(path, tool, "--symfs", str(symfs))
    assert [(row["symbol"], row["offset"]) for row in rows] == [
        (".text [cat]", 0),
        (".text [cat]", CAT.at("work") - AT),
    ]


def test_a_map_that_begins_inside_a_section(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """mprotect() of some pages of a library: from then on each part is a map of its own."""
    runs = stream([(77, 0, CAT, CAT_ROUND[::-1])])
    identity, inside = struct.pack("<B3x20s", 20, ID["cat"]), CAT.at("work") - AT
    body = struct.pack("<iiQQQ24sII", 77, 77, AT + inside, 0x1000, 64 + inside, identity, 5, 2)
    extra = [record(10, 2 | 1 << 14, body + b"/bin/cat".ljust(16, b"\0") + sample(77, 0, 0))]
    rows, err = disasm(perf_data(tmp_path / "perf.data", {0: runs}, extra), tool, "--symfs", str(symfs))
    assert ran(rows) == CAT_RAN[1:], err


def test_perf_s_cache_of_build_ids(tmp_path: Path, symfs: Path, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    name = ID["cat"].hex()
    kept = tmp_path / "cache" / ".build-id" / name[:2] / name[2:]
    kept.mkdir(parents=True)
    (symfs / "bin" / "cat").rename(kept / "elf")
    monkeypatch.setenv("PERF_BUILDID_DIR", str(tmp_path / "cache"))
    extra = [mapped(77, "/bin/cat", ID["cat"])]
    path = perf_data(tmp_path / "perf.data", {0: stream([(77, 0, CAT, CAT_ROUND)])}, extra)
    rows, _ = disasm(path, tool)
    assert ran(rows) == CAT_RAN


def test_a_thread_s_number_that_two_processes_had(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """Which of them ran is not decided."""
    threads = [record(7, 0, struct.pack("<iiiiQ", pid, pid, 90, pid, time) + sample(pid, time, 0))
               for pid, time in ((77, 10), (78, 20))]  # fmt: skip
    extra = [mapped(77, "/bin/cat", ID["cat"]), mapped(78, "/bin/dd", ID["dd"]), *threads]
    data = stream([(90, 0, CAT, CAT_ROUND), (78, 0, DD, DD_ROUND)])
    rows, _ = disasm(perf_data(tmp_path / "perf.data", {0: data}, extra), tool, "--symfs", str(symfs))
    assert ran(rows) == DD_RAN


@pytest.mark.parametrize("guest", [False, True])
def test_a_thread_that_ran_a_guest(guest: bool, tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """Under VHE: EL1 is a guest's, and EL0 may be from then on, on any CPU."""
    rows = np.zeros(3 * len(CAT_ROUND), RECORD)
    rows["start"], rows["count"] = np.array(CAT_ROUND * 3, np.uint64).T
    rows["vmid"], rows["task"], rows["level"] = -1, 77, (0, 0, 1 if guest else 0, 1 if guest else 0, 0, 0)
    rows["flags"][::2] = GAP
    text = ProgramText([(AT, np.array(CAT.words, np.uint32))])
    data = bytes(encode(rows, text, (0, 1), perf_unit(0, vhe=True, timed=False)).data)
    made = CsTrace(streams={0: data, 1: data}, text=(KERNEL.base, 4 * len(KERNEL.words)), configr=1 << 7 | 1 << 15,
                   idr2=0x1088, comms={77: "cat"}, extra=[mapped(77, "/bin/cat", ID["cat"])])  # fmt: skip
    found, _ = disasm(write(tmp_path / "perf.data", made), tool, "--symfs", str(symfs))
    assert ran(found) == CAT_RAN * (1 if guest else 6)


def test_code_and_the_kernel_s(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """Both of one trace, and no step between them is impossible; perf decodes the same. The file is at its own path."""
    needs_tools("perf")
    shell = MadeKernel({"main": ["nop", "svc #0", "nop", "b main"]}, AT)
    kernel = MadeKernel({"vectors": ["nop", "b enter", *["nop"] * 30] * 16, "enter": ["nop", "eret"]}, KERNEL.base)
    shell.write(symfs / "bin" / "sh", build_id=ID["cat"])
    vector = kernel.at("vectors") + 0x400
    steps = [(AT, 2, 0, 0), (vector, 2, 1, EXCEPTION), (kernel.at("enter"), 2, 1, 0), (AT + 8, 2, 0, RETURN)] * 10
    rows = np.zeros(len(steps), RECORD)
    rows["start"], rows["count"], rows["level"], rows["flags"] = np.array(steps, np.uint64).T
    rows["vmid"], rows["task"], rows["flags"][0] = -1, 77, GAP
    text = ProgramText([(each.base, np.array(each.words, np.uint32)) for each in (kernel, shell)])
    data = bytes(encode(rows, text, (0, 1), perf_unit(0, vhe=False, timed=False)).data)
    path = perf_data(tmp_path / "perf.data", {0: data}, [mapped(77, str(symfs / "bin" / "sh"), ID["cat"])])
    vmlinux = kernel.write(tmp_path / "vmlinux")
    images = ["--vmlinux", str(vmlinux)]
    assert tool("trace", "check", path, *images).out.startswith("39 steps, none impossible")
    printed = tool("trace", "disasm", path, *images, "--format", "jsonl")
    found = [json.loads(line) for line in printed.out.splitlines()[1:]]
    assert [int(row["start"], 16) for row in found] == [start for start, *_ in steps]
    own = [(int(one["end"], 16) - 4, int(two["start"], 16)) for one, two in pairwise(found)]
    command = ["perf", "script", "-i", str(path), "--itrace=b", "-F", "ip,addr", "-k", str(vmlinux)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    branches = [tuple(int(word, 16) for word in line.split() if word != "=>") for line in said.splitlines()]
    assert [each for each in branches if all(each)] == own[: len(branches)]


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(60, id="some", marks=pytest.mark.thorough),
        pytest.param(100_000, id="many", marks=[pytest.mark.extended, pytest.mark.timeout(0)]),
    ],
)
def test_mutated_maps(count: int, tmp_path: Path, symfs: Path) -> None:
    """Whatever the records say, a range of a process is of the file that the decoder followed."""
    vmlinux, path = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "perf.data"
    runs = stream([(77, 0, CAT, CAT_ROUND), (80, 0, CAT, CAT_ROUND), (78, 0, DD, DD_ROUND)] * 4)
    extra = [mapped(78, "/bin/dd", ID["dd"]), forked(80, 77, 20), mapped(77, "/bin/cat", ID["cat"])]
    whole = perf_data(path, {0: runs, 1: runs}, extra).read_bytes()
    records = len(whole) - whole[::-1].index(b"nib/") - whole.index(b"/bin/")
    chance, ran_in = random.Random(count), 0  # noqa: S311 - the same damage every time
    for number in range(count):
        data = mutated(whole, chance)
        if number % 2:  # in the records of processes
            place = whole.index(b"/bin/") - 100 + chance.randrange(records + 200)
            data = whole[:place] + bytes([chance.randrange(256)]) + whole[place + 1 :]
        path.write_bytes(data)
        # Without its magic it is text, for which there is no --symfs.
        with suppress(InputError, UsageError), open_trace(str(path)) as opened:
            known = KnownRanges(open_kernels(opened, HostImage(vmlinux=vmlinux, symfs=symfs), ()))
            for batch, numbers in known.numbered(opened):
                own = batch.ranges[["level", "flags"]]
                of_user = (own["level"] == 0) & (own["flags"] & np.uint8(AARCH32 | OTHER_WORLD) == 0)
                without = known.table["program"][numbers[of_user]] == 0
                assert addresses(batch.ranges["start"][of_user][without]) == [], number
                ran_in += int(of_user.sum())
    assert ran_in > 10 * count


def test_a_symbol_inside_another_of_a_binary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A range through both is of three parts: the outer function goes on after the inner one."""
    (tmp_path / "root" / "bin").mkdir(parents=True)
    binary = MadeKernel({"outer": [*["nop"] * 6, "b outer"]}, AT)
    binary.places["inner"], binary.sizes["inner"] = AT + 8, 8
    binary.write(tmp_path / "root" / "bin" / "cat", build_id=ID["cat"])
    runs = stream([(77, 0, binary, ((AT, 7),) * 3)])
    path = perf_data(tmp_path / "perf.data", {0: runs}, [mapped(77, "/bin/cat", ID["cat"])])
    vmlinux, out = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "out"
    args = [str(path), "--vmlinux", str(vmlinux), "--symfs", str(tmp_path / "root"), "--format", "folded"]
    assert main(["trace", "export", *args, "-o", str(out)]) == 0
    counts = dict(line.rsplit(" ", 1) for line in out.read_text().splitlines())
    assert counts == {"cat 77;outer [cat]": "15", "cat 77;inner [cat]": "6"}
