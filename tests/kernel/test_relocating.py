"""Kernels that relocate themselves, and the tables that they will read: PL102."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import RULES
from tests.mini_kernel.build import Form, Spec
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_tools

FORMS: list[tuple[Form, str]] = [("rela", ".rela.dyn"), ("rela-applied", ".rela.dyn"), ("relr", ".relr.dyn")]
NOTHING = "no RELA or RELR entry relocates any of"


def spec(form: Form) -> Spec:
    return Spec(form=form, compiler="clang" if form == "relr" else "gcc")


def findings(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in run_rules(Subject(Kernel(path)), RULES):
        found.setdefault(finding.code, []).append(finding.message)
    return found


SIZE = 32  # in a section header


@pytest.mark.parametrize("processed", [False, True])
@pytest.mark.parametrize(("form", "section"), FORMS)
def test_a_removed_table(mini: Mini, form: Form, section: str, *, processed: bool) -> None:
    needs_tools("aarch64-linux-gnu-objcopy")
    path = mini(spec(form))
    if processed:
        assert main(["patch", str(path), "--in-place"]) == 0
    subprocess.run(["aarch64-linux-gnu-objcopy", "-R", section, str(path)], check=True)
    found = findings(path)
    assert [message.startswith(NOTHING) for message in found.pop("PL102")] == [True]
    assert not {"PL108", "PL112", "PL206"} & set(found)
    before = path.read_bytes()
    assert main(["patch", str(path), "--in-place"]) == 2
    assert path.read_bytes() == before
    assert main(["verify", str(path), "--release"]) == 1


@pytest.mark.parametrize(("form", "section"), FORMS)
def test_a_table_of_no_size(mini: Mini, form: Form, section: str) -> None:
    elf = ElfEdit(mini(spec(form)))
    elf.set_header(section, SIZE, 0)
    assert findings(elf.save(elf.path))["PL102"][0].startswith(NOTHING)


@pytest.mark.parametrize(("form", "section"), FORMS)
def test_a_table_that_is_cut(mini: Mini, form: Form, section: str) -> None:
    """Its symbols say how long it was."""
    elf = ElfEdit(mini(spec(form)))
    entry = 8 if section == ".relr.dyn" else 24
    size = elf.elf.get_section_by_name(section)["sh_size"]
    elf.set_header(section, SIZE, size - entry)
    found = findings(elf.save(elf.path))["PL102"]
    assert f"give {size:,} bytes of {section[1:5].upper()}" in found[0]
    assert f"but {section}: {size - entry:,} bytes" in found[0]


@pytest.mark.parametrize(("form", "section"), FORMS)
def test_symbols_that_cut_a_table(mini: Mini, form: Form, section: str) -> None:
    """The kernel believes them, so what comes after the last address is not relocated."""
    elf = ElfEdit(mini(spec(form)))
    name = f"__{section[1:5]}_start"
    for empty in (False, True):
        value = elf.value(f"__{section[1:5]}_end") - (0 if empty else 24)
        elf.set_symbol(name, value=value)
        assert name in findings(elf.save(elf.path))["PL102"][0]


def test_a_static_link_needs_no_relocations(mini: Mini) -> None:
    path = mini(Spec(form="static"))
    kernel = Kernel(path)
    assert kernel.relocates_itself == ()
    assert kernel.records is not None
    assert kernel.records.encoding == "static"
    assert findings(path) == {}


@pytest.mark.parametrize("name", ["__pi_relocate_kernel", "__relocate_kernel"])
def test_a_relocation_loop_is_evidence(mini: Mini, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the type of the file says."""
    kernel = Kernel(mini(Spec(form="static")))
    find = kernel.symbols.find
    monkeypatch.setattr(kernel.symbols, "find", lambda wanted: find("_text" if wanted == name else wanted))
    assert kernel.lost_relocations
