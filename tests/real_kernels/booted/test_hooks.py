"""Modules of ours that do what public rootkits do: each is found, at its function, and before it nothing is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue.live.memory.sources import open_memory
from tests.real_kernels.booted.imitated import PROGRAM, Imitation, Victim, debian, native
from tests.real_kernels.native import RECIPES
from tests.support.cases import one_tested
from tests.support.debian.kbuild import Recipe
from tests.support.live_guest import TRACING
from tests.support.needs import needs_tools
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]

# With livepatches, and BPF programs on kprobes.
LATEST: Final = Recipe(
    suite="sid",
    source="linux-source-7.2",
    options=("minimal", "small", "native", "btf", "samples", "livepatch", "bpf_events"),
    native=True,
)
ALWAYS: Final = "what is attached to the kernel: callbacks of other kinds"
HIDING: Final = {"PL510", "PL511"}
# The literal of a function whose ftrace_ops is on no list leads to that all the same.
LITERAL: Final = "the literal of vfs_writev; no registered ftrace_ops"


def machine(name: str, directory: Path) -> AbstractContextManager[Victim]:
    match name:
        case "native 6.12":
            return native(RECIPES["6.12"], "6.12", directory)
        case "native 7.2":
            return native(LATEST, "6.1", directory)
        case _:
            return debian(name, directory)


class Audited(NamedTuple):
    """Findings, and what of that which is attached could not be looked at, except what never is."""

    findings: list[dict[str, Any]]
    notes: list[str]


def audited(vmlinux: Path, take: Callable[[], Path], tool: Tool) -> Audited:
    """Audit memory of a moment when no module changed a direct call."""
    for _ in range(10):
        data: dict[str, Any] = tool("live", "audit", vmlinux, take(), "--json", status=None).json
        if not any("is held" in note for note in data["not_looked_at"]):
            break
    notes = [note for note in data["not_looked_at"] if "attached" in note]
    assert sum(note.startswith(ALWAYS) for note in notes) == 1
    allowed = (ALWAYS, "that is being freed", "being loaded or unloaded")  # init text may be on its way out
    notes = [note for note in notes if not any(part in note for part in allowed)]
    return Audited([one for one in data["findings"] if one["code"] != "PL515"], notes)  # modules of ours are unsigned


def imitate(victim: Victim, imitation: Imitation, slide: int, program: int) -> range:
    """Load the module, and wait until it hides; the page of its text, none if it is gone."""
    name, _, offset = imitation.at.partition("+")
    symbol = Kernel(victim.vmlinux).symbols.find(name) if name else None
    at = 0 if symbol is None else symbol.vaddr + slide + int(offset, 16)
    module = f"imitator_{imitation.name}"
    parameters = f"{imitation.parameters} at={at:#x} hide={imitation.hide} id={program}"
    sections = f"/sys/module/{module}/sections"
    text = victim.run(f"insmod {victim.directory}/{module}.ko {parameters}; cat {sections}/.text; sleep 2; true")
    start = int(text or "0", 16) & ~0xFFF  # what calls ftrace may be before .text
    return range(start, start + 0x1000 if start else 0)


@pytest.mark.parametrize("name", one_tested("native 6.12", "native 7.2", "trixie", "sid"))
def test_what_rootkits_do_is_found(name: str, tmp_path: Path, tool: Tool) -> None:
    """In a dump, and in a capture."""
    needs_tools("qemu-system-aarch64", "cpio")
    with machine(name, tmp_path) as victim:
        program = on_kprobe(victim) if any(each.name == "program" for each in victim.imitations) else 0
        events = f"{TRACING}/kprobe_events; echo 1 >{TRACING}/events/kprobes/enable"
        victim.run(f"echo p:place vfs_statx+0x20 >{events}")
        assert audited(victim.vmlinux, victim.dump, tool) == ([], [])
        victim.run("rmmod ftrace-direct ftrace-direct-modify; true")  # this one changes its call all the time
        slide = open_memory(str(victim.dump())).info.slide
        assert slide is not None
        hidden = {each: imitate(victim, each, slide, program) for each in victim.imitations}
        done = audited(victim.vmlinux, victim.dump, tool)
        check(done.findings, hidden)
        assert done.notes == []
        if name != "native 6.12":  # over a serial port that takes minutes
            for _ in range(3):  # what leads nowhere in a capture was changed meanwhile
                done = audited(victim.vmlinux, victim.capture, tool)
                if len(done.notes) <= 1:
                    break
            # On a running machine, programs come and go.
            assert [PROGRAM for note in done.notes if f"which bpftool shows, lacks it ({PROGRAM})" in note] == [PROGRAM]
            assert len(done.notes) == 1
            but = {each._replace(finds=()) if each.name == "program" else each: hidden[each] for each in hidden}
            check(done.findings, but)


def check(findings: list[dict[str, Any]], hidden: dict[Imitation, range]) -> None:
    """Each technique is found, and nothing else."""
    wanted = {place for imitation in hidden for place in imitation.finds}
    assert wanted <= {(one["code"], one["symbol"]) for one in findings}
    for imitation, text in hidden.items():
        if imitation.hide == 7:
            assert {one["code"] for one in findings if overlap(extent(one), text)} >= HIDING, imitation.name
        elif imitation.hide:
            messages = [one["message"] for one in findings if one["code"] == "PL510"]
            assert any(f"module imitator_{imitation.name} " in message for message in messages), imitation.name
    others = [one for one in findings if (one["code"], one["symbol"]) not in wanted and LITERAL not in one["message"]]
    assert [one for one in others if not any(overlap(extent(one), text) for text in hidden.values())] == []
    assert {one["code"] for one in others} <= HIDING


def extent(finding: dict[str, Any]) -> range:
    """The memory that a finding is about: neighbouring modules may have one."""
    start, message = int(finding["vaddr"], 16), finding["message"]
    if pages := re.match(r"([\d,]+) bytes at", message):
        return range(start, start + int(pages[1].replace(",", "")))
    if records := re.search(r"from (0x\w+) to (0x\w+)", message):
        return range(int(records[1], 16), int(records[2], 16) + 4)
    return range(start, start + 1)


def overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def on_kprobe(victim: Victim) -> int:
    """Attach a BPF program to a kprobe of perf; its id, once a listing of what is attached has it with its place."""
    types = victim.run("cat /sys/bus/event_source/devices/kprobe/type").strip()
    start = f"{victim.directory or '/'}/fentry {types}:{PROGRAM} >/tmp/attached </dev/null 2>&1 & sleep 3"
    assert victim.run(f"{start}; cat /tmp/attached").strip() == "+"
    out = victim.dump().with_name("hooks.json")
    main(["live", "hooks", str(victim.vmlinux), str(victim.dump()), "--json", "-o", str(out), "-q"])
    (listener,) = (one for one in json.loads(out.read_text())["listeners"] if one["kind"] == "BPF program"
                   and one["details"].get("attached") == "kprobe")  # fmt: skip
    assert listener["functions"] == [PROGRAM]
    assert {call["owner"] for call in listener["calls"]} == {"BPF"}
    return int(listener["details"]["id"])
