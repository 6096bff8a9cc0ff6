"""The kernel's own self-test of its prologues, run as kernel developers run it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from prologue.cli.main import main
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from tests.real_kernels.native import MACHINES, RECIPES, entry_offsets
from tests.support.cases import one_tested
from tests.support.elf_edit import ElfEdit
from tests.support.needs import needs_built_kernel, needs_tools
from tests.support.scripted_guest import TEST, needed, run_script

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]

SCRIPT: Final = f"cd /ftrace\nmkdir -p logs\nsh ./ftracetest -vvv {TEST} 2>/dev/null\n"
FUNCTION: Final = "vfs_read"  # the test's own
UNWRITTEN: Final = f"ftrace: no MOV X9, LR before {FUNCTION}+"


@pytest.fixture(scope="module", params=one_tested(*RECIPES))
def release(request: pytest.FixtureRequest) -> str:
    needs_tools("qemu-system-aarch64", "cpio")
    return str(request.param)


@pytest.mark.parametrize(
    ("form", "outcome"), [("as linked", "PASS"), ("processed", "PASS"), ("one MOV is missing", "FAIL")]
)
def test_the_outcome(release: str, form: str, outcome: str, tmp_path: Path) -> None:
    built = needs_built_kernel(RECIPES[release])
    vmlinux = Path(shutil.copy(built.vmlinux, tmp_path))
    if form != "as linked":
        assert main(["patch", str(vmlinux), "--in-place"]) == 0
    if form == "one MOV is missing":
        elf = ElfEdit(vmlinux)
        elf.set_word(elf.value(FUNCTION) + entry_offsets(built.vmlinux, FUNCTION)[0], a64.NOP)
        elf.save(vmlinux)
    assert main(["image", str(vmlinux), "-o", str(tmp_path / "Image")]) == 0
    files = {f"ftrace/{name}": content for name, content in needed(built.tree).items()}
    lines = run_script(tmp_path / "Image", SCRIPT, files, tmp_path / "log", MACHINES[release])
    assert [line.strip() for line in lines if line.strip() in ("[PASS]", "[FAIL]")] == [f"[{outcome}]"]
    # What the kernel said at boot, as the self-test read it from the log.
    counted = [int(line.split()[0]) for line in lines if "prologues were written by the build" in line]
    sites = Kernel(built.vmlinux).sites
    assert sites is not None
    assert counted == ([] if form == "as linked" else [len(sites)])
    assert any(UNWRITTEN in line for line in lines) is (outcome == "FAIL")
