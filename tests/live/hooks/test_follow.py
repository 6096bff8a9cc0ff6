"""A capture of a small kernel whose lists lie on the heap: what it says of hooks is what the live memory says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from prologue.live.hooks.follow import follow_hooks
from prologue.live.memory import kcore
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import UnmappedError
from prologue.live.memory.sources import open_memory
from tests.live.hooks.hooked import saved
from tests.support.cores import NO_PADDR, core, vmcoreinfo
from tests.support.elf_edit import ElfEdit
from tests.support.planted import ChangedMemory
from tests.support.tool import Tool

_PAGE: Final = 4096
_TEXT: Final = 0xFFFF_8000_0800_1000
_SAYS: Final = """cat <<'END'
==== release
6.1.0-mini
==== boot_id
dac90a52
==== kptr_restrict
0
==== modules
good 4096 0 - Live {module:#x}
==== symbols
{text:x} T _stext
{etext:x} T _etext
==== sections
==== kprobes
==== end
END
"""


@pytest.fixture(params=[(), ("module_text", "orphan_text")])
def live(request: pytest.FixtureRequest, vmlinux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/proc/kcore of it: all that is not read-only lies where the heap is.

    Of the pages, one may be nobody's; then a BPF program that is not listed is on an event, too.
    """
    elf, path = ElfEdit(vmlinux), tmp_path / "kcore"
    attached = {"event+8": elf.value("attached"), "hook": elf.value("orphan_text")}
    changes = {"record_of_read+8": 0, **attached} if request.param else {}
    memory = open_memory(str(saved(vmlinux, changes, request.param or ("module_text",))))
    heap, end = elf.value("modules"), elf.value("_end")
    lists = memory.read(heap, end - heap) + bytes(-end % _PAGE)
    segments = [(_TEXT, 0x40200000, memory.read(_TEXT, heap - _TEXT)), (heap, NO_PADDR, lists)]
    path.write_bytes(core(segments, [vmcoreinfo(0)]))
    monkeypatch.setattr(kcore, "KCORE", str(path))
    monkeypatch.setattr(
        kcore, "SCRIPT", _SAYS.format(text=_TEXT, etext=elf.value("_etext"), module=elf.value("module_text"))
    )
    monkeypatch.setattr("prologue.live.memory.sources.KCORE", str(path))
    return path


def said(tool: Tool, *command: object) -> dict[str, Any]:
    printed = tool(*command, "--json", status=None)
    assert printed.status in (0, 1, 5)
    data: dict[str, Any] = printed.json
    return data


@pytest.mark.thorough
def test_a_capture_says_of_hooks_what_the_live_memory_says(
    vmlinux: Path, live: Path, tmp_path: Path, tool: Tool
) -> None:
    out = tmp_path / "capture"
    assert said(tool, "live", "capture", live, "--vmlinux", vmlinux, "-o", out)["hooks"] is True
    hooks = [said(tool, "live", "hooks", vmlinux, source) for source in (live, out)]
    assert [report.pop("source") for report in hooks] == [str(live), str(out)]
    wrong = [{(each["code"], each["symbol"]) for each in report.pop("findings")} for report in hooks]
    assert (hooks[0], wrong[0]) == (hooks[1], wrong[1])  # of a capture they are warnings
    called = {call["symbol"] for listener in hooks[0]["listeners"] for call in listener["calls"]}
    audits = [said(tool, "live", "audit", vmlinux, source) for source in (live, out)]
    found = [{(each["code"], each["symbol"]) for each in audit["findings"]} for audit in audits]
    unlooked = [{note for note in audit["not_looked_at"] if "attached" in note} for audit in audits]
    assert (found[0], unlooked[0]) == (found[1], unlooked[1])
    # Programs come and go while the lists are read.
    assert any("lacks it (vfs_write+0x8)" in note for note in unlooked[1]) is ("orphan_text" in called)
    assert ("PL509", "vfs_write") not in found[1]
    assert ("PL509", "vfs_read") in found[1] if "orphan_text" in called else not found[1]


def test_of_the_heap_a_capture_has_what_was_followed(vmlinux: Path, live: Path, tmp_path: Path, tool: Tool) -> None:
    out, elf = tmp_path / "capture", ElfEdit(vmlinux)
    said(tool, "live", "capture", live, "--vmlinux", vmlinux, "-o", out)
    memory = open_memory(str(out))
    for name in ("orphan_text", "unused_graph", "unused_xa_node"):
        with pytest.raises(UnmappedError):
            memory.read(elf.value(name), 1)


def test_without_a_vmlinux_the_lists_are_missing(vmlinux: Path, live: Path, tmp_path: Path, tool: Tool) -> None:
    assert "missing: lists of what is attached" in tool("live", "capture", live, "-o", tmp_path / "capture").out


@pytest.mark.parametrize("live", [("module_text", "orphan_text")], indirect=True)
def test_a_capture_of_what_was_being_changed_accuses_nobody(
    vmlinux: Path, live: Path, tmp_path: Path, tool: Tool
) -> None:
    out = tmp_path / "capture"
    said(tool, "live", "capture", live, "--vmlinux", vmlinux, "-o", out)
    content = out.read_bytes()
    assert content.count(b'"settled":true') == 1
    out.write_bytes(content.replace(b'"settled":true', b'"settled":null'))
    audit = said(tool, "live", "audit", vmlinux, out)
    assert not {"PL509", "PL510", "PL511", "PL514"} & {each["code"] for each in audit["findings"]}
    (note,) = (note for note in audit["not_looked_at"] if note.startswith("PL509"))
    assert note.startswith("PL509 is not decided (text or lists were being changed while it was captured): ftrace_ops ")
    assert audit["undecided"]["hooks"] > 0


class Moving(ChangedMemory):
    """Memory in which a list leads nowhere in the first looks."""

    def __init__(self, memory: Memory, place: int, looks: int) -> None:
        super().__init__(memory, {place: 0x1234_5678})
        self._plain, self._place, self._left = memory, place, 3 * looks  # a look reads it three times

    def read(self, vaddr: int, size: int) -> bytes:
        if not vaddr <= self._place < vaddr + size:
            return self._plain.read(vaddr, size)
        self._left -= 1
        return super().read(vaddr, size) if self._left >= 0 else self._plain.read(vaddr, size)


@pytest.mark.parametrize(("looks", "is_whole"), [(0, True), (3, True), (4, False)])
def test_lists_that_lead_nowhere_are_followed_again(vmlinux: Path, tmp_path: Path, looks: int, is_whole: bool) -> None:
    elf = ElfEdit(vmlinux)
    memory = open_memory(str(saved(vmlinux)))
    head = elf.value("vmap_area_list")
    pieces = follow_hooks(vmlinux, memory)(Moving(memory, head, looks))
    (first,) = (data[head - start :][:8] for start, data in pieces if start <= head < start + len(data))
    # A look that leads nowhere has what it read, and the audit of such a capture says so.
    assert (int.from_bytes(first, "little") == elf.value("orphan_area") + 40) is is_whole
