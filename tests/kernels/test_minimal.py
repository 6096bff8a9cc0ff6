"""A small kernel of our own making: not one finding, and it runs when it is processed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue_bench.initramfs import build_initramfs
from prologue_bench.qemu import Job, boot
from tests.needs import needs_built_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.timeout(1800)]


def test_the_minimal_kernel_is_clean_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_tools("qemu-system-aarch64")
    vmlinux = needs_built_kernel("trixie", "linux-source-6.12").vmlinux
    processed, image = tmp_path / "vmlinux", tmp_path / "Image"
    assert main(["patch", str(vmlinux), "-o", str(processed), "--contract", "stock"]) == 0
    for arguments, expected in (([str(vmlinux)], []), ([str(processed), "--against", str(vmlinux)], ["PL406"])):
        capsys.readouterr()
        assert main(["verify", *arguments, "--format", "json", "--no-config"]) == 0
        assert [f["code"] for f in json.loads(capsys.readouterr().out)["findings"]] == expected
    assert main(["image", str(processed), "-o", str(image)]) == 0
    seen = boot(image, build_initramfs(), tmp_path / "log", Job(("ftrace_cycle",), parameters=(("cycles", 3),)))
    assert all(event.data["entries"] > 100 for event in seen.all("traced"))
    assert len(seen.all("traced")) == 6
    assert seen.all("dmesg") == []
    assert seen.one("end").data["taint"] == 0
