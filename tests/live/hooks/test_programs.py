"""BPF programs of a small kernel, with the places and the turns in which each is called."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.live.hooks.hooked import Values, hooks, of_kind
from tests.support.elf_edit import ElfEdit, edit
from tests.support.tool import Tool


@pytest.fixture(params=["7.2", "before 6.10"])
def vmlinux(request: pytest.FixtureRequest, recent: Path, former: Path) -> Path:
    return recent if request.param == "7.2" else former


def programs_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The programs among the listeners."""
    return of_kind(data, "BPF program")


def trampoline(vmlinux: Path) -> Values:
    """The trampoline in its table, and the programs in ``prog_idr``."""
    table = "trampoline_table" if "trampoline_table" in ElfEdit(vmlinux).symbols else "trampoline_key_table"
    return {f"{table}+8": "trampoline+8", "prog_idr+16": "programs+2"}


def test_programs_of_a_trampoline_have_its_function(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, trampoline(vmlinux), tool)
    said = {one["name"]: (one["functions"], one["details"]["attached"], one["flags"]) for one in programs_of(data)}
    assert said == {
        "early": (["vfs_read"], "fentry", []),
        "late": (["vfs_read"], "fentry", []),
        "end": (["vfs_read"], "fexit", []),
    }
    assert data["not_known"] == []


BOTH: Values = {
    "event+8": "attached",
    "returns_event+8": "attached",
    "kprobe_table+8": "returns_probe+24",
    "prog_idr+16": "attached_program",
}


def test_a_program_on_a_kprobe_and_a_kretprobe(vmlinux: Path, tool: Tool) -> None:
    """One of perf's programs may be on several events: each place has its own way."""
    data = hooks(vmlinux, BOTH, tool)
    said = [(one["details"]["attached"], one["functions"]) for one in programs_of(data)]
    assert said == [("kprobe", ["vfs_write+0x8"]), ("kretprobe", ["replaced"])]
    called = {one["function"]: [(each["kind"], each["offset"]) for each in one["called"]] for one in data["functions"]}
    assert called["vfs_write"] == [("kprobe", 4), ("kprobe", 8), ("BPF program", 8)]
    assert called["replaced"] == [("livepatch", 0), ("kretprobe", None), ("BPF program", None)]
    printed = tool("live", "hooks", vmlinux, vmlinux.with_name("core"), status=None)
    lines = [line.strip() for line in printed.out.splitlines()]
    assert any(line.startswith("BPF program") and " vfs_write+0x8 " in line for line in lines)
    assert [line.partition("BPF")[0] for line in lines if "BPF program attached" in line] == ["+0x8: ", "on return: "]


def raw(vmlinux: Path, function: str, *programs: str) -> Values:
    """These programs at the tracepoint; before 6.10 its probes have them, later their links."""
    former = "trampoline_table" in ElfEdit(vmlinux).symbols
    links = {"early_program": "raw_link", "attached_program": "hidden_link"}
    probes: Values = {"prog_idr+16": "programs+2"}
    for k, program in enumerate(programs, 1):
        probes |= {f"probes+{16 * k}": function, f"probes+{16 * k + 8}": program if former else links[program]}
    return probes


def test_a_program_of_a_raw_tracepoint(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, raw(vmlinux, "__bpf_trace_made", "early_program"), tool)
    (early,) = (one for one in data["listeners"] if one["name"] == "early")
    assert (early["points"], early["functions"], early["details"]["attached"]) == (["made"], [], "raw tracepoint")
    assert early["flags"] == []
    (made,) = of_kind(data, "tracepoint")
    assert [call["symbol"] for call in made["calls"]] == ["on_call", "__bpf_trace_made"]
    assert data["not_known"] == []
    printed = tool("live", "hooks", vmlinux, vmlinux.with_name("core"), status=None)
    lines = [line.split()[:5] for line in printed.out.splitlines()]
    assert ["BPF", "program", "early", "made", "program"] in lines


def test_a_program_of_a_raw_tracepoint_of_a_module(vmlinux: Path, tool: Tool) -> None:
    changes = raw(vmlinux, "__bpf_trace_loaded", "early_program")
    assert [one["points"] for one in programs_of(hooks(vmlinux, changes, tool)) if one["name"] == "early"] == [[]]
    changes |= {"loaded+616": 1, "loaded+624": "loaded_events"}
    assert [one["points"] for one in programs_of(hooks(vmlinux, changes, tool)) if one["name"] == "early"] == [["made"]]


