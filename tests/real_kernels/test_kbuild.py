"""The build step as a kernel developer meets it: in trees with our patch, run by make."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue.kernel.module import Module
from prologue.kernel_tree.patches import load_patch
from prologue_bench.guest.initramfs import build_initramfs
from prologue_bench.guest.vm import Job, boot
from tests.mini_kernel.build import Spec
from tests.real_kernels.native import MACHINES, RECIPES
from tests.support.cases import one_tested
from tests.support.debian.kbuild import NOT_BUILT, Recipe, make
from tests.support.needs import needs_built_kernel
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.timeout(2400)]

PROGRAM: Final = Path(sys.executable).with_name("prologue")
TOOL: Final = shlex.quote(str(PROGRAM))  # words of a shell, as make has them
SOURCE: Final = "kernel/range.c"  # small, always built in
# What a developer may add by mistake: a record at something that is no pair, and a branch to after the MOV.
NO_PAIR: Final = r"""
asm(".text\n.balign 8\n.globl prologue_broken\n.type prologue_broken, %function\n"
    "prologue_broken:\tret\n\tret\n\tret\n\tret\n.size prologue_broken, . - prologue_broken\n"
    ".pushsection __patchable_function_entries, \"awo\", %progbits, .text\n"
    ".balign 8\n.quad prologue_broken\n.popsection\n");
"""
IN_EXIT: Final = r"""
void prologue_in_exit(void);
__attribute__((section(".exit.text"), used)) void prologue_in_exit(void) { barrier(); }
"""
BRANCH: Final = r"""
asm(".text\n.globl prologue_broken\n.type prologue_broken, %function\n"
    "prologue_broken:\tb vfs_write + 4\n.size prologue_broken, . - prologue_broken\n");
