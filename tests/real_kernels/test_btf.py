"""Parameters by BTF alone are those by DWARF, function by function of Debian's 6.12; and BTF of modules."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from prologue.dwarf.btf import Btf
from prologue.errors import InputError
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue.probe.arguments import Argument, VariablesAt, find_arguments
from prologue.probe.event import EventOptions
from prologue.probe.probe_target import ProbeTarget
from prologue.probe.prober import Prober
from prologue.probe.scopes import Scope
from prologue.probe.storage import NOT_SET_YET
from tests.support.debian.kbuild import CROSS
from tests.support.needs import needs_kernel, needs_modules, needs_tools
from tests.support.tool import Tool

pytestmark = pytest.mark.kernel

SYMBOLS = 500  # of which some are data


@pytest.fixture(scope="module")
def vmlinux() -> Path:
    return needs_kernel("trixie").vmlinux


@pytest.fixture(scope="module")
def without_dwarf(vmlinux: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tools(f"{CROSS}objcopy")
    out = tmp_path_factory.mktemp("btf") / "vmlinux"
    subprocess.run([f"{CROSS}objcopy", "--strip-debug", str(vmlinux), str(out)], check=True)
    return out


def arguments(variables: VariablesAt, target: ProbeTarget) -> dict[str, Argument]:
    return {argument.name: argument for argument in find_arguments(None, variables, target)[0]}


def test_each_parameter_is_where_dwarf_has_it(vmlinux: Path) -> None:
    target = Prober(Kernel(vmlinux)).kernel
    assert target.btf is not None
    assert target.debug is not None
    unique = [(name, at[0]) for name, at in sorted(target.names.by_name.items()) if len(at) == 1]
    equal = 0
    for count, (name, vaddr) in enumerate(random.Random(1).sample(unique, SYMBOLS)):  # noqa: S311 - not a secret
        described = target.described_at(vaddr)
        function = target.debug.function_at(described)
        # BPF_CALL_n() gives a function two declarations, one of them with numbers of 64 bits only.
        by_btf = target.prototype_of(vaddr, name)
        if function is None or by_btf is None or name.startswith("bpf_"):
            continue
        by_dwarf = Scope(*function, described, before=vaddr, code_before=target.code_before(vaddr))
        if by_dwarf.function_name != name:
            continue
        assert by_btf.names() == [variable.name for variable in by_dwarf.parameters()], name
        mine, theirs = arguments(by_btf, target), arguments(by_dwarf, target)
        for parameter in mine.keys() & theirs.keys():
            pair = mine[parameter], theirs[parameter]
            assert (pair[0].fetch, pair[0].type) == (pair[1].fetch, pair[1].type), (name, *pair)
            equal += 1
        assert theirs.keys() <= mine.keys(), name
        if count % 64 == 0:
            target.trim()
    assert equal > 300


def test_events(without_dwarf: Path, tool: Tool) -> None:
    places = ["vfs_read", "vfs_read file->f_path.dentry->d_name.name:string", "do_sys_openat2%return"]
    places += ["vfs_read+0x10 file"]
    lines = tool("probe", without_dwarf, *places, "--event", status=1).out.splitlines()
    assert lines[0] == "p:vfs_read vfs_read file=%x0 buf=%x1 count=%x2:u64 pos=%x3"
    assert lines[1].startswith("p:vfs_read_1 vfs_read name=+0(+")
    assert lines[1].endswith("(%x0))):string")
    assert "r:do_sys_openat2__return do_sys_openat2 retval=$retval:s64" in lines
    reason = "only its value at the function's entry is known here: probe the entry"
    assert any(line.endswith(f"file left out: {reason}") for line in lines)


def test_a_module(vmlinux: Path, tool: Tool) -> None:
    """Debian's modules have no DWARF."""
    kernel = needs_kernel("trixie")
    modules = needs_modules(kernel)
    places = ["loop:loop_control_ioctl", "loop:lo_ioctl bdev->bd_disk->disk_name:string", "loop:lo_ioctl%return"]
    said = tool("probe", vmlinux, *places, "--modules", modules, "--event", status=None).out
    assert said.splitlines() == [
        "p:loop_control_ioctl loop:loop_control_ioctl file=%x0 cmd=%x1:u32 parm=%x2:u64",
        "p:lo_ioctl loop:lo_ioctl disk_name=+12(+16(%x0)):string",
        "r:lo_ioctl__return loop:lo_ioctl retval=$retval:s32",
    ]


def test_a_module_of_another_build(vmlinux: Path) -> None:
    """Its release is the same, but not its kernel's types."""
    kernel = needs_kernel("trixie")
    path = next(needs_modules(kernel).rglob("loop.ko*"))
    module = open_binary(path, unpack=True)
    section = module.image.section(".BTF")
    assert section is not None
    other = Kernel(needs_kernel("sid").vmlinux)
    types = other.image.section(".BTF")
    assert types is not None
    with pytest.raises(InputError, match="its BTF was made with another kernel's"):
        Btf(module.image.data(section), str(path), Btf(other.image.data(types), str(other.path)))


def test_a_parameter_that_clang_may_have_left_out(without_dwarf: Path, tmp_path: Path) -> None:
    """Of static functions, and BTF of an older pahole has it all the same."""
    out = tmp_path / "vmlinux"
    shutil.copy(without_dwarf, out)
    comment = Kernel(out).image.section(".comment")
    assert comment is not None
    with out.open("r+b") as file:
        file.seek(comment.offset)
        file.write(b"clang")
    target = Prober(Kernel(out)).kernel
    symbols = target.binary.symbols
    for name, is_known in (("vfs_read", True), ("do_sys_openat2", False)):
        assert (target.prototype_of(symbols.require(name).vaddr, name) is not None) == is_known


def test_what_is_passed_by_reference_is_where_the_caller_put_it(vmlinux: Path) -> None:
    """GCC says of this parameter that it is at X19 in the whole function; at the entry that is the caller's."""
    places = [f"ZSTD_compress_advanced+{offset:#x} params" for offset in (0, 0xC, 0x50)]
    probes, failures = Prober(Kernel(vmlinux)).probes(places, EventOptions())
    assert not failures
    events = [probe.event for probe in probes if probe.event is not None]
    assert [list(map(str, event.arguments)) for event in events] == [
        ["params=+0(%x7):x64[5]"], [], ["params=+0(%x19):x64[5]"],
    ]  # fmt: skip
    assert [omitted.reason for omitted in events[1].omitted] == [NOT_SET_YET]
