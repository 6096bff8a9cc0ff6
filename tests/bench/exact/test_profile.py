"""Instructions of ``ftrace_init`` by function: the table, and a Debian kernel."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from prologue_bench.exact.boot import Profile, profile_ftrace_init
from tests.support.needs import needs_kernel, needs_tools

SCRIPT = Path(__file__).parents[3] / "bench" / "init_profile.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("init_profile", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table(script: ModuleType) -> None:
    profile = Profile(10, 1271, (("ftrace_process_locs", 1000), ("memset", 200), ("ftrace_init", 61), ("printk", 10)))
    assert script.table(profile, 2).splitlines() == [
        "function               instructions    a site",
        "-------------------  --------------  --------",
        "ftrace_process_locs           1,000    100.00",
        "memset                          200     20.00",
        "2 others                         71      7.10",
        "ftrace_init                   1,271    127.10",
    ]
    assert "others" not in script.table(profile, 4)


def test_a_file_that_is_not_there(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["init_profile.py", "/none"])
    assert script.main() == 2
    assert capsys.readouterr().err.startswith("init_profile: /none: ")


@pytest.mark.kernel
@pytest.mark.qemu
def test_a_debian_kernel(tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "gcc", "aarch64-linux-gnu-gcc")
    profile = profile_ftrace_init(needs_kernel("trixie").vmlinux, tmp_path)
    functions = dict(profile.functions)
    assert sum(functions.values()) == profile.total > 200 * profile.sites
    assert functions["ftrace_init_nop"] > 10 * profile.sites
    assert profile.functions[0][1] == max(functions.values())
    assert {path.suffix for path in tmp_path.iterdir()} == {".log", ".json"}
