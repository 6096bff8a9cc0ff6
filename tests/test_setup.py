"""`.ci/setup` on systems that are made up of a PATH: what is missing is named as the system's own programs call it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.needs import needs_tools

ROOT = Path(__file__).parent.parent
USED = (
    "awk", "bash", "cat", "date", "dirname", "env", "find", "flock", "grep", "head", "id", "mkdir", "readlink", "rm",
    "sha256sum", "sleep", "tail", "uname", "wc",
)  # fmt: skip
# pip installs nothing here; all else is this Python.
PYTHON = f'#!/bin/sh\n[ "$2" = pip ] && exit\nexec \'{sys.executable}\' "$@"\n'
Setup = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """Run a copy of it with some programs of this system, and stand-ins that run a line of shell."""
    needs_tools(*USED)
    tree, programs = tmp_path / "tree", tmp_path / "programs"
    (tree / ".ci").mkdir(parents=True)
    programs.mkdir()
    script, python = tree / ".ci" / "setup", tree / ".venv" / "bin" / "python"
    # It adds the directories of an administrator's programs, in which this system has some.
    script.write_text((ROOT / ".ci" / "setup").read_text().replace("PATH=$PATH:/usr/sbin:/sbin\n", ""))
    script.chmod(0o755)
    shutil.copy(ROOT / "pyproject.toml", tree)
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    for name in USED:
        (programs / name).symlink_to(str(shutil.which(name)))

    def run(part: str, **stand_ins: str) -> subprocess.CompletedProcess[str]:
        for name, line in stand_ins.items():
            path = programs / name.replace("_", "-")
            path.unlink(missing_ok=True)
            path.write_text(f"#!/bin/sh\n{line}\n")
            path.chmod(0o755)
        return subprocess.run(
            [str(programs / "bash"), str(script), part], env={"PATH": str(programs), "HOME": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


NAMES = {
    "dnf": "run 'dnf install qemu-system-aarch64-core cpio dpkg xz zstd util-linux'",
    "pacman": "run 'pacman -S qemu-system-aarch64 cpio dpkg xz zstd util-linux'",
    "zypper": "run 'zypper install qemu-arm cpio dpkg xz zstd util-linux'",
    "apk": "install qemu-system-arm cpio dpkg xz-utils zstd util-linux, which are Debian's names",
}


@pytest.mark.parametrize("manager", NAMES)
def test_missing_packages_have_the_systems_own_names(setup: Setup, manager: str) -> None:
    done = setup("demo", **{manager: "exit 1"})
    expected = f"setup: missing packages, and no apt to install them: {NAMES[manager]}, then run make again\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


def test_apt_of_another_system_installs_nothing(setup: Setup) -> None:
    done = setup("demo", pacman="exit 1", apt_get="exit 1", dpkg_query="exit 1")
    assert "no apt to install them: run 'pacman -S " in done.stderr


def test_the_small_kernel_goes_on_without_qemu(setup: Setup) -> None:
    done = setup("small", dnf="exit 1")
    named, *rest = done.stderr.splitlines()
    assert done.returncode == 0
    assert "no apt to install them: run 'dnf install qemu-system-aarch64-core', then run make again" in named
    assert [line.split(" in ")[0] for line in rest] == ["setup: installing Python packages into .venv", "setup: done"]


def test_without_a_python_one_line_is_said(setup: Setup, tmp_path: Path) -> None:
    """As on a new Debian whose user may not use sudo: it has no Python before apt has installed one."""
    setup("small", dnf="exit 1")
    (tmp_path / "tree" / ".venv" / "bin" / "python").unlink()
    done = setup("small", apt_get="exit 100", dpkg_query="exit 0", sudo="exit 1")
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if not line.startswith("setup: installing ")]
    assert len(said) == 1, done.stderr
    assert "qemu-system-arm python3-venv" in said[0]


def test_a_second_run_does_nothing_and_tests_need_more_python(setup: Setup) -> None:
    for part, lines in (("small", 3), ("small", 1), ("test", 1)):
        assert len(setup(part, dnf="exit 1").stderr.splitlines()) == lines, part


def test_tests_need_git_and_what_the_demo_needs(setup: Setup) -> None:
    named = setup("test", dnf="exit 1").stderr
    assert named.replace(" git'", "'") == setup("demo").stderr


@pytest.mark.parametrize(
    ("machine", "compiler"),
    [("x86_64", {"gcc", "gcc-aarch64-linux-gnu", "binutils-aarch64-linux-gnu"}), ("aarch64", {"gcc", "binutils"})],
    ids=["x86", "arm64"],
)
def test_an_arm64_machine_takes_its_own_compiler(setup: Setup, machine: str, compiler: set[str]) -> None:
    words = setup("bench", dnf="exit 1", uname=f"echo {machine}").stderr.replace("'", " ").split()
    assert {word for word in words if word.startswith(("gcc", "binutils"))} == compiler


def test_without_network_one_line_says_so(setup: Setup) -> None:
    needs_tools("sudo") if os.getuid() else None
    refuses = "echo \"Err:1 http://mirror.test/debian: Temporary failure resolving 'mirror.test'\"; exit 100"
    done = setup("demo", apt_get=refuses, dpkg_query="exit 0")
    said, log = done.stderr.splitlines()[-1].split(" (log: ")
    assert done.returncode == 2
    assert said.startswith("setup: apt-get cannot reach the Debian mirror: check the network")
    assert log.endswith("/.venv/setup.log)")


def test_what_is_no_set(setup: Setup) -> None:
    done = setup("everything")
    assert (done.returncode, done.stderr) == (2, "setup: usage: .ci/setup small|demo|bench|test|kernels\n")
