"""Code that looks like that of BPF and kprobes, on a small kernel: what hooks with it is found, and so is the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prologue.errors import UNDECIDED
from tests.live.hooks.hooked import Values, saved
from tests.support.elf_edit import ElfEdit
from tests.support.tool import Tool

NAMED: Values = {"bpf_kallsyms": "forged+32"}
PROGRAMS: Values = {"prog_idr+16": "programs+2"}
PACK: Values = {"pack_list": "pack+8"}
SLOTS: Values = {"kprobe_insn_slots+8": "slots"}
LOADED: Values = {"orphan_vm+8": "load_module+4"}
UNUSED, SLOT = "where the bitmap of a pack of BPF has none", "holds more than an instruction to step and a BRK"
MOVES_AND_RETURNS = 0xD65F03C0_52800000


def report(vmlinux: Path, changes: Values, tool: Tool, executable: tuple[str, ...] = ()) -> tuple[dict[str, Any], int]:
    """The JSON of an audit, and its exit code."""
    core = saved(vmlinux, changes, ("module_text", *executable))
    printed = tool("live", "audit", vmlinux, core, "--select", "PL509,PL511", "--json", status=None)
    return printed.json, printed.status


def findings(vmlinux: Path, changes: Values, tool: Tool, *executable: str) -> list[str]:
    data, _ = report(vmlinux, changes, tool, executable)
    return [f"{one['code']} {one['message']}" for one in data["findings"]]


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        pytest.param(
            NAMED | {"hook": "bpf_text+1024"},
            ["bpf_text+0x400, which has no owner", "bpf_prog_forged in bpf_kallsyms are of no program of BPF"],
            id="name of BPF, ftrace_ops",
        ),
        pytest.param(
            NAMED | {"direct_functions": "sends", "sent+24": "bpf_text+1024"},
            ["bpf_text+0x400, which has no owner", "bpf_prog_forged in bpf_kallsyms are of no program of BPF"],
            id="name of BPF, direct call",
        ),
        pytest.param(
            PROGRAMS | {"hook": "bpf_text+64"}, ["code of BPF: no callback of this kind begins there"],
            id="a program of BPF",
        ),
        pytest.param(
            SLOTS | {"probe+56": "slot_text"}, ["a slot for the instruction under a kprobe, which nothing calls"],
            id="slot of kprobes",
        ),
        pytest.param(
            {"event_probe+72": "on_probe"}, ["the kprobe event grp:ev has the handler on_probe, which no event has"],
            id="handler of a kprobe event",
        ),
        pytest.param({"hook+64": "on_probe"}, ["has a direct call, and is not DIRECT"], id="direct call without flag"),
        pytest.param(
            PROGRAMS | {"early_program+16": "module_text"},
            ["its program is", "which is no code of BPF"],
            id="moved program",
        ),
    ],
)  # fmt: skip
def test_what_leads_to_such_code(vmlinux: Path, changes: Values, ends: list[str], tool: Tool) -> None:
    said = findings(vmlinux, changes, tool)
    assert all(any(end in message for message in said) for end in ends), said
    assert len(said) <= len(ends)


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        pytest.param({}, "", id="as BPF and kprobes leave them"),
        pytest.param({"pack_text+640": MOVES_AND_RETURNS}, UNUSED, id="unused chunk"),
        pytest.param({"slot_text+0": MOVES_AND_RETURNS}, SLOT, id="slot"),
        pytest.param({"slot_text+0": 0xD42000C0_14000001}, SLOT, id="branch"),
        pytest.param({"slot_text+8": MOVES_AND_RETURNS}, "", id="slot that was never used"),
    ],
)  # fmt: skip
def test_contents(vmlinux: Path, changes: Values, end: str, tool: Tool) -> None:
    said = findings(vmlinux, PACK | SLOTS | changes, tool, "pack_text", "slot_text")
    assert [message.endswith(end) for message in said] == ([True] if end else [])


UNLISTED = "128 bytes of programs in packs of BPF are of no program, task or socket"


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        pytest.param({}, UNLISTED, id="program without a list"),
        pytest.param({"pack_text": MOVES_AND_RETURNS}, "is no program, and of no list", id="no program"),
        pytest.param({"init_task+64": "filter_of_task"}, "", id="seccomp"),
        pytest.param({"sock+8": "filter_of_socket"}, "", id="socket"),
        pytest.param({"sock+16": "reuseport"}, "", id="sockets of one port"),
        pytest.param({"init_task+64": "empty_filter", "sock+16": "reuseport"}, "", id="beside one that leads nowhere"),
        pytest.param({"sock+8": "filter_of_socket", "open_file+8": 0}, UNLISTED, id="no socket"),
        pytest.param({"init_task+64": "bpf_text", "sock+8": 16}, f"{UNLISTED}: ", id="pointers that lead nowhere"),
        pytest.param({"classic+16": "pack_text+512", "sock+8": "filter_of_socket"}, UNLISTED, id="unused chunks"),
    ],
)
def test_code_in_a_pack_that_no_list_of_programs_has(vmlinux: Path, changes: Values, note: str, tool: Tool) -> None:
    data, code = report(vmlinux, PACK | {"prog_idr+16": 0} | changes, tool, ("pack_text",))
    assert (data["findings"], code) == ([], UNDECIDED if note else 0)
    assert any("in packs of BPF" in line for line in data["not_looked_at"]) == bool(note)
    assert any(note in line for line in data["not_looked_at"])


def test_an_executable_page_of_the_linear_map(vmlinux: Path, tool: Tool) -> None:
    tables: Values = {
        "swapper_pg_dir": ElfEdit(vmlinux).value("table_linear") - 0xFFFF_0000_0000_0000 | 3,
        "table_linear": 1,
    }
    (said,) = findings(vmlinux, tables, tool)
    assert (
        said == "PL511 1,073,741,824 bytes at 0xffff000000000000 are executable, some of it writable, and have no owner"
    )


@pytest.mark.parametrize(
    ("changes", "found", "status"),
    [
        pytest.param({}, 1, 1, id="nothing is being freed"),
        pytest.param({"init_free_list": "leaving+8"}, 0, 0, id="on the list"),
        pytest.param({"init_free_wq": 1}, 0, UNDECIDED, id="work is queued"),
        pytest.param({"idle_worker+8": "init_free_wq"}, 0, UNDECIDED, id="work is done now"),
        pytest.param({"loaded+8": 1}, 0, UNDECIDED, id="a module comes"),
    ],
)
def test_memory_of_the_loader_of_modules_without_an_owner(
    vmlinux: Path, changes: Values, found: int, status: int, tool: Tool
) -> None:
    data, code = report(vmlinux, LOADED | changes, tool, ("orphan_text",))
    assert ([one["code"] for one in data["findings"]], code) == (["PL511"] * found, status)


@pytest.mark.parametrize(
    ("earlier", "later", "status"),
    [
        pytest.param({"init_free_wq": 1}, {}, 1, id="later at rest"),
        pytest.param({}, {"idle_worker+8": "init_free_wq"}, 1, id="earlier at rest"),
        pytest.param({"init_free_wq": 1}, {"loaded+8": 1}, UNDECIDED, id="both while modules came or went"),
    ],
)
def test_another_memory_of_the_boot_decides_whose_that_is(
    vmlinux: Path, earlier: Values, later: Values, status: int, tool: Tool
) -> None:
    """Each memory is judged by itself. Both open is no proof: the loader gets the same addresses again and again."""
    sources = []
    for name, changes in (("earlier", earlier), ("later", later)):
        core = saved(vmlinux, LOADED | changes, ("module_text", "orphan_text"))
        sources.append(core.rename(core.with_name(name)))
    data = tool("live", "audit", vmlinux, *sources, "--select", "PL511", "--json", status=status).json
    assert {one["code"] for one in data["findings"]} == ({"PL511"} if status == 1 else set())