def test_a_program_of_a_raw_tracepoint_that_is_not_listed(vmlinux: Path, tool: Tool) -> None:
    """Of a dump, it is a finding at the tracepoint; the other one, which is listed, is none."""
    hooks(vmlinux, raw(vmlinux, "__bpf_trace_made", "early_program", "attached_program"), tool)
    printed = tool("live", "audit", vmlinux, vmlinux.with_name("core"), "--select", "PL509", "--json", status=None)
    (finding,) = printed.json["findings"]
    assert (finding["code"], finding["symbol"]) == ("PL509", "made_tracepoint")
    assert finding["message"].startswith("BPF program attached at ")
    assert finding["message"].endswith("(raw tracepoint made) runs there, and prog_idr, which bpftool shows, lacks it")


def test_data_of_a_raw_tracepoint_that_lead_nowhere(vmlinux: Path, tool: Tool) -> None:
    changes = raw(vmlinux, "__bpf_trace_made", "early_program") | {"probes+24": 0xFFFF_8000_7000_0000}
    (reason,) = hooks(vmlinux, changes, tool)["not_known"]
    assert reason.startswith("BPF programs: memory has no ")


def test_a_raw_tracepoint_without_a_type_is_not_guessed(recent: Path, tmp_path: Path, tool: Tool) -> None:
    """The data could be the program, or a link that leads to it."""
    vmlinux = tmp_path / "vmlinux"
    vmlinux.write_bytes(recent.read_bytes().replace(b"\0bpf_raw_tp_link\0", b"\0bpf_another_one\0"))
    (reason,) = hooks(vmlinux, raw(vmlinux, "__bpf_trace_made", "early_program"), tool)["not_known"]
    assert reason.startswith("BPF programs: no type says where bpf_raw_tp_link.link.prog is ")


def test_a_program_of_an_event_has_its_name(vmlinux: Path, tool: Tool) -> None:
    """That of an event of a tracepoint is its tracepoint's."""
    alone: Values = {"event+8": "attached", "kprobe_table+32": 0, "prog_idr+16": "attached_program"}
    for change, name in (({}, "grp:ev"), ({"event+24": "made_tracepoint"}, "grp:made")):
        (program,) = programs_of(hooks(vmlinux, {**alone, **change}, tool))
        assert (program["points"], program["details"]["attached"]) == ([name], "event")


def test_trampolines_of_which_the_table_is_not_known(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    """No program is said to be attached nowhere."""
    elf = ElfEdit(vmlinux)
    table = next(name for name in elf.symbols if name.startswith("trampoline_") and name.endswith("table"))
    elf.rename_symbol(table, "another")
    data = hooks(elf.save(tmp_path / "vmlinux"), {"prog_idr+16": "programs+2"}, tool)
    (reason,) = data["not_known"]
    assert reason.startswith("BPF programs: this vmlinux has no table of trampolines named ")


def test_an_event_with_as_many_programs_as_it_may_have(vmlinux: Path, tool: Tool) -> None:
    """The kernel adds none after 64 (BPF_TRACE_MAX_PROGS), and the end of the array comes after them."""
    array: Values = {f"table_1+{16 + 16 * k + 8}": "attached_program" for k in range(64)}
    data = hooks(vmlinux, array | {f"table_1+{16 + 16 * 64 + 8}": 0, "event+8": "table_1"}, tool)
    assert data["not_known"] == []
    assert [one["name"] for one in programs_of(data)] == ["attached"]


def test_a_kernel_without_kprobes_has_its_programs(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    without = Path(shutil.copy(vmlinux, tmp_path / "vmlinux"))
    with edit(without) as elf:
        elf.rename_symbol("kprobe_table", "other_table")
    data = hooks(without, trampoline(without), tool)
    assert [one["name"] for one in programs_of(data)] == ["end", "late", "early"]
    assert data["not_known"] == []


def test_a_table_whose_symbol_has_no_size_is_not_empty(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    sizeless = Path(shutil.copy(vmlinux, tmp_path / "vmlinux"))
    with edit(sizeless) as elf:
        struct.pack_into("<Q", elf.data, elf.symbol_offset("kprobe_table") + 16, 0)
    data = hooks(sizeless, trampoline(sizeless), tool)
    assert any("the symbol kprobe_table has no size" in each for each in data["not_known"])


def test_a_program_that_replaces_a_function(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, trampoline(vmlinux) | {"trampoline+56": "attached_program"}, tool)
    (replacing,) = (one for one in programs_of(data) if one["name"] == "attached")
    assert (replacing["details"]["attached"], replacing["functions"]) == ("freplace", ["vfs_read"])
