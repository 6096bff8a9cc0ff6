"""Every file that a build leaves is read as it is: linked by GNU ld or LLD, and then changed by objcopy."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from prologue import __version__
from prologue.cli.main import main
from prologue.elf.image import ElfImage
from prologue.kernel_tree.tree import install
from tests.kernel_tree.test_check import SELECTED, program
from tests.mini_kernel.build import LINK, Spec, build, run_command
from tests.support.needs import needs_tools
from tests.support.tool import Tool
from tests.support.trees import SOURCES, made_tree, needs_source_files

GNU: str = "aarch64-linux-gnu-objcopy"
STEPS = Path(__file__).with_name("vmlinux_steps.mk")
LINKERS = {
    "gnu-rela": Spec(), "gnu-rela-applied": Spec(form="rela-applied"), "gnu-static": Spec(form="static"),
    "lld-relr": Spec(form="relr", compiler="clang", layout="4,2"),
}  # fmt: skip
# Releases whose scripts/Makefile.vmlinux has the step, and those whose linker makes vmlinux.
BUILDS = [
    ("6.1", "gnu-rela", False), ("6.12", "lld-relr", False), ("7.3", "lld-relr", True),
    *(("7.2", linker, True) for linker in LINKERS),
]  # fmt: skip
# What people and packages do to a vmlinux afterwards.
MORE = {
    "as linked": [], "strip-debug": ["--strip-debug"], "remove .modinfo": ["--remove-section=.modinfo"],
    "remove .got": ["--remove-section=.got*"], "remove .bss": ["--remove-section=.bss"],
    "noload .modinfo": ["--set-section-flags", ".modinfo=noload"],
    "remove relocations": ["--remove-section=.rel*", "--remove-section=!.rel*.dyn"],
}  # fmt: skip


def linked(spec: Spec, directory: Path) -> Path:
    """``vmlinux.unstripped``: the mini kernel with ``.modinfo`` after its end, in a segment of its own."""
    needs_tools("aarch64-linux-gnu-gcc", *(["clang", "ld.lld"] if spec.compiler == "clang" else []))
    out = directory / "vmlinux.unstripped"
    build(spec, directory)
    script = directory / "mini_kernel.lds"
    lines = script.read_text().replace("data PT_LOAD FLAGS(6);", "data PT_LOAD FLAGS(6);\n modinfo PT_LOAD FLAGS(4);")
    end = " _end = .;"
    assert lines.count(end) == 1
    lines = lines.replace(end, f"{end}\n .modinfo : ALIGN(8) {{ KEEP(*(.modinfo)) . = ALIGN(8); }} :modinfo")
    script.write_text(lines)
    (directory / "modinfo.S").write_text('.section .modinfo, "a"\n.asciz "mini.license=GPL"\n')
    run_command(["aarch64-linux-gnu-gcc", "-c", f"{directory}/modinfo.S", "-o", f"{directory}/modinfo.S.o"])
    objects = sorted(str(path) for path in directory.glob("*.[cS].o"))
    run_command([*LINK[spec.form], "--build-id=none", "-T", str(script), "-o", str(out), *objects])
    return out


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file that a linker makes, made once."""

    @cache
    def make(linker: str) -> Path:
        return linked(LINKERS[linker], tmp_path_factory.mktemp(linker))

    return make


@pytest.fixture
def unstripped(kept: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A fresh copy of it, in a directory of its own."""
    (tmp_path / "out").mkdir()
    return lambda linker: Path(shutil.copy(kept(linker), tmp_path / "out"))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "prologue", f"echo prologue {__version__}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("build_", BUILDS, ids=[f"{release}-{linker}" for release, linker, _ in BUILDS])
def test_a_build_is_checked_and_verified(
    build_: tuple[str, str, bool], unstripped: Callable[[str], Path], tmp_path: Path, tool: Tool
) -> None:
    release, linker, has_step = build_
    tree = made_tree(release, tmp_path / "linux")
    install(tree)
    file = unstripped(linker)
    (file.parent / ".config").write_text(SELECTED)
    assert main(["patch", "--in-place", str(file)]) == 0
    vmlinux = make_vmlinux(file, has_step=has_step)
    rows = tool("kernel", "check", tree, "--objtree", file.parent, "--json").json["checks"]
    assert [row["name"] for row in rows if row["status"] != "ok"] == []
    assert [row["file"] for row in rows if row["name"].startswith("vmlinux")] == [str(file)] * has_step + [str(vmlinux)]
    for command in (["scan"], ["verify"], ["patch", "--reverse", "--in-place"]):
        assert main([*command, str(vmlinux)]) == 0, command
    assert_image(vmlinux)


def make_vmlinux(unstripped: Path, *, has_step: bool) -> Path:
    if not has_step:
        return unstripped.rename(unstripped.with_name("vmlinux"))
    subprocess.run(["make", "-s", "-f", STEPS, f"OBJCOPY={GNU}", "vmlinux"], cwd=unstripped.parent, check=True)
    return unstripped.with_name("vmlinux")


def assert_image(vmlinux: Path) -> None:
    """Our Image and objcopy's are the same: what is read as it is, is also loaded as it is."""
    mine, theirs = vmlinux.with_name("mine"), vmlinux.with_name("theirs")
    assert main(["image", str(vmlinux), "-o", str(mine)]) == 0
    run_command([GNU, "-O", "binary", "-R", ".modinfo", "-S", str(vmlinux), str(theirs)])
    assert mine.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("options", MORE.values(), ids=MORE)
def test_what_objcopy_leaves_is_read(
    linker: str, options: list[str], unstripped: Callable[[str], Path], tool: Tool
) -> None:
    file = unstripped(linker)
    vmlinux = file.with_name("vmlinux")
    run_command([GNU, *options, str(file), str(vmlinux)])
    tool("scan", vmlinux)
    assert_image(vmlinux)


def test_the_step_leaves_an_empty_segment(unstripped: Callable[[str], Path]) -> None:
    """Otherwise the tests above would show nothing."""
    vmlinux = make_vmlinux(unstripped("gnu-rela"), has_step=True)
    (empty,) = (segment for segment in ElfImage(vmlinux).segments if not segment.memsz)
    assert (empty.vaddr, empty.filesz, empty.paddr > 0) == (0, 0, True)


@pytest.mark.parametrize("command", ["scan", "verify", "patch"])
def test_vmlinux_o_is_refused_by_name(command: str, kept: Callable[[str], Path], tmp_path: Path, tool: Tool) -> None:
    objects = sorted(str(path) for path in kept("gnu-rela").parent.glob("*.[cS].o"))
    run_command(["aarch64-linux-gnu-ld", "-r", "-o", str(tmp_path / "vmlinux.o"), *objects])
    options = ["--dry-run"] if command == "patch" else []
    said = tool(command, tmp_path / "vmlinux.o", *options, status=2).err
    assert "is vmlinux.o, a kernel that is not linked yet: give its vmlinux" in said


@pytest.mark.kernel
@pytest.mark.parametrize("release", SOURCES)
def test_the_steps_are_kbuilds(release: str) -> None:
    tree = needs_source_files(*SOURCES[release], {"scripts/Makefile.vmlinux"})
    steps = STEPS.read_text().partition("\n\n")[2].partition("\n# Not kbuild's")[0]
    makefile = (tree / "scripts" / "Makefile.vmlinux").read_text()
    assert (steps in makefile) is ("OBJCOPY" in makefile) is (release in {name for name, _, step in BUILDS if step})
