"""Events as ``prologue probe --event`` prints them: a kernel takes all lines in one go, and the values are right.

What the guest does is known: it writes ten bytes to /tmp/known-name, and changes its owner and its time.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue_bench.guest.initramfs import fetch_programs, pack
from prologue_bench.guest.vm import Job, Machine, boot
from tests.support.needs import needs_kernel, needs_tools
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

PLACES: Final = (
    "written=vfs_write file->f_path.dentry->d_name.name:string count initial=file->f_path.dentry->d_name.name[0]",
    "wrote=vfs_write%return",
    "global=vfs_write linux_banner:string overflowuid",
    "pointed=vfs_write saved_command_line:string init_nsproxy.uts_ns->name.sysname:string",
    "line=vfs_write:1 count name=file->f_path.dentry->d_name.name:string raw=%x2:u64",
    "twice=vfs_write $params count count",
    "opened=do_sys_openat2 filename:ustring",
    "user=do_sys_openat2 filename:string@user",
    "owner=make_kuid uid",
    "owned=make_kuid%return",
    "time=timestamp_truncate t.tv_sec t.tv_nsec whole=t",
    "mapped=do_mmap uf next=uf->next",
    "executed=setup_arg_pages bprm->point_of_no_return bprm->have_execfd bprm->argc bprm->filename:string",
    "fsnotify_access file->f_path.dentry->d_name.name:string",
    "vfs_fsy*",
    "update_attr",
    "no_such_function",
    "vfs_write nothing",
)
EXTENDED: Final = pytest.mark.extended


def trace_of(vmlinux: Path, directory: Path, tool: Tool) -> tuple[list[str], list[str], list[str]]:
    """The lines that were printed for the kernel, those that it lists, and its trace."""
    needs_tools("qemu-system-aarch64", "cpio")
    # The first line with code after the function's own, which the refusal of the line before it names.
    said = re.search(r"the next that has: (\d+)", tool("probe", vmlinux, "vfs_write:1", status=None).err)
    first = said[1] if said else 1
    places = [place.replace("vfs_write:1", f"vfs_write:{first}") for place in PLACES]
    events = tool("probe", vmlinux, "--event", "--group", "mine", *places, status=2).out
    image, initramfs = directory / "Image", directory / "initramfs"
    write_flat(ElfImage(vmlinux), image)
    init = Path(__file__).with_name("probe_values.sh").read_bytes()
    script = tool("probe", vmlinux, "vfs_read count", "vfs_read%return", "--script").out
    content = {"init": init, "probe.sh": script.encode(), "events": events.encode()}
    content["bin/busybox"] = fetch_programs()[0]["bin/busybox"]
    initramfs.write_bytes(pack(content, ("bin", "proc", "sys", "dev", "tmp")))
    run = boot(image, initramfs, directory / "console.log", Job(timeout=600), machine=Machine(cpus=1))
    assert "status 0" in run.lines
    of_script = [line.removeprefix("script ") for line in run.lines if line.startswith("script ")]
    assert any("vfs_read: " in line and "count=" in line for line in of_script)
    assert any("vfs_read__return: " in line and "retval=10" in line for line in of_script)
    assert any(re.match(r" *vfs_read +[1-9]", line) for line in of_script)  # of kprobe_profile
    assert not any(line.startswith("left ") for line in run.lines)
    listed = [line.removeprefix("set ") for line in run.lines if line.startswith("set ")]
    trace = [line.removeprefix("trace ") for line in run.lines if line.startswith("trace ")]
    return [line for line in events.splitlines() if line[0] != "#"], listed, trace


def values(trace: list[str], event: str) -> list[dict[str, str]]:
    """Arguments of each event of that name."""
    found = [line.partition(f" {event}: ")[2] for line in trace if f" {event}: " in line]
    return [dict(re.findall(r"(\w+)=(\"[^\"]*\"|\{[^}]*\}|\S+)", text)) for text in found]


@pytest.mark.parametrize(
    "suite",
    ["trixie", *(pytest.param(suite, marks=EXTENDED) for suite in ("bullseye", "bookworm", "sid", "trixie-backports"))],
)
def test_lines_are_taken_and_values_are_right(suite: str, tmp_path: Path, tool: Tool) -> None:
    vmlinux = needs_kernel(suite).vmlinux
    lines, listed, trace = trace_of(vmlinux, tmp_path, tool)
    names = [line.split()[0].partition("/")[2] for line in lines]
    assert sorted(line.split()[0].partition("/")[2] for line in listed) == sorted(names)
    written = next(each for each in values(trace, "written") if each["name"] == '"known-name"')
    assert (written["count"], written["initial"]) == ("10", str(ord("k")))
    assert "10" in {each["retval"] for each in values(trace, "wrote")}
    banner = Kernel(vmlinux).release
    assert all(banner in line for line in trace if " global: " in line)
    assert {each["overflowuid"] for each in values(trace, "global") if "overflowuid" in each} <= {"65534"}
    pointed = values(trace, "pointed")
    assert {("console=" in each["saved_command_line"], each["sysname"]) for each in pointed} == {(True, '"Linux"')}
    assert {("10", '"known-name"')} <= {(each["count"], each["name"]) for each in values(trace, "line")}
    assert all(each["count"] == each["count_1"] == each["count_2"] for each in values(trace, "twice"))
    assert '"/tmp/known-name"' in {each["filename"] for each in values(trace, "opened")}
    assert values(trace, "opened") == values(trace, "user")
    assert "1234" in {each["uid"] for each in values(trace, "owner")}
    assert "0x4d2" in {each["retval"] for each in values(trace, "owned")}
    times = {(each["tv_sec"], each["tv_nsec"], each["whole"], each["whole_8"]) for each in values(trace, "time")}
    assert ("1000000000", "0", "0x3b9aca00", "0x0") in times
    mapped = values(trace, "mapped")
    assert mapped
    assert all(each["next"] == each["uf"] for each in mapped if "uf" in each)
    executed = values(trace, "executed")
    touched = [each for each in executed if each["filename"] == '"/bin/busybox"' and each["argc"] == "4"]
    assert [(each["point_of_no_return"], each["have_execfd"]) for each in touched[:1]] == [("1", "0")]
    inlined = {name for name in names if name.startswith("fsnotify_access_in_")}
    assert '"known-name"' in {each["name"] for name in inlined for each in values(trace, name)}
