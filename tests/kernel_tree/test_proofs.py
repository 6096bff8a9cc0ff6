"""CBMC proves the functions of sorttable-arm64.h that change a RELA table, and the one that finds an address."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import prologue
from tests.support.needs import needs_tools

HEADER = Path(prologue.__file__).parent / "kernel_tree" / "sorttable-arm64.h"
HARNESS = Path(__file__).with_name("prove_sorttable.c")
CHECKS = ("--unwind", "8", "--unwinding-assertions", "--bounds-check", "--pointer-check", "--div-by-zero-check")


def prove(function: str, header: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("cbmc") is None:
        pytest.skip("needs cbmc, which Debian 12 does not have")
    needs_tools("gcc")  # cbmc preprocesses with it
    command = ["cbmc", str(HARNESS), f'-DHEADER="{header}"', "--function", function, *CHECKS]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.extended
@pytest.mark.parametrize("function", ["prove_take_relas", "prove_relative_after_none", "prove_addr_to_ptr"])
def test_it_holds_for_every_table(function: str) -> None:
    done = prove(function, HEADER)
    assert (done.returncode, "VERIFICATION SUCCESSFUL" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.extended
def test_a_fault_is_found(tmp_path: Path) -> None:
    """One entry too few is cleared."""
    wrong = tmp_path / "wrong.h"
    text, clears = HEADER.read_text(), "memset(to, 0, end - to);"
    assert text.count(clears) == 1
    wrong.write_text(text.replace(clears, "memset(to, 0, end - to - entsize);"))
    assert "VERIFICATION FAILED" in prove("prove_take_relas", wrong).stdout
