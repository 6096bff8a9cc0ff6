"""The jobs of those whom README sends to a page, by the commands that the page begins with.

Of the four, somebody with a board needs one: ``real_kernels/booted/test_live.py``.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.kernel_tree.test_check import SELECTED, program
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini
from tests.support.needs import needs_common_tools, needs_module
from tests.support.pasted import first_block, pasted
from tests.support.trees import made_tree

BOOT_FILE = "arch/arm64/boot/Image"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory with ``prologue``, which an environment of a developer may lack."""
    path = tmp_path / "bin"
    path.mkdir()
    program(path / "prologue", f'exec {shlex.quote(sys.executable)} -m prologue "$@"')
    return path


@pytest.mark.kernel  # its tree is of Debian's sources
def test_a_kernel_builder(tmp_path: Path, programs: Path, mini: Mini) -> None:
    """``make`` is what ``test_kbuild`` runs; here it selects the option, and links and processes a small kernel."""
    needs_common_tools("git")
    made_tree("7.2", tmp_path / "linux")
    linked = shlex.quote(str(mini(Spec(marker=2))))
    program(
        programs / "make",
        f"[ $2 = linux ] || exit 1\nprintf '%s' {shlex.quote(SELECTED)} >linux/.config\n"
        f"cp {linked} linux/vmlinux.unstripped && cp {linked} linux/vmlinux &&\n"
        "exec prologue patch --in-place linux/vmlinux.unstripped linux/vmlinux",
    )
    said = pasted(first_block("kernel-integration.md"), tmp_path, programs)
    assert said.endswith("exit 0\n"), said
    assert "vmlinux.unstripped  processed: the marker is set" in said


@pytest.mark.thorough
@pytest.mark.parametrize("processed", [True, False])
def test_a_release_engineer(tmp_path: Path, programs: Path, mini: Mini, processed: bool) -> None:
    vmlinux = tmp_path / "vmlinux"
    vmlinux.write_bytes(mini(Spec()).read_bytes())
    shutil.copy(vmlinux, tmp_path / "vmlinux.orig")
    (tmp_path / "modules").mkdir()
    shutil.copy(mini(ModuleSpec()), tmp_path / "modules")
    if processed:
        assert main(["patch", str(vmlinux), "--in-place"]) == 0
    (tmp_path / BOOT_FILE).parent.mkdir(parents=True)
    assert main(["image", str(vmlinux), "-o", str(tmp_path / BOOT_FILE)]) == 0
    commands = first_block("gate.md").splitlines()
    said = [pasted(command, tmp_path, programs) for command in commands]
    ends = ["0"] * 5 if processed else ["1", "1", "1", "1", "0"]  # what was not processed differs in nothing
    assert [text.split()[-1] for text in said] == ends, said
    assert len(commands) == 5


@pytest.mark.thorough
def test_the_author_of_a_patch(tmp_path: Path, programs: Path) -> None:
    for name in ("scipy", "matplotlib", "jinja2"):
        needs_module(name)
    said = pasted(f"set -e\n{first_block('bench.md')}", tmp_path, programs)
    assert said.endswith("exit 0\n"), said
    assert "different, 0.9% faster (p = 0.0006)" in said
    assert (tmp_path / "a57.png").read_bytes().startswith(b"\x89PNG")
    assert "</html>" in (tmp_path / "a57.html").read_text(encoding="utf-8")
