"""``scan --plot``: a picture with a strip for each kind of words."""

from __future__ import annotations

from pathlib import Path

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.tool import Tool


def test_what_lies_where(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, before, after = mini(Spec(labels=True)), tmp_path / "before.svg", tmp_path / "after.svg"
    assert main(["scan", str(vmlinux), "--plot", str(before)]) == 0
    said = before.read_text()
    assert all(f">{strip}<" in said for strip in ("sites", "records", "jump labels"))
    assert ">15<" in said
    said = tool("scan", process(vmlinux), "--plot", after).out
    assert after.read_text().count(">15 of 15<") == 2  # sites have their MOV, and records point after it
    assert "state      processed" in said


def test_what_has_no_picture(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    module, out = str(mini(ModuleSpec())), str(tmp_path / "text.svg")
    for files in ([module], ["example:good", "example:broken"]):
        assert tool("scan", *files, "--plot", out, status=2).err == "prologue: --plot draws the text of one vmlinux\n"
    assert not Path(out).exists()
