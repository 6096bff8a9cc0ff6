"""Debian's oldest and newest kernels, 5.10 and 7.3, and the generic ones: no false alarm, untouched and processed."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.kernel.kernel import Kernel
from prologue.releases import COMPARED
from tests.support.cases import one_tested
from tests.support.debian.kernels import boot_file
from tests.support.needs import needs_kernel, needs_modules
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800)]  # debug packages of generic kernels are large


def found(tool: Tool, *files: object) -> set[str]:
    findings = tool("verify", *files, "--json", "--no-config").json["findings"]
    return {finding["code"] for finding in findings}


@pytest.mark.parametrize(
    ("suite", "flavour", "true"),
    [
        ("bullseye", "cloud-arm64", {"PL109"}),
        ("trixie-backports", "cloud-arm64", set()),
        *one_tested(("trixie", "arm64", set()), ("bookworm", "arm64", {"PL109"})),
    ],
)
def test_no_false_alarm(suite: str, flavour: str, true: set[str], tmp_path: Path, tool: Tool) -> None:
    """5.10 and 6.1 keep overridden weak functions and their records; 5.10 traces all of .kprobes.text that it can."""
    kernel = needs_kernel(suite, flavour)
    assert Kernel(kernel.vmlinux).version in COMPARED
    processed, package = tmp_path / "vmlinux", needs_modules(kernel)
    tool("patch", kernel.vmlinux, "-o", processed, "--contract", "stock")
    generic = flavour == "arm64"  # whose modules test_modules has
    assert found(tool, kernel.vmlinux, *(["--image", boot_file(package)] if generic else [])) == true
    assert found(tool, processed, "--against", kernel.vmlinux) == true | {"PL406"}
    processed.unlink()
    if not generic:
        assert found(tool, package, "--vmlinux", kernel.vmlinux) <= {"PL109"}
