"""One reader of running text: audits, overlays and traces say the same of pages that are missing or hold zeros."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from prologue.errors import UNDECIDED
from prologue.live.memory.sources import open_memory
from prologue.live.system.running_text import SectionPlace, read_sections
from tests.rules.fixture import AUDIT
from tests.support.cores import NO_PADDR, SLIDE, core, image_of, vmcoreinfo
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_tools
from tests.support.tool import Printed, Tool
from tests.trace.made import perf_text

PAGE = 0x1000
AT = 0xFFFF800008001000


class Text:
    """Where .text is, and its second page: at the end, so that the section has a part of it."""

    def __init__(self, vmlinux: Path) -> None:
        section = ElfEdit(vmlinux).elf.get_section_by_name(".text")
        self.start = int(section["sh_addr"])
        self.end = self.start + (int(section["sh_size"]) & ~3)
        self.page = self.start + PAGE
        self.words = (self.end - self.page) // 4


def zeros(vmlinux: Path, source: Path) -> int:
    """A page that can be read and holds zeros; words of .text in it."""
    start, image = image_of(vmlinux)
    text = Text(vmlinux)
    image[text.page - start : text.page - start + PAGE] = bytes(PAGE)
    source.write_bytes(core([(start + SLIDE, NO_PADDR, bytes(image))], [vmcoreinfo()]))
    return text.words


def missing(vmlinux: Path, source: Path, begin: int = 0) -> int:
    """A page of which memory has the first bytes only; words of .text that it lacks."""
    start, image = image_of(vmlinux)
    text = Text(vmlinux)
    at = text.page - start
    pieces = [(start + SLIDE, bytes(image[: at + begin])), (text.page + PAGE + SLIDE, bytes(image[at + PAGE :]))]
    source.write_bytes(core([(vaddr, NO_PADDR, data) for vaddr, data in pieces], [vmcoreinfo()]))
    return text.words - begin // 4


def half(vmlinux: Path, source: Path) -> int:
    """A page that is there in part, as at the end of a range that perf copied."""
    return missing(vmlinux, source, 64)


def test_an_audit_finds_a_page_of_zeros_once(vmlinux: Path, tool: Tool) -> None:
    """Whichever mechanisms own its words: they were wiped together, or were not read."""
    source = vmlinux.with_name("core")
    words = zeros(vmlinux, source)
    data = tool("live", "audit", vmlinux, source, "--json", status=1).json
    (finding,) = data["findings"]
    assert finding["code"] == "PL503"
    assert finding["vaddr"] == hex(Text(vmlinux).page)
    assert "holds zeros, linked `" in finding["message"]
    assert f"({words:,} words from here on): whole pages were wiped, or could not be read" in finding["message"]


@pytest.mark.parametrize("first", [True, False])
def test_pages_of_zeros_are_no_transitions(vmlinux: Path, first: bool, tool: Tool) -> None:
    """Of two memories one has them: that is a finding, and not a thousand changes of instructions."""
    source, (whole,) = vmlinux.with_name("core"), running_core(vmlinux)
    zeros(vmlinux, source)
    sources = (source, whole) if first else (whole, source)
    data = tool(*AUDIT, vmlinux, *sources, "--json", status=1).json
    assert [(one["code"], one["memory"]) for one in data["findings"]] == [("PL503", str(source))]
    assert data["transitions"] == []


@pytest.mark.parametrize("how", [missing, half])
def test_an_audit_does_not_pass_what_memory_lacks(vmlinux: Path, how: Callable[[Path, Path], int], tool: Tool) -> None:
    """Nor does it accuse. Only init text may be missing, which the kernel gives away."""
    source = vmlinux.with_name("core")
    words = how(vmlinux, source)
    data = tool("live", "audit", vmlinux, source, "--json", status=UNDECIDED).json
    whole = tool("live", "audit", vmlinux, *running_core(vmlinux), "--json", status=None).json["undecided"]["lacking"]
    assert data["findings"] == []
    assert f".text: {words:,} words that memory does not have" in data["not_looked_at"]
    assert data["undecided"]["lacking"] >= words
    assert data["undecided"]["lacking"] <= words + whole
    said = tool(*AUDIT, vmlinux, source).out
    assert f"not decided: text that the kernel keeps and memory does not have: {words:,}; a part of memory" in said


def running_core(vmlinux: Path) -> tuple[Path]:
    start, image = image_of(vmlinux)
    source = vmlinux.with_name("whole")
    source.write_bytes(core([(start + SLIDE, NO_PADDR, bytes(image))], [vmcoreinfo()]))
    return (source,)


def overlaid(vmlinux: Path, source: Path, tool: Tool) -> tuple[dict[str, Any], str, bytes]:
    """JSON of .text, what standard error has, and the page of the copy."""
    out = vmlinux.with_name("out")
    said = tool("live", "overlay", vmlinux, source, "-o", out, "--json")
    (text,) = (one for one in json.loads(said.out)["sections"] if one["name"] == ".text")
    at = ElfEdit(vmlinux).offset(Text(vmlinux).page)
    return text, said.err, out.read_bytes()[at : at + 4 * Text(vmlinux).words]


def test_an_overlay_has_the_zeros(vmlinux: Path, tool: Tool) -> None:
    source = vmlinux.with_name("core")
    words = zeros(vmlinux, source)
    text, said, page = overlaid(vmlinux, source, tool)
    assert (text["zeros"], text["kept"], text["missing"]) == (words, 0, 0)
    assert page == bytes(4 * words)
    assert said.startswith(f"warning: {source}: has pages of zeros for {words:,} words of .text: wiped, or not read")
    assert said.count("\n") == 1


@pytest.mark.parametrize("how", [missing, half])
def test_an_overlay_says_what_is_the_files(vmlinux: Path, how: Callable[[Path, Path], int], tool: Tool) -> None:
    source = vmlinux.with_name("core")
    words = how(vmlinux, source)
    text, said, page = overlaid(vmlinux, source, tool)
    assert (text["zeros"], text["kept"], text["missing"], text["changed"]) == (0, words, words, 0)
    at = ElfEdit(vmlinux).offset(Text(vmlinux).page)
    assert page == vmlinux.read_bytes()[at : at + len(page)]
    assert said.startswith(f"warning: {source}: has no memory for {words:,} words of .text: ")
    assert said.count("\n") == 1


def traced(vmlinux: Path, source: Path, tool: Tool, first: int, status: int | None = None) -> Printed:
    """A trace that runs three words from ``first`` on (a link-time address)."""
    place = first + SLIDE
    trace = vmlinux.with_name("trace")
    trace.write_text(perf_text([(place - 0x40, place), (place + 8, place - 0x40), (place - 0x40, place)]))
    return tool("trace", "check", trace, "--vmlinux", vmlinux, "--memory", source, status=status)


def test_a_trace_does_not_believe_the_file_where_memory_has_zeros(vmlinux: Path, tool: Tool) -> None:
    source = vmlinux.with_name("core")
    words = zeros(vmlinux, source)
    out, err, _ = traced(vmlinux, source, tool, Text(vmlinux).page, status=1)
    assert "udf #0 did not trap" in out
    assert f"{words:,} words of .text in pages of zeros, wiped or not read" in err


@pytest.mark.parametrize("command", ["check", "disasm", "stats"])
def test_traces_name_the_memory_that_had_their_text(vmlinux: Path, command: str, tool: Tool) -> None:
    (source,) = running_core(vmlinux)
    traced(vmlinux, source, tool, Text(vmlinux).page)
    options = ["--format", "jsonl"] if command == "disasm" else ["--json"]
    arguments = [str(vmlinux.with_name("trace")), "--vmlinux", str(vmlinux), "--memory", str(source)]
    said = tool("trace", command, *arguments, *options, status=None).out
    head = json.loads(said.splitlines()[0] if command == "disasm" else said)
    assert head["memory"] == str(source)


@pytest.mark.parametrize("how", [missing, half])
def test_a_trace_says_what_is_the_files(vmlinux: Path, how: Callable[[Path, Path], int], tool: Tool) -> None:
    source = vmlinux.with_name("core")
    words = how(vmlinux, source)
    err = traced(vmlinux, source, tool, Text(vmlinux).page).err
    assert f"{words:,} words of .text that memory does not have: those of the file" in err


def test_a_trace_of_init_text_says_that_memory_has_none(vmlinux: Path, tool: Tool) -> None:
    """It is freed after boot, and nothing is said of it unless it ran."""
    start, image = image_of(vmlinux)
    section = ElfEdit(vmlinux).elf.get_section_by_name(".init.text")
    at, end = section["sh_addr"] - start, section["sh_addr"] - start + section["sh_size"]
    image[at : -(-end // PAGE) * PAGE] = bytes(-(-end // PAGE) * PAGE - at)
    source = vmlinux.with_name("core")
    source.write_bytes(core([(start + SLIDE, NO_PADDR, bytes(image))], [vmcoreinfo()]))
    line = "1 range is in text that memory does not have: shown with the words of the file"
    assert line in traced(vmlinux, source, tool, section["sh_addr"]).err
    assert "memory does not have" not in traced(vmlinux, source, tool, Text(vmlinux).start + 0x40).err


@pytest.mark.parametrize("symbol", ["__init_begin", "__init_end", "_stext"])
def test_init_text_is_freed_whatever_symbols_were_stripped(vmlinux: Path, symbol: str, tool: Tool) -> None:
    needs_tools("aarch64-linux-gnu-objcopy")
    start, image = image_of(vmlinux)
    for name in (".init.text", ".head.text"):
        section = ElfEdit(vmlinux).elf.get_section_by_name(name)
        at, end = section["sh_addr"] - start, -(-(section["sh_addr"] - start + section["sh_size"]) // PAGE) * PAGE
        image[at:end] = bytes(end - at)
    source = vmlinux.with_name("core")
    source.write_bytes(core([(start + SLIDE, NO_PADDR, bytes(image))], [vmcoreinfo()]))
    subprocess.run(["aarch64-linux-gnu-objcopy", "-N", symbol, str(vmlinux)], check=True)
    assert tool(*AUDIT, vmlinux, source, "--json").json["findings"] == []


@pytest.mark.parametrize("there", [True, False])
def test_zeros_of_the_file_are_as_good_as_read(tmp_path: Path, there: bool) -> None:
    """Padding between functions may be a page of zeros."""
    source = tmp_path / "core"
    source.write_bytes(core([(AT, NO_PADDR, b"\1" * PAGE + bytes(PAGE if there else 0))], [vmcoreinfo()]))
    section = cast("Any", SimpleNamespace(addr=AT, size=2 * PAGE))
    linked = np.frombuffer(b"\2" * PAGE + bytes(PAGE), "<u4")
    (one,) = read_sections(open_memory(str(source)), [SectionPlace(section, linked, AT)])
    assert np.flatnonzero(~one.present).tolist() == []
    assert not one.zeros.any()
    assert one.words.tobytes() == b"\1" * PAGE + bytes(PAGE)
