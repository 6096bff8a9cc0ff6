"""That it pays: guest instructions and text writes of a boot, for both kernels that the tests build with our patch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.real_kernels.native import RECIPES
from tests.support.needs import needs_built_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]

SCRIPT = Path(__file__).parents[3] / "bench" / "exact_counts.py"


def run(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_build_saves_what_the_boot_writes(show: Callable[[str], None]) -> None:
    needs_tools("qemu-system-aarch64")
    kernels = [needs_built_kernel(recipe).vmlinux for recipe in RECIPES.values()]
    table = run(kernels[0])
    show(table)
    report = json.loads(run(*kernels, "--json"))
    assert [pair["boot"]["layout"] for pair in report["kernels"]] == ["2", "4,2"]
    for pair in report["kernels"]:
        boot, build, sites = pair["boot"], pair["build"], pair["boot"]["sites"]
        # The pointers of CALL_OPS are set when something is first traced. No instruction is written by `build`.
        rest = {"second": 0, "literal": 0, "other": 0}
        assert boot["ftrace_init_words"] == {"first": sites, **rest}
        assert build["ftrace_init_words"] == {"first": 0, **rest}
        saved = boot["ftrace_init"] - build["ftrace_init"]
        assert build["ftrace_init"] < 9 * sites
        assert saved > 9 * sites  # 6.1 also sorts at boot
        # The rest of the boot does what it did, and relocates up to one value less for each site. Random numbers, the
        # scheduler and whatever waits see other timestamps: 6.1's saves 9 ms, two ticks, and that moves 65,114.
        assert abs(boot["instructions"] - build["instructions"] - saved) < boot["instructions"] // 300
    # The table came from another run.
    for form, key in (("boot", "instructions"), ("build", "ftrace_init")):
        assert f"{report['kernels'][0][form][key]:,}" in table
