"""PL112 and PL206: pairs without records, be it one of them or a table; and files that never had any."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.load import open_binary
from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import RULES, find_rule
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import AnySpec, Mini
from tests.support.elf_edit import MOV, edit
from tests.support.needs import needs_tools
from tests.support.tool import Tool

RECORDS = "__patchable_function_entries"
FLAGS = ["-O2", "-ffreestanding", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-pie"]
GCC = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld", "aarch64-linux-gnu-objcopy")
SOURCE = """
int outside(int);
__attribute__((noinline)) int alpha(int a) { return a * 3; }
__attribute__((noinline)) int beta(int a) { return alpha(a) + outside(a); }
__attribute__((section(".init.text"))) int init_module(void) { return beta(1) != 0; }
__attribute__((section(".exit.text"))) void cleanup_module(void) { outside(2); }
"""
DISCARD = "SECTIONS { /DISCARD/ : { *(__patchable_function_entries) } .text : { *(.text .text.*) } }"


def codes(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in run_rules(Subject(open_binary(path)), RULES):
        found.setdefault(finding.code, []).append(finding.message)
    found.pop("PL307", None)  # these modules have no .text.ftrace_trampoline
    return found


def compiled(directory: Path, *options: str) -> Path:
    needs_tools(*GCC)
    (directory / "module.c").write_text(SOURCE)
    out = directory / "module.o"
    command = [GCC[0], *FLAGS, *options, "-c", str(directory / "module.c"), "-o", str(out)]
    subprocess.run(command, check=True)
    return out


def without_records(path: Path) -> Path:
    subprocess.run([GCC[2], "-R", RECORDS, "-R", f".rela{RECORDS}", str(path)], check=True)
    return path


def test_pairs_are_left_to_pl112_only_if_that_runs(tmp_path: Path) -> None:
    subject = Subject(open_binary(without_records(compiled(tmp_path, "-fpatchable-function-entry=2"))))
    both = (find_rule("PL112"), find_rule("PL206"))
    assert [finding.code for finding in run_rules(subject, both)] == ["PL112"]
    assert [finding.code for finding in run_rules(subject, both[1:])] == ["PL206"] * 4


@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize("bti", ["none", "bti"])
def test_a_script_that_discards_the_table(tmp_path: Path, layout: str, bti: str) -> None:
    plain = compiled(tmp_path, f"-fpatchable-function-entry={layout}", f"-mbranch-protection={bti}")
    (tmp_path / "discard.lds").write_text(DISCARD)
    out = tmp_path / "module.ko"
    subprocess.run([GCC[1], "-r", "-T", str(tmp_path / "discard.lds"), str(plain), "-o", str(out)], check=True)
    ((message,),) = codes(out).values()
    assert message.startswith(f"4 of 4 functions looked at begin with NOP; NOP, but there is no {RECORDS}")
    assert main(["patch", str(out), "--in-place", "--contract", "native"]) == 2


@pytest.mark.parametrize("spec", [ModuleSpec(), ModuleSpec("4,2", bti=True), ModuleSpec(linked=False)], ids=str)
@pytest.mark.parametrize("processed", [False, True])
def test_a_module_whose_table_was_removed(mini: Mini, spec: AnySpec, *, processed: bool) -> None:
    path = mini(spec)
    if processed:
        main(["patch", str(path), "--in-place", "--contract", "native"])
    without_records(path)
    ((message,),) = codes(path).values()
    assert f"begin with {'MOV X9, X30' if processed else 'NOP'}; NOP, but there is no {RECORDS}" in message


@pytest.mark.parametrize("kept", ["none", ".init.text"])
def test_a_vmlinux_with_a_part_of_its_records(mini: Mini, kept: str) -> None:
    path = mini(Spec(form="static", contract="stock"))
    with edit(path) as elf:
        text = elf.elf.get_section_by_name(".text")
        for slot in elf.live_slots():
            if kept == "none" or text["sh_addr"] <= elf.record(slot) < text["sh_addr"] + text["sh_size"]:
                elf.set_record(slot, 0)
    found = codes(path)
    assert list(found) in (["PL112"], ["PL108", "PL112"])
    assert ("records are zero" if kept == "none" else "have no record") in found["PL112"][0]
    assert len(found["PL112"]) == 1


def test_the_records_of_one_section_of_a_module(mini: Mini) -> None:
    """One function alone, whose section of records was left out."""
    path = mini(ModuleSpec(linked=False, compiler="clang"))
    with edit(path) as elf:
        records = next(section for section in elf.elf.iter_sections() if section.name == RECORDS)
        text = elf.elf.get_section(records["sh_link"]).name
        elf.set_header(RECORDS, 0, 0)  # sh_name
    assert f"1 in {text})" in codes(path)["PL112"][0]


@pytest.mark.parametrize("options", [(), ("-fpatchable-function-entry=0",), ("-fpatchable-function-entry=4,4",)])
def test_no_dynamic_ftrace(tmp_path: Path, options: tuple[str, ...], tool: Tool) -> None:
    """No pairs at entries; NOPs before functions, as kCFI pads them, are none."""
    path = without_records(compiled(tmp_path, *options))
    assert codes(path) == {}
    assert "no pairs at 4 function entries" in tool("verify", path, "--ignore", "PL307").out
    assert main(["patch", str(path), "--in-place", "--contract", "native"]) == 0


def test_one_lost_record_is_no_lost_table(mini: Mini) -> None:
    path = mini(Spec(form="static", zeros=True))
    with edit(path) as elf:
        elf.set_record(elf.slot_of("work_leaf"), 0)
    assert "PL112" not in codes(path)
    assert len(codes(path)["PL206"]) == 1


def test_a_lost_mov_is_a_stray_mov_too(mini: Mini) -> None:
    """PL112 speaks of function entries; a MOV elsewhere is another finding."""
    path = mini(Spec(form="static", contract="stock"))
    with edit(path) as elf:
        elf.set_symbol("__stop_mcount_loc", value=elf.value("__start_mcount_loc"))
        elf.set_word(elf.value("work_nested") + 16, MOV)
        elf.set_word(elf.value("work_nested") + 20, 0xD503201F)
    assert {code: len(found) for code, found in codes(path).items()} == {"PL112": 1, "PL206": 1}
