"""``verify --release`` on real kernels: what is not native and processed is refused, whatever it looks like."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.real_kernels.conftest import Case
from tests.real_kernels.native import RECIPES
from tests.support.needs import needs_built_kernel
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800)]


def release(tool: Tool, *files: object) -> tuple[int, set[str], str]:
    """Exit code, codes of the findings that are fatal, and the last line."""
    said = tool("verify", *files, "--release", "--json", "--no-config", status=None)
    assert said.json["passed"] == (said.status == 0)
    fatal = {finding["code"] for finding in said.json["findings"] if finding["severity"] == "fatal"}
    return said.status, fatal, str(said.json["summary"])


def variant(vmlinux: Path, directory: Path) -> Path:
    out = directory / "nop-nop"
    assert main(["variant", str(vmlinux), "--kind", "nop-nop", "-o", str(out)]) == 0
    return out


def test_a_stock_kernel_is_no_release(case: Case, tool: Tool) -> None:
    for vmlinux, state in ((case.vmlinux, "untouched"), (case.processed, "processed")):
        status, fatal, line = release(tool, vmlinux)
        assert (status, fatal) == (1, {"GATE"})
        assert re.search(rf"\([\d,]+ sites, {state}, stock\)$", line)
    bench = variant(case.vmlinux, case.directory)
    assert release(tool, bench)[:2] == (1, {"GATE", "PL408"})
    bench.unlink()


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_native_kernel_is_released_processed_and_with_its_modules(name: str, tmp_path: Path, tool: Tool) -> None:
    built = needs_built_kernel(RECIPES[name])
    vmlinux, modules = tmp_path / "vmlinux", sorted(built.out.rglob("*.ko"))
    assert modules
    shutil.copy(built.out / "vmlinux", vmlinux)
    if main(["verify", str(vmlinux), "--require", "processed", "--quiet"]) == 0:
        assert main(["patch", str(vmlinux), "--in-place", "--reverse"]) == 0
    assert release(tool, vmlinux)[:2] == (1, {"GATE"})
    assert release(tool, variant(vmlinux, tmp_path))[:2] == (1, {"GATE", "PL408"})
    assert release(tool, *modules, "--vmlinux", vmlinux)[:2] == (1, {"GATE"})
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    status, fatal, line = release(tool, vmlinux)
    assert (status, fatal) == (0, set())
    assert re.search(r"\([\d,]+ sites, processed, native\)$", line)
    assert release(tool, *modules)[:2] == (1, {"GATE"})
    # Processed or not, in any mix.
    mixed = tmp_path / "mixed.ko"
    shutil.copy(modules[0], mixed)
    mixed.chmod(0o644)
    assert main(["patch", str(mixed), "--in-place", "--contract", "native", "--strip-signature"]) == 0
    for arguments in ([vmlinux, *modules, mixed], [*modules, mixed, "--vmlinux", vmlinux]):
        status, fatal, line = release(tool, *arguments)
        assert (status, fatal) == (0, set())
        assert f"; modules of {vmlinux}" in line
