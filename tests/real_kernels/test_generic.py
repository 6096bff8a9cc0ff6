"""The generic 4k-page kernels: no false alarm, untouched and processed. Their debug packages are large."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.support.boot_file import boot_file
from tests.support.cases import one_tested
from tests.support.needs import needs_kernel, needs_modules

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(("suite", "true"), one_tested(("trixie", set()), ("bookworm", {"PL109"})))
def test_no_false_alarm(suite: str, true: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings are those that are true: 6.1 keeps overridden weak functions and their records."""
    kernel = needs_kernel(suite, "arm64")
    image = boot_file(needs_modules(kernel))
    processed = tmp_path / "vmlinux"
    assert main(["patch", str(kernel.vmlinux), "-o", str(processed), "--contract", "stock"]) == 0
    for arguments, more in (
        ([str(kernel.vmlinux), "--image", str(image)], set()),
        ([str(processed), "--against", str(kernel.vmlinux)], {"PL406"}),
    ):
        capsys.readouterr()
        assert main(["verify", *arguments, "--json", "--no-config"]) == 0
        found = {finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]}
        assert found == true | more
    processed.unlink()
