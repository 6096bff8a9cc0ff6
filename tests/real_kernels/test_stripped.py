"""Debian's own kernels without some of their symbols, relocations, records or bytes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.real_kernels.debian import Case
from tests.support.cases import kept_where, one_tested
from tests.support.needs import needs_tools

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
def test_a_symbol_that_every_kernel_has(
    small: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    vmlinux = without(small, tmp_path / "vmlinux", name)
    assert main(["verify", str(vmlinux)]) == 2
    assert f"stripped in part: the symbol {name}" in capsys.readouterr().err


@pytest.mark.parametrize("names", one_tested(FUNCTIONS, *([name] for name in FUNCTIONS)), ids="+".join)
def test_functions_that_rules_know(
    small: Path, tmp_path: Path, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    known = [name for name in names if name in {line.split()[-1] for line in nm(small)}]
    if not known:
        return  # inlined in this release
    vmlinux = without(small, tmp_path / "vmlinux", *known)
    for command in ("scan", "verify", "probe"):
        assert main([command, str(vmlinux), *(["vfs_write"] if command == "probe" else [])]) == 2
        error = capsys.readouterr().err
        assert "stripped in part: the symbol" in error
        assert any(name in error for name in known)
    assert main(["patch", str(vmlinux), "-o", str(tmp_path / "out"), "--contract", "stock"]) in (0, 2)
    error = capsys.readouterr().err
    assert not error or "stripped in part" in error


KALLSYMS = ["num_syms", "offsets", "names", "token_table", "token_index"]


@pytest.mark.parametrize("gone", ["ftrace_call", ""])
def test_a_kernel_without_kallsyms(small: Path, tmp_path: Path, gone: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing says which symbols it was linked with, but some are there together."""
    names = [f"kallsyms_{name}" for name in KALLSYMS] + ([gone] if gone else [])
    had = gone in {line.split()[-1] for line in nm(small)}
    status = main(["verify", str(without(small, tmp_path / "vmlinux", *names)), "--ignore", "PL109"])
    said = capsys.readouterr()
    if had:
        assert status == 2
        assert f"stripped in part: the symbol {gone}" in said.err
    else:
        assert status == 0
        assert "1 file: clean" in said.out


def nm(vmlinux: Path) -> list[str]:
    done = subprocess.run(["aarch64-linux-gnu-nm", str(vmlinux)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "options", [["--strip-unneeded", "-K", "linux_banner"], ["--strip-unneeded", "-K", "vfs_read"]]
)
def test_nearly_all_symbols(
    small: Path, tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    vmlinux = tmp_path / "vmlinux"
    subprocess.run(["aarch64-linux-gnu-strip", *options, str(small), "-o", str(vmlinux)], check=True)
    for command in (["scan"], ["verify"], ["patch", "--dry-run"]):
        assert main([*command, str(vmlinux)]) == 2
        assert "stripped" in capsys.readouterr().err


def test_local_symbols(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux = changed(small, tmp_path / "vmlinux", "-x")
    assert main(["verify", str(vmlinux)]) == 2
    assert re.search(r"stripped in part: the symbol \S+ \(and \d+,\d{3} more\) is gone", capsys.readouterr().err)


def test_removed_relocations(small: Path, tmp_path: Path, case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    section = ".rela.dyn" if case.kernel.suite == "bookworm" else ".relr.dyn"
    vmlinux = changed(small, tmp_path / "vmlinux", "-R", section)
    assert main(["verify", str(vmlinux)]) == 1
    assert "PL102 record-source-ambiguous (fatal): 1" in capsys.readouterr().out
    assert main(["patch", str(vmlinux), "-o", str(tmp_path / "out"), "--contract", "stock"]) == 2


def test_a_separate_debug_file(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    debug = changed(small, tmp_path / "vmlinux", "--only-keep-debug")
    for command in ("scan", "verify"):
        assert main([command, str(debug)]) == 2
        assert "a separate debug file" in capsys.readouterr().err


def test_a_release_that_was_not_read(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may do without what others have; what its own kallsyms list was there."""
    names = [f"kallsyms_{name}" for name in KALLSYMS]
    names += ("__cpuidle_text_start", "__cpuidle_text_end", "__noinstr_text_start", "__noinstr_text_end")
    vmlinux = without(small, tmp_path / "vmlinux", *names)
    assert main(["scan", str(vmlinux)]) in (0, 2)
    capsys.readouterr()
    content = vmlinux.read_bytes()
    for release in (b"6.1.", b"6.12"):
        content = content.replace(b"Linux version " + release, b"Linux version 9.9.")
    vmlinux.write_bytes(content)
    main(["verify", str(vmlinux)])
    assert "stripped in part: the symbol" not in capsys.readouterr().err
