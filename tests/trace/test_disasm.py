"""``prologue trace disasm``, on a kernel of a few instructions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from prologue.live.system.programs import linked_program
from prologue.trace.path.listing import instructions
from prologue.trace.readers.recording import RecordingHeader
from tests.trace.elements import ON, ElementTrace, Message, context, range_
from tests.trace.made import KERNEL, Run, perf_text, recording

STEPS: list[tuple[str | int, str | int]] = [
    ("read_zero+0x18", "vfs_read"), ("vfs_read+0x10", "read_zero"), ("read_zero+0x10", "read_zero+0x18"),
    ("read_zero+0x18", "vfs_read+0x14"), ("vfs_read+0x18", "vfs_read+0x20"), ("vfs_read+0x24", 0x400000),
    (0x400010, "vectors+0x400"),
]  # fmt: skip


def test_the_lines_of_arm_cs_trace_disasm(run: Run) -> None:
    said, about, _ = run("disasm", perf_text(STEPS[:4]))
    place = KERNEL.at("read_zero")
    assert said.splitlines()[0] == "ARM CoreSight Trace Data Assembler Dump"
    assert said.splitlines()[7:16] == [
        "             cat    77/77    [0000]         1.000001000  vfs_read+0x10".ljust(97) + " [kernel.kallsyms]",
        f"\t{place:016x} <read_zero>:",
        *(f"\t{place + 4 * k:x}:\td503201f \tnop" for k in range(3)),
        f"\t{place + 12:x}:\tf100403f \tcmp\tx1, #0x10",
        f"\t{place + 16:x}:\t54000040 \tb.eq\t{place + 24:x} <read_zero+0x18>",
        "             cat    77/77    [0000]         1.000002000  read_zero+0x10                           ",
        f"\t{place + 24:016x} <read_zero+0x18>:",
    ]
    assert said.splitlines()[-1] == "End"
    assert "3 ranges (3 distinct), 11 instructions, 1 CPU, 0 gaps" in about


def test_user_space_and_unknown_addresses_are_said_once_with_counts(run: Run) -> None:
    unknown: list[tuple[str | int, str | int]] = [
        ("vectors+0x400", 0xFFFF800090000000),
        (0xFFFF800090000010, "read_zero+0x18"),
    ]
    trace = perf_text((STEPS + unknown) * 3, dso="[unknown]")
    said, about, _ = run("disasm", trace)
    assert "3 ranges are not a kernel's" in about
    assert f"3 ranges are not in {run.vmlinux}: 0xffff800090000000 (3)" in about
    assert said.count(" 400010 ") == 3
    assert "ffff800090000000:" not in said
    for command in ("stats", "check"):
        data = run(command, trace, "--json", status=None).json
        assert data["unknown"] == [
            {"why": "not a kernel's", "image": None, "ranges": 3, "areas": []},
            {"why": "not in the image", "image": str(run.vmlinux), "ranges": 3, "areas": [["0xffff800090000000", 3]]},
        ]
        assert (data["ranges"], data["gaps"], data["not_used"]) == (len(STEPS) * 3 + 5, 0, {})


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_other_forms(run: Run, form: str) -> None:
    rows = [{"start": KERNEL.at("vfs_read"), "count": 5, "time": 1500, "level": 1, "cpu": 1}]
    trace = recording(rows)
    said = run("disasm", trace, "--format", form).out
    if form == "text":
        assert said.splitlines()[0] == "0.000001500 cpu 1 EL1 vfs_read"
        assert (
            said.splitlines()[-1]
            == f"    {KERNEL.at('vfs_read+0x10'):x}: 94000008  bl {KERNEL.at('read_zero'):x} <read_zero>"
        )
        return
    head, row = map(json.loads, said.splitlines())
    assert head["schema"] == "prologue.trace-disasm/1"
    assert (row["time"], row["cpu"], row["level"], row["symbol"], row["offset"]) == (1500, 1, 1, "vfs_read", 0)
    assert [insn["word"] for insn in row["instructions"]][:2] == ["d503201f", "d503201f"]


def test_filters(run: Run) -> None:
    rows = [
        {"start": KERNEL.at(name), "count": 2, "cpu": cpu, "level": level, "time": 10**9 * k}
        for k, (name, cpu, level) in enumerate((("vfs_read", 0, 1), ("read_zero", 1, 1), ("vectors+0x80", 0, 2)))
    ]
    trace = recording(rows)
    for option, symbol in (
        (("--symbols", "read_zero"), "read_zero"), (("--cpu", "1"), "read_zero"), (("--level", "2"), "vectors+0x80"),
        (("--time", "0.5,1.5"), "read_zero"), (("--time", "1.5,"), "vectors+0x80"),
    ):  # fmt: skip
        said, about, _ = run("disasm", trace, "--format", "text", *option)
        assert said.splitlines()[0].endswith(symbol)
        assert about.splitlines()[0] == "note: 1 range (1 distinct), 2 instructions, 1 CPU, 0 gaps"


def test_a_gap_before_what_is_left_out_is_printed(run: Run) -> None:
    around = [*STEPS, ("vectors+0x404", "read_zero+0x18")]
    lines = perf_text(around * 2).splitlines(keepends=True)
    lines.insert(len(around) + 1, "             cat    77/77    [000]     1.000003: PERF_RECORD_LOST lost 12\n")
    trace = "".join(lines)
    whole = run("disasm", trace, "--format", "text").out
    said, about, _ = run("disasm", trace, "--format", "text", "--symbols", "read_zero")
    assert whole.count("gap\n") == said.count("gap\n") == 1
    assert about.splitlines()[0].endswith(" 1 gap")


def test_the_slide_of_a_recording_or_of_the_command_line(run: Run) -> None:
    rows = [{"start": KERNEL.at("vfs_read") + 0x200000, "count": 5}]
    plain, told = recording(rows), recording(rows, RecordingHeader(slide=0x200000))
    for trace, options in ((plain, ("--slide", "0x200000")), (told, ())):
        said = run("disasm", trace, "--format", "text", *options).out
        assert f"bl {KERNEL.at('read_zero') + 0x200000:x} <read_zero>" in said
    about = run("disasm", plain, "--format", "text").err
    assert "1 range is not in" in about


def test_host_and_guest_are_told_apart_or_not_at_all(run: Run, tmp_path: Path) -> None:
    guest = KERNEL.write(tmp_path / "guest", {"vfs_read": 0x52800000})  # the same addresses, other words
    rows = [
        {"start": KERNEL.at("vfs_read"), "count": 1, "level": level, "vmid": vmid} for level, vmid in ((2, -1), (1, 5))
    ]
    trace = recording(rows)
    vmlinux = run.vmlinux

    def names(*args: object) -> list[str | None]:
        said = run("disasm", trace, "--format", "jsonl", *args).out
        return [json.loads(line).get("image") for line in said.splitlines()[1:]]

    assert names("--guest-vmlinux", f"{guest}@5") == [str(vmlinux), str(guest)]
    assert names("--guest-vmlinux", f"{guest}@6") == [str(vmlinux), None]
    assert names("--guest-vmlinux", guest) == [str(vmlinux), str(guest)]  # kernel addresses at EL2: VHE
    assert names() == [str(vmlinux), None]
    trace = recording([*rows, {"start": KERNEL.at("vfs_read"), "count": 1, "level": 1}])
    for options in ((), ("--guest-vmlinux", guest)):  # VHE while it boots
        assert names(*options)[2] == str(vmlinux)
    trace = (perf_text(STEPS[:3]) + perf_text(STEPS[:3], dso="[guest.kernel.kallsyms]", cpu=1)).encode()
    assert set(names("--guest-vmlinux", guest)) == {str(vmlinux), str(guest)}
    assert set(names()) == {str(vmlinux), None}


def test_two_guests_by_vmid(run: Run, tmp_path: Path) -> None:
    """Each with its own words at the same address; a third one, of which nothing is known, is nobody's."""
    words = {5: 0x52800000, 6: 0x52800020}
    guests = {vmid: KERNEL.write(tmp_path / f"guest{vmid}", {"vfs_read": word}) for vmid, word in words.items()}
    options = [word for vmid, path in guests.items() for word in ("--guest-vmlinux", f"{path}@{vmid}")]
    rows = [
        {"start": KERNEL.at("vfs_read"), "count": 1, "level": level, "vmid": vmid}
        for level, vmid in ((2, -1), (1, 6), (1, 5), (1, 7), (1, 6))
    ]
    trace = recording(rows)
    out, about, _ = run("disasm", trace, "--format", "jsonl", *options)
    said = [json.loads(line) for line in out.splitlines()[1:]]
    assert [line.get("image") for line in said] == [str(path) if path else None for path in (
        run.vmlinux, guests[6], guests[5], None, guests[6])]  # fmt: skip
    ran = [line["instructions"][0]["word"] for line in said if "instructions" in line]
    assert ran == ["d503201f", "52800020", "52800000", "52800020"]
    assert "1 range may be of host or guest" in about


