"""Debian's oldest and newest kernels, 5.10 and 7.3: no false alarm, and the stock contract takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue.releases import COMPARED
from tests.support.needs import needs_kernel, needs_modules

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(("suite", "true"), [("bullseye", {"PL109"}), ("trixie-backports", set())])
def test_no_false_alarm(suite: str, true: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """5.10 keeps overridden weak functions and their records, and traces all of .kprobes.text that it can."""
    kernel = needs_kernel(suite)
    assert Kernel(kernel.vmlinux).version in COMPARED
    processed, package = tmp_path / "vmlinux", needs_modules(kernel)
    assert main(["patch", str(kernel.vmlinux), "-o", str(processed), "--contract", "stock"]) == 0
    for arguments, more in (
        ([str(kernel.vmlinux)], set()),
        ([str(processed), "--against", str(kernel.vmlinux)], {"PL406"}),
    ):
        capsys.readouterr()
        assert main(["verify", *arguments, "--json", "--no-config"]) == 0
        assert {f["code"] for f in json.loads(capsys.readouterr().out)["findings"]} == true | more
    processed.unlink()
    assert main(["verify", str(package), "--vmlinux", str(kernel.vmlinux), "--json", "--no-config"]) == 0
    assert {f["code"] for f in json.loads(capsys.readouterr().out)["findings"]} <= {"PL109"}
