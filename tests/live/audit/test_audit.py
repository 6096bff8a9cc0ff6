"""``live audit``: what it says of the mini kernel as if it ran, in every format, and of memory that is none of its."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from prologue.cli.main import main
from prologue.live.memory.sources import open_memory
from prologue.live.pages.audit import audit_page
from prologue.live.report.audit import render_audit
from prologue.live.system.running_system import RunningSystem
from prologue.report.html.page import render_page
from tests.live.audit.made_kernel import captured
from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, as_running
from tests.support.built import Mini
from tests.support.cores import SLIDE, core, image_of, running, vmcoreinfo
from tests.support.elf_edit import MOV, NOP, ElfEdit
from tests.support.planted import audit_text
from tests.support.tool import Printed, Tool

BRK, BRK_0 = 0xD4200080, 0xD4200000


def run(tool: Tool, vmlinux: Path, changes: dict[int, int], *options: str, status: int | None = 0) -> Printed:
    return tool(*AUDIT, *as_running(vmlinux, changes), *options, status=status)


def test_a_clean_kernel(vmlinux: Path, tool: Tool) -> None:
    said = run(tool, vmlinux, {}).out.splitlines()
    assert said[0].split() == ["mechanism", "words", "that", "could", "change", "changed", "wrong", "not", "decided"]
    assert any(line.split() == ["first", "slots", "15", "0", "0", "0"] for line in said)
    assert said[-1].startswith(f"{vmlinux.with_name('core')}: nothing wrong found, 15 words not decided (6.1.0-mini, ")


def test_an_unprocessed_kernel_that_booted(mini: Mini, tool: Tool) -> None:
    """Its boot wrote every MOV: differences that are explained."""
    path = mini(Spec(form="relr"))
    elf = ElfEdit(path)
    changes = {elf.first_slot(slot, call_ops=False): MOV for slot in elf.live_slots()}
    data = run(tool, path, changes, "--json").json
    (first,) = [row for row in data["files"][0]["mechanisms"] if row["mechanism"] == "first slots"]
    assert (first["words"], first["changed"], first["wrong"]) == (15, 15, 0)


def test_findings_say_what_is_where(vmlinux: Path, tool: Tool) -> None:
    elf = ElfEdit(vmlinux)
    leaf = elf.value("work_leaf")
    changes = {leaf: NOP, leaf + 8: BRK_0, leaf + 12: BRK_0, elf.value("label_user"): 0x14000004}
    data = run(tool, vmlinux, changes, "--json", status=1).json
    found = {(f["code"], f["symbol"], f["symbol_offset"]): f for f in data["findings"]}
    assert set(found) == {("PL501", "work_leaf", 0), ("PL503", "work_leaf", 8), ("PL309", "label_user", 0)}
    message = found["PL503", "work_leaf", 8]["message"]
    assert "holds `brk #0`, linked `" in message
    assert "(2 words from here on): a breakpoint that is in no table; no mechanism owns it; " in message
    assert found["PL501", "work_leaf", 0]["found"] == [hex(NOP)]
    assert found["PL501", "work_leaf", 0]["expected"] == [hex(MOV)]
    assert data["schema"] == "prologue.live-audit/1"
    assert not data["passed"]


def test_the_text_names_where_a_call_goes(vmlinux: Path, tool: Tool) -> None:
    elf = ElfEdit(vmlinux)
    second, target = elf.value("work_leaf") + 4, elf.value("work_add") + 8
    said = run(tool, vmlinux, {second: 0x94000000 | (target - second) // 4 & 0x3FFFFFF}, status=1).out
    assert "PL502 live-call-target-unknown (error): 1" in said
    assert f"holds `bl #{target:#x}` (work_add+0x8), linked `nop`; expected " in said
    assert ": 1 error, 14 words not decided (" in said.splitlines()[-1]


def test_quiet(vmlinux: Path, tool: Tool) -> None:
    assert run(tool, vmlinux, {}, "-q").out == ""
    changes = {ElfEdit(vmlinux).value("work_leaf"): NOP}
    everything = run(tool, vmlinux, changes, status=1).out.splitlines()
    brief = run(tool, vmlinux, changes, "-q", status=1).out.splitlines()
    assert "PL501" in brief[0]
    assert brief[-1] == everything[-1]
    assert set(brief) < set(everything)
    assert not [line for line in brief if line.startswith(("mechanism", "not looked at", "struct offsets"))]


def test_a_capture_names_its_kprobes(vmlinux: Path, tool: Tool) -> None:
    """One that is in the list is right, covers a first slot, and cannot be compared with its original."""
    leaf = ElfEdit(vmlinux).value("work_leaf")
    listed = f"{leaf:016x}  k  work_leaf+0x0    "
    other = listed.replace(f"{leaf:016x}", f"{leaf + 64:016x}")
    for lines, status in (((listed,), 0), ((other,), 1), ((f"{listed}[DISABLED]",), 1)):
        said = tool(*AUDIT, vmlinux, captured(vmlinux, {leaf: BRK}, kprobes=lines), status=status).out
        assert ("breakpoints" in said) == (status == 0)
        assert ("PL501" in said) == (status == 1)


def test_a_source_that_does_not_know_its_kprobes(vmlinux: Path, tool: Tool) -> None:
    """Their BRKs cannot be decided, which is said once for each; others are no kprobes' in any case."""
    leaf = ElfEdit(vmlinux).value("work_leaf")
    source = captured(vmlinux, {leaf: BRK, leaf + 8: BRK})
    said = tool(*AUDIT, vmlinux, source).out
    rows = {line.rsplit(maxsplit=4)[0]: line.split()[-4:] for line in said.splitlines() if line[-1].isdigit()}
    assert rows["first slots"] == ["15", "0", "0", "1"]
    assert rows["breakpoints"] == ["2", "2", "0", "1"]
    assert ": nothing wrong found, 17 words not decided (" in said.splitlines()[-1]
    assert "not looked at: kprobes: not listed by this source" in said
    assert main([*AUDIT, str(vmlinux), str(captured(vmlinux, {leaf: BRK_0}))]) == 1


