"""Source files by the ends of their paths, and of the kernel's own build: a file of the same name is another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prologue.dwarf.statements import Sources, declares
from prologue.errors import InputError
from prologue.probe.language import parse_listed, parse_request
from prologue.probe.listing import list_lines
from prologue.probe.places import find_places
from prologue.probe.probe_target import ProbeTarget
from tests.mini_kernel.build import run_command
from tests.probe.made_kernel import TOOLS, module_target
from tests.support.needs import needs_tools

UNIT: Any = SimpleNamespace(directory="/build/linux-6.12", name="fs/read_write.c")


def test_a_file_is_found_by_the_longest_end_of_its_path_and_not_by_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / "read_write.c").write_text("wrong\n")
    assert Sources(tmp_path).lines(UNIT, "fs/read_write.c", []) == []
    (tmp_path / "fs").mkdir()
    (tmp_path / "fs" / "read_write.c").write_text("right\n")
    assert Sources(tmp_path).lines(UNIT, "fs/read_write.c", []) == ["right"]


def test_a_source_that_cannot_be_read_is_no_damage_of_the_vmlinux(tmp_path: Path) -> None:
    (tmp_path / "fs").mkdir()
    unreadable = tmp_path / "fs" / "read_write.c"
    unreadable.symlink_to("/proc/self/mem")  # also for root
    with pytest.raises(InputError, match="cannot be read: Input/output error") as refused:
        Sources(tmp_path).lines(UNIT, "fs/read_write.c", [])
    assert refused.value.path == unreadable


_MAKEFILE = "# SPDX-License-Identifier: GPL-2.0\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 107\nEXTRAVERSION =\n"


@pytest.mark.parametrize(
    ("release", "wrong"),
    [
        pytest.param("6.12.107+deb13-cloud-arm64", False, id="its own"),
        pytest.param("6.12.0-44-arm64", False, id="a distribution's own count"),
        pytest.param("6.12", False, id="a release without a third number"),
        pytest.param("", False, id="a kernel without a banner"),
        pytest.param("6.12.117+deb13-cloud-arm64", True, id="another of the series"),
        pytest.param("7.2.13", True, id="another series"),
    ],
)
def test_a_tree_is_of_the_kernels_release(tmp_path: Path, release: str, wrong: bool) -> None:
    (tmp_path / "Makefile").write_text(_MAKEFILE)
    if wrong:
        with pytest.raises(InputError, match=r"is the source of 6\.12\.107, and the kernel is"):
            Sources(tmp_path, release)
    else:
        Sources(tmp_path, release)


@pytest.mark.parametrize(
    ("line", "name", "right"),
    [
        ("ssize_t vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos)", "vfs_read", True),
        ("SYSCALL_DEFINE3(read, unsigned int, fd, char __user *, buf, size_t, count)", "__do_sys_read", True),
        ("static DEFINE_SHOW(scaling_min_freq, min)", "show_scaling_min_freq", True),
        ("\tret = rw_verify_area(READ, file, pos, count);", "vfs_read", False),
        ("ssize_t vfs_readv(struct file *file, const struct iovec *vec)", "vfs_read", False),
        (" * vfs_read - read from a file", "vfs_read", False),
        ("/* vfs_read() */", "vfs_read", False),
        ("", "vfs_read", False),
    ],
)
def test_what_declares_a_function(line: str, name: str, right: bool) -> None:
    assert declares([line], name) == right


_CODE = """\
int first(int *value)
{
	*value += 1;
	return *value;
}

int second(int *value)
{
	*value += 2;
	return *value;
}
"""


@pytest.fixture
def target(tmp_path: Path) -> ProbeTarget:
    """A module whose source is beside it, as the compiler had it."""
    needs_tools(*TOOLS)
    (tmp_path / "some.c").write_text(_CODE)
    command = ["aarch64-linux-gnu-gcc", "-O2", "-g", "-ffreestanding", "-c", f"{tmp_path}/some.c"]
    run_command([*command, "-o", f"{tmp_path}/some.ko"])
    return module_target(tmp_path / "some.ko")


def test_the_source_of_another_build_is_refused(target: ProbeTarget, tmp_path: Path) -> None:
    """Lines that were added before a function put a pattern's lines elsewhere."""
    asked = [parse_request(text) for text in ("second;*value+=*", "some.c;*value+=*")]
    listed = [parse_listed(text) for text in ("second", "some.c")]
    assert [len(find_places(target, request)) for request in asked] == [1, 2]
    assert all(list_lines(target, request, Sources(None)) for request in listed)
    (tmp_path / "some.c").write_text(_CODE.replace("int second", "/* The second. */\nint second"))
    for request in asked:
        with pytest.raises(InputError, match="line 7 does not declare second: the source of another build"):
            find_places(target, request)
    for request in listed:
        with pytest.raises(InputError, match="line 7 does not declare second"):
            list_lines(target, request, Sources(None))
    assert find_places(target, parse_request("second:2"))  # needs no text
