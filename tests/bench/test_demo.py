"""`make demo` on machines that lack something: what can be done is done, the rest is named, and it ends well."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.examples.listing import KernelListing
from tests.mini_kernel.listing import LISTING
from tests.support.needs import needs_tools, needs_wheel

ROOT = Path(__file__).parents[2]
# The set-up is tested in tests/test_setup.py; here it would find, or install, what this machine has.
SCRIPT = """
import os, sys
sys.modules |= dict.fromkeys(os.environ.get("WITHOUT", "").split())
from bench import demo
demo.SETUP = "/bin/true"
sys.exit(demo.main())
"""
Demo = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_demo(tmp_path: Path) -> Demo:
    """Run the demo with only these programs in PATH."""
    programs = tmp_path / "programs"
    programs.mkdir()

    def run(*arguments: str, tools: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
        needs_tools(*tools)
        for tool in ("cp", *tools):  # every system has cp
            # A link would do, but QEMU looks for its files beside itself.
            (programs / tool).write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]} exec {tool} "$@"\n')
            (programs / tool).chmod(0o755)
        env = {**os.environ, "PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}
        command = [sys.executable, "-c", SCRIPT, "--out", str(tmp_path / "out"), *arguments]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    return run


def left_out(output: str) -> list[str]:
    return [line.removeprefix("left out: ") for line in output.splitlines() if line.startswith("left out: ")]


def test_without_qemu_and_apt(run_demo: Demo) -> None:
    done = run_demo()
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 file: clean (15 sites, processed, native; compared with the file from before)" in done.stdout
    needed = "it needs a Debian archive, or a kernel of your own: make demo VMLINUX=FILE MODULES=DIR"
    assert left_out(done.stdout) == [
        "boots and the audit of memory: qemu-system-aarch64 is not installed",
        f"the same on a real kernel: apt-get is not installed (Debian package apt); {needed}",
    ]


@pytest.mark.qemu
@pytest.mark.thorough
def test_without_apt(run_demo: Demo) -> None:
    needs_wheel("drgn")
    done = run_demo(tools=("qemu-system-aarch64",))
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if "state=" in line] == [
        "  mini: state=unprocessed writes=15 literals=0 sites=15",
        "  mini: state=processed writes=0 literals=0 sites=15",
    ]
    assert "memory: clean (6.12.0-mini, " in done.stdout
    assert len(left_out(done.stdout)) == 1


@pytest.mark.qemu
@pytest.mark.thorough
def test_without_drgn(run_demo: Demo) -> None:
    """As on an arm64 machine, which has no wheel of it: only that is named as missing."""
    done = run_demo(tools=("qemu-system-aarch64",), WITHOUT="drgn")
    assert (done.returncode, done.stderr) == (0, "")
    reason = left_out(done.stdout)[0]
    assert reason.startswith("the audit of memory: it is read by drgn: ")
    assert "asn1crypto" not in reason


@pytest.mark.qemu
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "this machine's apt has no Debian archive configured"),
        ("deb http://127.0.0.1:9/debian bookworm main", "no cached cloud-arm64 kernel of bookworm: cannot fetch"),
    ],
    ids=["no Debian archive", "no network"],
)
def test_an_archive_that_is_not_there(run_demo: Demo, tmp_path: Path, source: str, reason: str) -> None:
    (tmp_path / "sources.list").write_text(f"{source}\n")
    lines = [f'Dir::Etc::sourcelist "{tmp_path}/sources.list";', 'Dir::Etc::sourceparts "/dev/null";']
    lines += [f'Dir::State::lists "{tmp_path}/lists";', 'Acquire::http::Proxy "DIRECT";']
    (tmp_path / "apt.conf").write_text("\n".join(lines))
    (tmp_path / "lists" / "partial").mkdir(parents=True)
    tools = ("apt-get", "apt-cache", "qemu-system-aarch64")
    done = run_demo(tools=tools, APT_CONFIG=str(tmp_path / "apt.conf"))
    assert (done.returncode, done.stderr) == (0, "")
    assert reason in left_out(done.stdout)[-1]


def test_a_kernel_of_the_users_without_a_debian_archive(run_demo: Demo, tmp_path: Path) -> None:
    vmlinux = tmp_path / "vmlinux.mine"
    vmlinux.write_bytes(KernelListing(LISTING.read_text()).vmlinux())
    done = run_demo("--vmlinux", str(vmlinux))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("1 file: clean (15 sites, processed, native; compared with the file from before)") == 2
    assert left_out(done.stdout)[-1].endswith("programs of Debian's: apt-get is not installed (Debian package apt)")
    assert (tmp_path / "out" / "vmlinux.build").exists()


def test_a_kernel_that_is_not_there(run_demo: Demo, tmp_path: Path) -> None:
    done = run_demo("--vmlinux", str(tmp_path / "none"))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"demo: {tmp_path}/none: no such file or directory\n")