def test_the_hosts_mode_is_what_the_trace_shows(run: Run, tmp_path: Path) -> None:
    """Where nobody says it: kernel addresses at EL2 are VHE's, and the host's text at EL1 under no VMID is nVHE's."""
    guest = KERNEL.write(tmp_path / "guest", {"vfs_read": 0x52800000})

    def names(*rows: tuple[int, int, int]) -> list[str | None]:
        said = [{"start": start, "count": 1, "level": level, "vmid": vmid} for start, level, vmid in rows]
        trace = recording(said)
        out = run("disasm", trace, "--guest-vmlinux", guest, "--format", "jsonl").out
        return [json.loads(line).get("image") for line in out.splitlines()[1:]]

    place, host, own = KERNEL.at("vfs_read"), str(run.vmlinux), str(guest)
    assert names((place, 1, 5), (place, 2, -1)) == [own, host]
    assert names((place, 1, -1), (place, 1, 5), (place, 1, 0)) == [host, own, host]
    assert names((place, 1, 5), (0x8001000, 2, -1)) == [None, None]  # EL2 of nVHE, or the MMU is off
    assert names((place, 1, -1), (place, 2, -1), (place, 1, 5)) == [host, host, own]  # VHE's boot begins at EL1


def test_without_vmids_a_guest_under_vhe_is_not_the_host(run: Run) -> None:
    """Decoded hardware trace; nobody says that the host has VHE."""
    ran = range_(KERNEL.at("vfs_read"), 1)
    host, guest = context(2, process=1234), context(1, process=1234)

    def names(messages: list[Message]) -> list[str | None]:
        out = run("disasm", ElementTrace(ON + messages), "--format", "jsonl").out
        return [json.loads(line).get("image") for line in out.splitlines()[1:]]

    assert names(guest + ran + host + ran) == [None, str(run.vmlinux)]
    assert names(guest + ran) == [str(run.vmlinux)]


