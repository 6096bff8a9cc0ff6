"""Damage of one word has one root cause, whatever else it makes the rules find; two damaged words have two."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from prologue.cli.main import main
from prologue.insn import a64
from prologue.rules.base import FINISH
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit
from tests.support.tool import Tool, as_format

BL, STP = 0x94000010, 0xA9BF7BFD
PADDED = Spec(bti=True, form="relr", compiler="clang")
SPECS = (Spec(zeros=True), Spec(), PADDED, Spec(layout="4,2"), Spec(layout="4,2", bti=True, form="static"))


class Site:
    """The site of work_leaf, before processing."""

    def __init__(self, path: Path, layout: str) -> None:
        self.elf = ElfEdit(path)
        self.slot = self.elf.slot_of("work_leaf")
        self.first = self.elf.first_slot(self.slot, call_ops=layout == "4,2")
        self.entry = self.elf.value("work_leaf")

    def word(self, distance: int, word: int) -> Callable[[ElfEdit], None]:
        return lambda elf: elf.set_word(self.first + distance, word)

    def record(self, distance: int) -> Callable[[ElfEdit], None]:
        return lambda elf: elf.set_record(self.slot, (elf.record(self.slot) + distance) % (1 << 64))

    def marker(self, offset: int, change: int) -> Callable[[ElfEdit], None]:
        at = self.elf.value("__ftrace_prologue_marker") + offset
        return lambda elf: elf.set_quad(at, elf.quad(at) ^ change)


DAMAGE: dict[str, tuple[str, Callable[[Site], Callable[[ElfEdit], None]]]] = {
    "BL in the second slot": ("PL201", lambda site: site.word(4, BL)),
    "MOV in the second slot": ("PL201", lambda site: site.word(4, a64.MOV_X9_X30)),
    "STP in the first slot": ("PL201", lambda site: site.word(0, STP)),
    "PACIASP in the first slot": ("PL201", lambda site: site.word(0, a64.PACIASP)),
    "record outside of text": ("PL105", lambda site: site.record(1 << 40)),
    "record in the middle of an instruction": ("PL105", lambda site: site.record(2)),
    "record in the body": ("PL110 PL201 PL106 PL204", lambda site: site.record(256)),
    "marker's count": ("PL402", lambda site: site.marker(16, 64)),
    "marker's unknown flag": ("PL402", lambda site: site.marker(8, 1 << 35)),
}


def damaged(path: Path, *changes: Callable[[ElfEdit], None]) -> Path:
    with edit(path) as elf:
        for change in changes:
            change(elf)
    return path


def verified(path: Path, tool: Tool, *more: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = tool("verify", path, "--json", *more, status=1).json["findings"]
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("is_processed", [False, True], ids=["untouched", "processed"])
@pytest.mark.parametrize("what", DAMAGE)
def test_one_damaged_place_is_one_root(mini: Mini, spec: Spec, is_processed: bool, what: str, tool: Tool) -> None:
    codes, make = DAMAGE[what]
    path = mini(spec)
    change = make(Site(path, spec.layout))
    if is_processed:
        process(path)
    findings = verified(damaged(path, change), tool, "--release")
    roots = [f for f in findings if not f["follows_from"] and f["code"] != "GATE"]
    assert [f["code"] for f in roots] == [roots[0]["code"]]
    assert str(roots[0]["code"]) in codes.split()
    assert findings[0] == roots[0]
    assert all(f["follows_from"] == [roots[0]["code"]] for f in findings if f not in roots and f["code"] != "GATE")
    assert "again: it finishes" not in str(roots[0]["fix"])
    before = path.read_bytes()
    said = tool("patch", path, "--in-place", status=2).err
    assert str(roots[0]["code"]) in said
    assert "command again" not in said
    assert path.read_bytes() == before


@pytest.mark.thorough
@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("is_processed", [False, True], ids=["untouched", "processed"])
@pytest.mark.parametrize("distance", [-8, -4, 4, 8])
def test_a_record_that_was_moved_onto_words_that_look_like_slots(
    mini: Mini, spec: Spec, is_processed: bool, distance: int, tool: Tool
) -> None:
    """Alignment NOPs before a function, or a literal: another layout explains it, and so does a changed record."""
    path = mini(spec)
    site = Site(path, spec.layout)
    if is_processed:
        process(path)
    elf = ElfEdit(path)
    words = [elf.word(site.entry - 4 * k) for k in (1, 2)]
    findings = verified(damaged(path, site.record(distance)), tool)
    roots = [f for f in findings if not f["follows_from"]]
    assert len(roots) == 1
    if roots[0]["code"] == "PL208":
        assert a64.NOP in words or spec.bti
        assert "or the record at" in str(roots[0]["message"])
        assert "if it was, find what changed the record" in str(roots[0]["fix"])
    before = path.read_bytes()
    assert main(["patch", str(path), "--in-place"]) == 2
    assert path.read_bytes() == before


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_two_damaged_places_are_two_roots(mini: Mini, spec: Spec, tool: Tool) -> None:
    """Neither a second site, nor a marker that is wrong by itself, is hidden by what the first one explains."""
    path = mini(spec)
    site = Site(path, spec.layout)
    other = site.elf.first_slot(site.elf.slot_of("work_empty"), call_ops=spec.layout == "4,2")
    process(path)
    damaged(path, site.word(4, BL), lambda elf: elf.set_word(other, STP))
    findings = verified(path, tool)
    assert [(f["code"], f["symbol"]) for f in findings if not f["follows_from"]] in (
        [("PL201", "work_empty"), ("PL201", "work_leaf")],
        [("PL201", "work_leaf"), ("PL201", "work_empty")],
    )
    assert [f["code"] for f in findings if f["follows_from"]] == ["PL402"]
    findings = verified(damaged(path, site.marker(16, 64)), tool)
    assert [f["code"] for f in findings if not f["follows_from"]] == ["PL201", "PL201", "PL402"]


@pytest.mark.thorough
def test_every_format_has_the_root_first(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    path = mini(Spec())
    change = Site(path, "2").word(4, BL)
    damaged(process(path), change)
    text = tool("verify", path, "--release", status=1).out.splitlines()
    assert ": PL201 site-not-pair (fatal): 1" in text[0]
    assert text[2].startswith("  also: PL402 marker-disagrees, GATE release-gate follow from it")
    assert text[3:-1] == ["  to do: find what wrote there after the compiler; link again"]
    assert "1 file: 1 fatal, 2 more that follow from it (" in text[-1]
    said = tool("scan", path).out
    assert "PL402 marker-disagrees (fatal): 1, follows from PL201" in said
    for kind in ("sarif", "junit"):
        assert main(["verify", str(path), *as_format(kind), "-o", str(tmp_path / kind)]) == 1
        assert "follows from PL201" in (tmp_path / kind).read_text()
        assert "find what changed the marker" not in (tmp_path / kind).read_text().split('"results"')[-1]
    results = json.loads((tmp_path / "sarif").read_text())["runs"][0]["results"]
    assert [result["properties"]["followsFrom"] for result in results] == [[], ["PL201"]]
    every = ET.parse(tmp_path / "junit").iter("testcase")  # noqa: S314 - ours
    failures = [case.get("name") for case in every if case.find("failure") is not None]
    assert failures == ["PL201 site-not-pair", "PL402 marker-disagrees"]


def test_what_a_baseline_knows_explains_nothing_new(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    path, known = mini(Spec()), tmp_path / "known.toml"
    change = Site(path, "2").word(4, BL)
    damaged(process(path), change)
    known.write_text('[[known]]\nrule = "PL201"\nreason = "r"\nowner = "o"\n')
    assert "PL402 marker-disagrees (fatal): 1" in tool("verify", path, "--baseline", known, status=1).out


def test_a_record_that_was_changed_does_not_follow_from_a_mov(mini: Mini, tool: Tool) -> None:
    """One MOV looks like an interrupted run; to finish that would write over the other damage."""
    spec = Spec(layout="4,2", bti=True)
    vmlinux = mini(spec)
    site = Site(vmlinux, spec.layout)
    other = site.elf.first_slot(site.elf.slot_of("work_middle"), call_ops=True)
    damaged(vmlinux, site.record(4), lambda elf: elf.set_word(other, a64.MOV_X9_X30))
    roots = {str(f["code"]) for f in verified(vmlinux, tool) if not f["follows_from"]}
    assert roots == {"PL202", "PL208"}


def test_an_interrupted_run_is_still_told_to_run_again(mini: Mini, tool: Tool) -> None:
    path = mini(Spec())
    marker = Site(path, "2").marker(8, 1 << 32)
    damaged(process(path), marker)
    findings = verified(path, tool)
    assert [(f["code"], f["fix"]) for f in findings if not f["follows_from"]] == [("PL202", FINISH)]
    assert main(["patch", str(path), "--in-place"]) == 0
    assert main(["verify", str(path), "--release"]) == 0


@pytest.mark.parametrize("word", [BL, STP])
def test_a_module_has_one_root(mini: Mini, word: int, tool: Tool) -> None:
    path = mini(ModuleSpec())
    assert main(["patch", str(path), "--in-place", "--contract", "native"]) == 0
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<II", a64.MOV_X9_X30, a64.NOP))
    struct.pack_into("<I", data, at + 4, word)
    path.write_bytes(data)
    findings = verified(path, tool)
    assert [f["code"] for f in findings if not f["follows_from"]] == ["PL201"]
    assert "command again" not in tool("patch", path, "--in-place", "--contract", "native", status=2).err


@pytest.mark.parametrize("distance", [8, 64, 1 << 40])
def test_the_leftover_of_a_weak_function_is_no_strayed_record(mini: Mini, distance: int, tool: Tool) -> None:
    """In a table that is not sorted, its neighbours may be of other sections, and all text between the two."""
    path = mini(Spec(weak=True))
    with edit(path) as elf:
        slots = elf.live_slots()
        starts = {symbol["st_value"] for symbol in elf.symbols.values()}
        values = sorted(elf.record(slot) for slot in slots)
        (leftover,) = (value for value in values if value not in starts)
        values.remove(leftover)
        order = [values[0], leftover, values[-1], *values[1:-1]]
        for slot, value in zip(slots, order, strict=True):
            elf.set_record(slot, value)
    assert main(["verify", str(path)]) == 0
    changed = slots[order.index(elf.value("work_leaf"))]
    elf.set_record(changed, elf.record(changed) + distance)
    elf.save(path)
    findings = verified(path, tool)
    roots = [f for f in findings if not f["follows_from"] and f["code"] != "PL109"]
    assert len(roots) == 1
    assert f"the record at __start_mcount_loc+{changed - slots[0]:#x} " in str(roots[0]["message"])
    assert {"PL206"} <= {f["code"] for f in findings if f["follows_from"]}


def test_what_is_only_told_does_not_keep_a_file_from_being_finished(tmp_path: Path, tool: Tool) -> None:
    """A zero record, of a release of which it is not known whether it skips it."""
    ko, function = (
        tmp_path / "half.ko",
        '.section .text.{0},"ax"\n.type {0},%function\n{0}: {1}\nnop\nret\n.size {0},.-{0}\n',
    )
    source = (
        '.section .modinfo,"a"\n.asciz "vermagic=6.8.0 SMP aarch64"\n.section .text.ftrace_trampoline,"ax"\n.byte 0\n'
    )
    source += function.format("done", "mov x9, x30") + function.format("left", "nop")
    source += '.section __patchable_function_entries,"aw"\n.xword done, left, 0\n'
    subprocess.run(["aarch64-linux-gnu-as", "-o", ko], input=source, text=True, check=True)
    findings = {finding["code"]: finding for finding in tool("verify", ko, "--json", status=1).json["findings"]}
    assert {code: finding["severity"] for code, finding in findings.items()} == {"PL108": "info", "PL202": "fatal"}
    assert findings["PL202"]["fix"] == FINISH
    assert main(["patch", str(ko), "--in-place", "--contract", "native"]) == 0