"""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree to work in, built as the recipe says, objects and all."""

    path: Path
    recipe: Recipe

    @property
    def vmlinux(self) -> Path:
        return self.path / "out" / "vmlinux"

    def make(self, *targets: str, tool: str | None = TOOL, **environment: str) -> tuple[int, str]:
        """Exit status and output; ``vmlinux`` and ``modules`` if nothing else is asked for."""
        named = [] if tool is None else [f"PROLOGUE={tool}"]
        done = make(self.path, self.recipe, "-j2", *(targets or ("vmlinux", "modules")), *named, **environment)
        return done.returncode, done.stdout

    def relink(self, *targets: str, **options: Any) -> tuple[int, str]:
        """The same, and vmlinux is missing."""
        self.vmlinux.unlink(missing_ok=True)
        return self.make(*targets, **options)

    def postlink(self, tool: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Our step alone, on the vmlinux that is there."""
        step = ["make", "-C", str(self.path / "out"), "-f", "../arch/arm64/Makefile.postlink", "srctree=.."]
        command = [*step, "vmlinux", f"PROLOGUE={tool}"]
        return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})

    def append(self, text: str) -> None:
        """Add to a source file, not through its hard link into the cache."""
        path = self.path / SOURCE
        content = path.read_text() + text
        path.unlink()
        path.write_text(content)


@pytest.fixture(scope="module", params=one_tested(*RECIPES))
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    built = needs_built_kernel(RECIPES[request.param])
    with built.copied() as path:
        _bring_up_to_date(path, request.param)
        yield Tree(path, built.recipe)


def _bring_up_to_date(tree: Path, series: str) -> None:
    """The cache's builds outlive our documentation and self-test, which no kernel is made of; a check reads them."""
    for change in load_patch(series).changes:
        if change.creates and change.path.startswith(NOT_BUILT):
            (tree / change.path).unlink()  # a hard link into the cache
            (tree / change.path).write_bytes(change.created)


def steps(output: str) -> list[str]:
    """The lines that kbuild printed for our step."""
    return re.findall(r"^  PROLOGUE .*", output, re.MULTILINE)


def state(path: Path, tool: Tool) -> str:
    return str(tool("scan", path, "--json").json["files"][0]["state"])


def test_every_link_is_processed_once(tree: Tree, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    status, output = tree.relink("Image", "modules")
    assert status == 0, output
    assert steps(output) == ["  PROLOGUE vmlinux"]
    assert state(tree.vmlinux, tool) == "processed"
    assert main(["verify", str(tree.vmlinux), "--image", str(tree.path / "out/arch/arm64/boot/Image")]) == 0
    assert open_binary(tree.vmlinux).image.section(".BTF") is not None or "btf" not in tree.recipe.options
    monkeypatch.setenv("PROLOGUE", TOOL)
    assert main(["kernel", "check", str(tree.path), "--objtree", str(tree.path / "out")]) == 0
    # Unchanged sources run nothing.
    before = tree.vmlinux.stat()
    status, output = tree.make()
    assert (status, steps(output)) == (0, []), output
    assert tree.vmlinux.stat() == before


@pytest.mark.parametrize("tree", ["6.1"], indirect=True)  # its links take no time
def test_a_changed_source_is_linked_and_processed_again(tree: Tree, tool: Tool) -> None:
    tree.append("/* changed */\n")
    status, output = tree.make("vmlinux", "V=1")
    assert status == 0, output
    assert f"{TOOL} patch --contract native --in-place  vmlinux; {TOOL} verify  vmlinux" in output
    assert re.search(r"^vmlinux: processed: [\d,]+ sites, [\d,]+ records", output, re.MULTILINE)
    assert state(tree.vmlinux, tool) == "processed"


@pytest.mark.parametrize(("text", "rule"), one_tested((NO_PAIR, "PL201"), (BRANCH, "PL302")), ids=["PL201", "PL302"])
def test_a_fatal_finding_fails_the_build(tree: Tree, text: str, rule: str, tool: Tool) -> None:
    kept = (tree.path / SOURCE).read_text()
    tree.append(text if rule == "PL201" else text.replace("+ 4", f"+ {4 + 4 * ('bti' in tree.recipe.options)}"))
    status, output = tree.make("vmlinux")
    assert status != 0
    assert rule in output
    assert "prologue_broken" in output
    assert not tree.vmlinux.exists()  # or the next make would take it for good
    (tree.path / SOURCE).write_text(kept)
    status, output = tree.make("vmlinux")
    assert status == 0, output
    assert state(tree.vmlinux, tool) == "processed"


@pytest.mark.parametrize("tree", ["6.1"], indirect=True)
def test_without_the_tool_the_kernel_is_as_always(tree: Tree, tmp_path: Path, tool: Tool) -> None:
    path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not (Path(p) / "prologue").exists())
    status, output = tree.relink("vmlinux", tool=None, PATH=path)
    assert status == 0, output
    assert "no 'prologue' in PATH: the kernel writes its prologues at boot" in output
    assert state(tree.vmlinux, tool) == "untouched"
    # The tool of no name is whatever is in PATH, and so is the default.
    tools = tmp_path / "my tools"
    tools.mkdir()
    (tools / "prologue").symlink_to(PROGRAM)
    path = f"{tools}{os.pathsep}{path}"
    done = tree.postlink("", PATH=path)
    assert (done.returncode, state(tree.vmlinux, tool)) == (0, "processed"), done.stderr
    status, output = tree.relink("vmlinux", tool=None, PATH=path)
    assert (status, steps(output)) == (0, ["  PROLOGUE vmlinux"]), output
    assert state(tree.vmlinux, tool) == "processed"
    # A tool that was asked for has to be there.
    status, output = tree.relink("vmlinux", tool="/nowhere/prologue")
    assert status != 0
    assert "/nowhere/prologue" in output
    assert not tree.vmlinux.exists()
    assert tree.make("vmlinux")[0] == 0


def test_what_only_an_exit_would_run_can_be_traced(tree: Tree, tmp_path: Path) -> None:
    """Compilers put destructors there (KASAN, GCOV), and the kernel keeps them until it frees init memory."""
    kept = (tree.path / SOURCE).read_text()
    tree.append(IN_EXIT)
    assert tree.make("vmlinux", "Image")[0] == 0
    (tree.path / SOURCE).write_text(kept)
    sites = Kernel(tree.vmlinux).sites
    symbol = Kernel(tree.vmlinux).symbols.find("prologue_in_exit")
    assert sites is not None
    assert symbol is not None
    assert symbol.vaddr + 4 * ("bti" in tree.recipe.options) in sites.first
    release = next(name for name, recipe in RECIPES.items() if recipe == tree.recipe)
    job = Job(append="ftrace=function ftrace_filter=prologue_in_exit")
    image = tree.path / "out/arch/arm64/boot/Image"
    seen = boot(image, build_initramfs(), tmp_path / "log", job, machine=MACHINES[release])
    assert seen.all("dmesg") == []
    assert seen.one("end").data["functions"] > 10_000
    assert tree.make("vmlinux")[0] == 0


def test_modules_are_processed_before_they_are_signed(tree: Tree, tmp_path: Path) -> None:
    if "signed" not in tree.recipe.options:  # later kernels call no step for modules: one command does them all
        modules = sorted((tree.path / "out").rglob("*.ko"))
        assert main(["patch", str(tree.path / "out"), "--contract", "native", "--in-place", "--quiet"]) == 0
        assert steps(tree.make("modules")[1]) == []
        assert {open_binary(path).state for path in modules} == {"processed"}
        return
    overlay = tree.path / "out/fs/overlayfs/overlay.ko"
    overlay.unlink()
    status, output = tree.make("modules")
    assert (status, steps(output)) == (0, ["  PROLOGUE [M] fs/overlayfs/overlay.ko"]), output
    status, output = tree.make("modules_install", f"INSTALL_MOD_PATH={tmp_path}", "DEPMOD=true")
    assert status == 0, output
    (installed,) = tmp_path.rglob("overlay.ko")
    module = open_binary(installed)
    assert isinstance(module, Module)
    assert module.state == "processed"
    assert module.signature is not None
    assert main(["verify", str(installed), "--vmlinux", str(tree.vmlinux)]) == 0


def test_a_kernel_without_the_marker_says_what_to_do(tree: Tree, mini: Callable[[Spec], Path]) -> None:
    kept = tree.vmlinux.rename(tree.vmlinux.with_name("kept"))
    shutil.copy(mini(Spec(contract="stock")), tree.vmlinux)
    done = tree.postlink(TOOL)
    assert done.returncode != 0
    assert "CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE" in done.stderr
    kept.rename(tree.vmlinux)