def test_what_the_kernel_made_is_the_kernels(run: Run, tmp_path: Path) -> None:
    """perf names programs of BPF as it names those of processes; their addresses are a kernel's."""
    jitted = 0xFFFF800085000000
    steps: list[tuple[str | int, str | int]] = [*STEPS[:1], ("vfs_read+0x10", jitted), (jitted + 8, "read_zero")]
    text = "".join(perf_text([step], dso="bpf_prog_6deef7357e7b4530" if k else "[kernel.kallsyms]")
                   for k, step in enumerate(steps))  # fmt: skip
    for options in ((), ("--guest-vmlinux", KERNEL.write(tmp_path / "guest"))):
        about = run("disasm", text, *options).err
        assert f"1 range is not in {run.vmlinux}" in about
        assert "not a kernel's" not in about


@pytest.mark.parametrize("option", ["--vmlinux", "--memory", "--modules", "--writes", "--slide"])
def test_a_second_value_does_not_replace_the_first(run: Run, option: str) -> None:
    printed = run("disasm", perf_text(STEPS), option, "1", option, "2", status=2)
    assert f"argument {option}: given more than once, and takes one value" in printed.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--slide", "x"], "expected a number"),
        (["--time", "5"], "expected FROM,TO"),
        (["--symbols", "nothing_here"], "has no symbol nothing_here"),
        (["--symbols", "vfs_raed"], "has no symbol vfs_raed: did you mean vfs_read?"),
        (["--from", "vfs_raed"], "has no symbol vfs_raed: did you mean vfs_read?"),
        (["--modules", "/"], "needs --memory"),
        (["--guest-vmlinux", "a@x"], "expected VMLINUX"),
        (["--guest-vmlinux", "a@\u00b2"], "expected VMLINUX"),
        (["--guest-vmlinux", "a@99999999999"], "expected VMLINUX"),
        (["--format", "srcline"], "no debug information"),
        (["-S"], "no debug information"),
    ],
)
def test_bad_input_is_one_line(run: Run, args: list[str], said: str) -> None:
    error = run("disasm", perf_text(STEPS), *args, status=2).err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("level", "security"), [(0, 0), (1, 0), (2, 3), (3, 2)])  # a Secure process, OP-TEE, RMM, Root
def test_text_of_another_world_is_no_kernels(run: Run, level: int, security: int) -> None:
    """OP-TEE and an RMM have text at addresses of the kernel's."""
    said = run("disasm", ElementTrace(context(level, security=security) + range_(KERNEL.at("vfs_read"), 3)))
    assert "vfs_read" not in said.out
    assert "1 range is of Secure, Realm or Root state: not disassembled" in said.err


@pytest.mark.parametrize(("process", "text"), [(1234, " 1234/1234 "), (None, "   -1/-1   ")])
def test_a_process_that_is_not_said_has_no_number(run: Run, process: int | None, text: str) -> None:
    out = run("disasm", ElementTrace(context(2, process=process) + range_(KERNEL.at("vfs_read"), 3))).out
    assert text in out
    assert "4294967295" not in out


def test_an_immediate_is_no_address(tmp_path: Path) -> None:
    program = linked_program(KERNEL.write(tmp_path / "vmlinux"), 0)
    place = KERNEL.at("vfs_read")
    words = np.array([0xF8410420, 0x58000080, 0x14000002, 0xB0000000, 0xDEADBEEF], np.uint32)
    assert [insn.text for insn in instructions(program, place, words)] == [
        "ldr x0, [x1], #0x10",
        f"ldr x0, {place + 20:x} <vfs_read+0x14>",
        f"b {place + 16:x} <vfs_read+0x10>",
        f"adrp x0, {(place & -0x1000) + 0x1000:x}",
        ".inst 0xdeadbeef ; undefined",
    ]
