"""Kernels with unusual configurations: verified, processed by this tool and by sorttable, booted, traced, audited.

``make kernels`` has more. Both write the same bytes, and the gate takes them; that they are right is shown elsewhere
(tests/kernel_tree/test_sorttable.py): equal programs may be equally wrong.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from prologue.cli.main import main
from tests.kernels.examine import examine
from tests.kernels.recipes import KERNELS, TESTED
from tests.support.needs import needs_built_kernel, needs_tools
from tests.support.sorttable import SERIES, compile_sorttable

# test_native_boot has two kernels with our patch, test_releases a 7.3.
pytestmark = [pytest.mark.extended, pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]


@pytest.mark.parametrize("name", TESTED)
def test_all_is_well(name: str, tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    kernel = KERNELS[name]
    seen = examine(kernel, needs_built_kernel(kernel.recipe), tmp_path, toggles=5, only=True)
    assert seen.failed == {}
    assert len(seen.boots) == 1


CALL_OPS: Final = "CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS=y"


def series_of(name: str) -> str:
    return KERNELS[name].recipe.source.removeprefix("linux-source-")


@pytest.mark.parametrize("name", [name for name in TESTED if series_of(name) in SERIES])
def test_both_write_the_same(name: str, tmp_path: Path) -> None:
    needs_tools("nm")
    built = needs_built_kernel(KERNELS[name].recipe)
    options = (built.out / ".config").read_text(encoding="utf-8")
    program = compile_sorttable(series_of(name), tmp_path).layouts[2 if re.search(f"(?m)^{CALL_OPS}$", options) else 0]
    nm = tmp_path / "nm"
    nm.write_bytes(subprocess.run(["nm", "-S", built.vmlinux], capture_output=True, check=True).stdout)
    by_sorttable = Path(shutil.copy(built.vmlinux, tmp_path / "sorttable"))
    by_sorttable.chmod(0o600)
    done = subprocess.run([program, "-s", nm, by_sorttable], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    by_tool = tmp_path / "tool"
    assert main(["patch", "--contract", "native", "-o", str(by_tool), str(built.vmlinux)]) == 0
    words, expected = by_sorttable.read_bytes(), by_tool.read_bytes()
    at = (
        expected.index(b"PROLOGUE" + struct.pack("<II", 2, 3)) + 24
    )  # what the tool needs to undo it, sorttable leaves 0
    assert words == expected[:at] + bytes(16) + expected[at + 16 :]
    assert main(["patch", "--reverse", "--in-place", str(by_sorttable)]) == 2
    assert main(["verify", "--against", str(built.vmlinux), str(by_sorttable)]) == 0
