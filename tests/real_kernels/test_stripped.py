"""Debian's own kernels without some of their symbols, relocations, records or bytes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.real_kernels.conftest import Case
from tests.support.cases import kept_where, one_tested
from tests.support.needs import needs_tools
from tests.support.tool import Tool

pytestmark = pytest.mark.kernel

BOUNDS = ["_text", "_stext", "_etext", "__init_begin", "linux_banner", "__start_mcount_loc", "__stop_mcount_loc"]
BOUNDS += ["__start___jump_table", "__stop___ex_table", "__idmap_text_start", "__noinstr_text_end", "__hyp_text_start"]
BOUNDS += ["__initcall_start", "__stop_kprobe_blacklist", "kallsyms_names"]
# Functions that rules know by name.
FUNCTIONS = ["ftrace_init", "ftrace_caller", "ftrace_call_adjust", "ftrace_process_locs", "panic", "__stack_chk_fail"]
FUNCTIONS += ["_printk", "ftrace_make_call", "vfs_read"]

# Of what is done once for each symbol; the order of the fixture's own.
SUITES = kept_where(lambda suite: suite == "trixie", ["bookworm", "trixie"])


@pytest.fixture(scope="module")
def small(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without debug information, which takes a second to copy."""
    needs_tools("aarch64-linux-gnu-objcopy", "aarch64-linux-gnu-strip")
    out = tmp_path_factory.mktemp("small") / "vmlinux"
    subprocess.run(["aarch64-linux-gnu-strip", "-g", str(case.vmlinux), "-o", str(out)], check=True)
    return out


def changed(small: Path, out: Path, *options: str) -> Path:
    subprocess.run(["aarch64-linux-gnu-objcopy", *options, str(small), str(out)], check=True)
    return out


def without(small: Path, out: Path, *names: str) -> Path:
    return changed(small, out, *(f"--strip-symbol={name}" for name in names))


@pytest.mark.parametrize("case", SUITES, indirect=True, scope="module")
@pytest.mark.parametrize("name", BOUNDS)
def test_a_symbol_that_every_kernel_has(small: Path, tmp_path: Path, name: str, tool: Tool) -> None:
    said = tool("verify", without(small, tmp_path / "vmlinux", name), status=2)
    assert f"stripped in part: the symbol {name}" in said.err


@pytest.mark.parametrize("names", one_tested(FUNCTIONS, *([name] for name in FUNCTIONS)), ids="+".join)
def test_functions_that_rules_know(small: Path, tmp_path: Path, names: list[str], tool: Tool) -> None:
    known = [name for name in names if name in {line.split()[-1] for line in nm(small)}]
    if not known:
        return  # inlined in this release
    vmlinux = without(small, tmp_path / "vmlinux", *known)
    for command in ("scan", "verify", "probe"):
        error = tool(command, vmlinux, *(["vfs_write"] if command == "probe" else []), status=2).err
        assert "stripped in part: the symbol" in error
        assert any(name in error for name in known)
    said = tool("patch", vmlinux, "-o", tmp_path / "out", "--contract", "stock", status=None)
    assert said.status in (0, 2)
    assert not said.err or "stripped in part" in said.err


KALLSYMS = ["num_syms", "offsets", "names", "token_table", "token_index"]


@pytest.mark.parametrize("gone", ["ftrace_call", ""])
def test_a_kernel_without_kallsyms(small: Path, tmp_path: Path, gone: str, tool: Tool) -> None:
    """Nothing says which symbols it was linked with, but some are there together."""
    names = [f"kallsyms_{name}" for name in KALLSYMS] + ([gone] if gone else [])
    had = gone in {line.split()[-1] for line in nm(small)}
    vmlinux = without(small, tmp_path / "vmlinux", *names)
    said = tool("verify", vmlinux, "--ignore", "PL109", status=2 if had else 0)
    if had:
        assert f"stripped in part: the symbol {gone}" in said.err
    else:
        assert "1 file: clean" in said.out


def nm(vmlinux: Path) -> list[str]:
    done = subprocess.run(["aarch64-linux-gnu-nm", str(vmlinux)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "options", [["--strip-unneeded", "-K", "linux_banner"], ["--strip-unneeded", "-K", "vfs_read"]]
)
def test_nearly_all_symbols(small: Path, tmp_path: Path, options: list[str], tool: Tool) -> None:
    vmlinux = tmp_path / "vmlinux"
    subprocess.run(["aarch64-linux-gnu-strip", *options, str(small), "-o", str(vmlinux)], check=True)
    for command in (["scan"], ["verify"], ["patch", "--dry-run"]):
        assert "stripped" in tool(*command, vmlinux, status=2).err


def test_local_symbols(small: Path, tmp_path: Path, tool: Tool) -> None:
    vmlinux = changed(small, tmp_path / "vmlinux", "-x")
    said = tool("verify", vmlinux, status=2).err
    assert re.search(r"stripped in part: the symbol \S+ \(and \d+,\d{3} more\) is gone", said)


def test_removed_relocations(small: Path, tmp_path: Path, case: Case, tool: Tool) -> None:
    section = ".rela.dyn" if case.kernel.suite == "bookworm" else ".relr.dyn"
    vmlinux = changed(small, tmp_path / "vmlinux", "-R", section)
    assert "PL102 record-source-ambiguous (fatal): 1" in tool("verify", vmlinux, status=1).out
    tool("patch", vmlinux, "-o", tmp_path / "out", "--contract", "stock", status=2)


def test_a_separate_debug_file(small: Path, tmp_path: Path, tool: Tool) -> None:
    debug = changed(small, tmp_path / "vmlinux", "--only-keep-debug")
    for command in ("scan", "verify"):
        assert "a separate debug file" in tool(command, debug, status=2).err


def test_a_release_that_was_not_read(small: Path, tmp_path: Path, tool: Tool) -> None:
    """It may do without what others have; what its own kallsyms list was there."""
    names = [f"kallsyms_{name}" for name in KALLSYMS]
    names += ("__cpuidle_text_start", "__cpuidle_text_end", "__noinstr_text_start", "__noinstr_text_end")
    vmlinux = without(small, tmp_path / "vmlinux", *names)
    assert tool("scan", vmlinux, status=None).status in (0, 2)
    content = vmlinux.read_bytes()
    for release in (b"6.1.", b"6.12"):
        content = content.replace(b"Linux version " + release, b"Linux version 9.9.")
    vmlinux.write_bytes(content)
    assert "stripped in part: the symbol" not in tool("verify", vmlinux, status=None).err
