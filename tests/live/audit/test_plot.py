"""``live audit --plot``: a picture with a strip for each mechanism."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import OutputError
from prologue.live.audit.audited import Audited
from prologue.live.audit.outcome import Audit, AuditedFile
from prologue.live.report.strips import plot_audit
from prologue.report.pictures import OWN
from tests.mini_kernel.build import Spec
from tests.rules.fixture import as_running, process
from tests.support.built import Mini
from tests.support.elf_edit import NOP, ElfEdit
from tests.support.tool import Tool

BRK = 0xD4200000


@pytest.fixture
def arguments(mini: Mini) -> list[str]:
    path = process(mini(Spec(form="relr", labels=True)))
    elf = ElfEdit(path)
    return list(map(str, as_running(path, {elf.value("work_leaf"): NOP, elf.value("_stext"): BRK})))


@pytest.mark.thorough
def test_strips(arguments: list[str], tmp_path: Path) -> None:
    first, second = tmp_path / "one.svg", tmp_path / "two.svg"
    for out in (first, second):
        assert main(["live", "audit", *arguments, "--plot", str(out), "-q"]) == 1
    said = first.read_text()
    for strip in ("first slots", "second slots", "jump labels", "no mechanism"):
        assert f">{strip}<" in said
    assert "#d62728" in said


def test_the_text_of_a_small_kernel_fills_its_picture(tmp_path: Path) -> None:
    """A block of 64 KiB with 300 bytes of text was a blank picture."""
    picture = tmp_path / "text.svg"
    main(["live", "audit", "example:hooked", "-q", "--plot", str(picture)])
    assert ">KiB of text, from the lowest address on" in picture.read_text()


@pytest.mark.thorough
def test_a_picture(arguments: list[str], tmp_path: Path) -> None:
    out = tmp_path / "text.png"
    assert main(["live", "audit", *arguments, "--plot", str(out), "-q"]) == 1
    assert out.read_bytes().startswith(b"\x89PNG")


def test_names_that_no_picture_has(arguments: list[str], tmp_path: Path, tool: Tool) -> None:
    said = tool("live", "audit", *arguments, "--plot", tmp_path / "text.jpeg", status=2)
    assert said.out == ""
    assert "a picture ends in .png, .svg, .pdf" in said.err


def test_no_picture_of_nothing(tmp_path: Path) -> None:
    nothing = AuditedFile(
        path=Path("vmlinux"), name="kernel", audited=Audited(words=(), mechanisms=(), text=1, unlooked=()), findings=()
    )
    audit = Audit(source="core", release="", slide=0, files=(nothing,), notes=())
    with pytest.raises(OutputError, match="no mechanism of this kernel owns a word of its text"):
        plot_audit(audit, tmp_path / "out.svg", OWN)
