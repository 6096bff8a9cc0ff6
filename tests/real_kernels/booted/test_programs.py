"""BPF programs of Debian's kernels at raw tracepoints and at many functions: a listing says what the kernel says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue.live.memory.sources import open_memory
from tests.real_kernels.booted.conftest import listing
from tests.real_kernels.booted.imitated import Victim, debian
from tests.real_kernels.booted.test_hooks import audited
from tests.support.btf import TYPEDEF, type_ids
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(1200)]

_TYPED: Final = "sched_process_fork"
_RAW: Final = ("sched_process_exit", "sched_process_exec")  # the second program is hidden


def attached(victim: Victim, *places: str) -> None:
    """Attach a program to each place; the kernel takes all of them."""
    start = f"/more/fentry {' '.join(places)} >/tmp/attached </dev/null 2>&1 & sleep 3; cat /tmp/attached"
    assert victim.run(start).strip() == "+" * len(places)


def links(victim: Victim) -> list[str]:
    """What the kernel says of each link that is open, as /proc has it."""
    said = victim.run('for f in /proc/$(pidof fentry)/fdinfo/*; do echo "$(cat $f)"; echo ====; done')
    return [text for text in said.split("====\n") if "link_type" in text]


def listed(victim: Victim) -> dict[str, list[dict[str, Any]]]:
    """Listeners that are BPF programs, by their numbers."""
    programs: dict[str, list[dict[str, Any]]] = {}
    for listener in listing(victim.vmlinux, victim.dump())["listeners"]:
        if listener["kind"] == "BPF program":
            programs.setdefault(listener["details"]["id"], []).append(listener)
    return programs


@pytest.mark.extended
@pytest.mark.parametrize("suite", ["trixie", "bookworm", "sid"])
def test_programs_of_raw_tracepoints(suite: str, tmp_path: Path, tool: Tool) -> None:
    with debian(suite, tmp_path) as victim:
        btf = ElfImage(victim.vmlinux).section(".BTF")
        assert btf is not None
        name = f"btf_trace_{_TYPED}"
        typed = type_ids(ElfImage(victim.vmlinux).data(btf), {name}, TYPEDEF)[name]
        attached(victim, f"btf:{typed}", *(f"raw:{name}" for name in _RAW))
        said = {value(text, "prog_id"): value(text, "tp_name") for text in links(victim)}
        assert sorted(said.values()) == sorted((_TYPED, *_RAW))
        programs = listed(victim)
        for number, name in said.items():
            (program,) = programs[number]
            assert (program["points"], program["functions"]) == ([name], [])
            assert (program["details"]["attached"], program["flags"]) == ("raw tracepoint", [])
            assert {call["owner"] for call in program["calls"]} == {"BPF"}
        assert audited(victim.vmlinux, victim.dump, tool) == ([], [])
        hide(victim, next(number for number, name in said.items() if name == _RAW[1]))
        done = audited(victim.vmlinux, victim.dump, tool)
        assert [(one["code"], one["symbol"]) for one in done.findings] == [("PL509", f"__tracepoint_{_RAW[1]}")]
        assert f"(raw tracepoint {_RAW[1]}) runs there, and prog_idr" in done.findings[0]["message"]


def value(text: str, name: str) -> str:
    """A value of a link's fdinfo."""
    (word,) = re.findall(rf"^{name}:\s*(\S+)$", text, re.MULTILINE)
    return str(word)


def hide(victim: Victim, number: str) -> None:
    """Take a program off ``prog_idr``, by a module that does not hide."""
    place, slide = Kernel(victim.vmlinux).symbols.require("prog_idr"), open_memory(str(victim.dump())).info.slide
    assert slide is not None
    at = place.vaddr + slide
    victim.run(f"insmod /more/imitator_program.ko technique=program id={number} at={at:#x}; sleep 2")


@pytest.mark.extended
def test_programs_of_many_functions(tmp_path: Path) -> None:
    """On 7.2: arm64 has fprobes since 6.14."""
    functions = ("vfs_fsync_range", "vfs_statx", "vfs_unlink")
    with debian("sid", tmp_path) as victim:
        attached(victim, f"multi:{','.join(functions)}", f"return:{functions[0]}", f"session:{functions[1]}")
        programs = listed(victim)
        ways = []
        for text in links(victim):
            names = sorted(re.findall(r"^\d+\s+(\S+)\+0x", text, re.MULTILINE))
            assert len(names) == int(value(text, "kprobe_cnt"))
            for program in programs[value(text, "prog_id")]:
                assert sorted(place.partition("+")[0] for place in program["functions"]) == names
                assert program["flags"] == []
                ways.append((names, program["details"]["attached"]))
        assert sorted(ways) == sorted([
            (sorted(functions), "kprobe.multi"), ([functions[0]], "kretprobe.multi"),
            ([functions[1]], "kprobe.multi"), ([functions[1]], "kretprobe.multi"),
        ])  # fmt: skip