def test_rules_that_are_not_to_run(vmlinux: Path, tool: Tool) -> None:
    """Wrong words of two rules, of which one does not run: its findings are not there, and every format says so."""
    elf = ElfEdit(vmlinux)
    changes = {elf.value("work_leaf") + 12: BRK_0, elf.value("work_leaf") + 4: 0x94000010}
    for options, codes, lacking in (
        (("--ignore", "PL503"), {"PL502"}, "PL503"),
        (("--ignore", "live-text-unexplained"), {"PL502"}, "PL503"),
        (("--select", "PL503,PL504"), {"PL503"}, "PL502"),
    ):
        data = run(tool, vmlinux, changes, *options, "--json", status=1).json
        assert {finding["code"] for finding in data["findings"]} == codes
        (note,) = [note for note in data["not_looked_at"] if note.startswith(f"what {lacking} finds: the rule was ")]
        assert note.endswith("by the command line")
        assert lacking in data["summary"].partition("without ")[2]
    suite = ET.fromstring(run(tool, vmlinux, {}, "--ignore", "PL503", "--format", "junit").out)[0]  # noqa: S314 - our own output
    assert "not run: PL503: ignored by the command line" in (suite.findtext("system-out") or "")
    assert not [case for case in suite.iter("testcase") if case.get("name", "").startswith("PL503")]
    printed = run(tool, vmlinux, {}, "--ignore", "PL503", "--format", "sarif")
    assert "PL503" in json.dumps(printed.json["runs"][0]["invocations"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--select", "PL1"), "no rule is left that judges running text: PL"),
        (("--ignore", "PL5,PL3"), "no rule is left that judges running text: PL"),
        (("--ignore", "PL777"), "no rule 'PL777'"),
    ],
)
def test_rules_of_which_none_is_left(vmlinux: Path, options: tuple[str, ...], message: str, tool: Tool) -> None:
    assert message in run(tool, vmlinux, {}, *options, status=2).err


def refused(vmlinux: Path, source: Path, tool: Tool) -> str:
    said = tool(*AUDIT, vmlinux, source, status=2)
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_what_cannot_be_audited(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    good = running(vmlinux, {})
    source = tmp_path / "source"
    source.write_bytes(good[: len(good) // 2])
    assert "truncated" in refused(vmlinux, source, tool)
    source.write_bytes(core([(0xFFFFFFFF81000000, 0, bytes(4096))], [vmcoreinfo()], machine=62))
    assert "arm64" in refused(vmlinux, source, tool)
    source.write_bytes(core([(0xFFFF000000000000, (1 << 64) - 1, bytes(4096))], [vmcoreinfo()]))
    assert "there is no memory" in refused(vmlinux, source, tool)
    source.write_bytes(good)
    stripped = tmp_path / "stripped"
    elf = ElfEdit(vmlinux)
    header = elf.elf["e_shoff"] + 64 * elf.elf.get_section_index(".symtab")
    elf.data[header + 4 : header + 8] = b"\1\0\0\0"  # SHT_PROGBITS
    elf.save(stripped)
    assert "no symbol table" in refused(stripped, source, tool)
    assert "no such" in refused(vmlinux, tmp_path / "nothing", tool).lower()


def test_the_report_of_another_kernel(vmlinux: Path, tool: Tool) -> None:
    start, image = image_of(vmlinux)
    source, out = vmlinux.with_name("core"), vmlinux.with_name("report")
    source.write_bytes(core([(start + SLIDE, (1 << 64) - 1, bytes(image))], [vmcoreinfo(SLIDE - 0x1000)]))
    assert "(PL505)" in refused(vmlinux, source, tool)
    assert main([*AUDIT, str(vmlinux), str(source), "-o", str(out), "--json"]) == 2
    data = json.loads(out.read_text())
    assert [finding["code"] for finding in data["findings"]] == ["PL505"]
    assert data["slide"] is None
    assert main([*AUDIT, str(vmlinux), str(source), "-o", str(out), "--format", "html"]) == 2
    assert "what PL501 finds: the rule was not run: memory is of another kernel" in out.read_text()
    assert "All text in memory was looked at." not in out.read_text()
    printed = tool(*AUDIT, vmlinux, source, "--format", "junit", status=2)
    cases = ET.fromstring(printed.out).iter("testcase")  # noqa: S314 - our own output
    (case,) = [case for case in cases if case.get("name") != "verified"]
    assert str(case.get("name")).startswith("PL505 ")
    assert case.find("failure") is not None
    assert "not run: PL501: not run: memory is of another kernel" in printed.out


def test_a_page_has_the_notes_of_the_earlier_memory(vmlinux: Path) -> None:
    done = audit_text(RunningSystem(vmlinux, open_memory(str(captured(vmlinux)))))
    (file,) = done.files
    earlier = replace(done, source="earlier", files=(replace(file, audited=replace(file.audited, notes=("a note",))),))
    page = render_page(audit_page(replace(done, before=earlier), ["prologue"], lacking_allowed=True))
    assert "earlier: a note" in page
    assert "earlier: a note" in render_audit(replace(done, before=earlier), "text", show_all=False)


def test_inputs_are_not_overwritten(vmlinux: Path) -> None:
    before = vmlinux.read_bytes()
    source = captured(vmlinux)
    for victim in (vmlinux, source):
        assert main([*AUDIT, str(vmlinux), str(source), "-o", str(victim)]) == 2
    assert vmlinux.read_bytes() == before
