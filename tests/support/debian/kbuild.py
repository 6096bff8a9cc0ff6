"""Builds small arm64 kernels from Debian's kernel source packages, once for everything that decides what comes out.

The tree stays in the cache, objects and all, so that what a kernel developer does next can be tried on a copy of it.
It is built in its own directory ``out``: only then does kbuild write relative paths, and the tree can be moved.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from prologue_bench.errors import BenchError
from prologue_bench.guest import packages
from prologue_bench.host import cache, programs
from prologue_bench.host.events import tail
from prologue_bench.host.progress import shown
from tests.support.debian.source import link_source

if TYPE_CHECKING:
    from prologue_bench.host.progress import Progress

CROSS: Final = programs.CROSS
_CONFIGS: Final = Path(__file__).with_name("configs")
NOT_BUILT: Final = ("Documentation/", "tools/")  # no kernel is another for what is there
_HOST_TOOLS: Final = ("make", "gcc", "flex", "bison", "bc", "perl", "xz", "dpkg-deb")
_LLVM: Final = ("clang", "ld.lld", "llvm-nm", "llvm-objcopy")
# What some options need on the build machine.
_OPTION_TOOLS: Final = {"btf": "pahole", "signed": "openssl"}
# Counts what this file does to a tree; raise it with any change that makes another kernel of the same recipe. The
# cache's key takes it instead of this file's bytes: no kernel is built again for a comment.
_STEPS: Final = 1
_AS_BEFORE: Final = (b"", b"functions 0")  # of the key, for what recipes could once add: no kernel is built anew
# Nothing of our caller's environment gets in (LLVM, KCFLAGS, an outer make's MAKEFLAGS): the cache's key does not
# know of it. The build's own time and user would make two builds of one source differ.
_FIXED: Final = {
    "LC_ALL": "C",
    "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
    "KBUILD_BUILD_USER": "prologue",
    "KBUILD_BUILD_HOST": "prologue",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A kernel to build from a source package: all that decides which kernel comes out.

    ``options`` are files configs/NAME.config, put together. With ``native`` the tree gets our patch and build
    step first; the step is given a tool that does nothing, so that the kernel does not depend on this tool's version.
    ``toolchain`` may end with a version of LLVM, for what this machine's own is too old for.
    ``patch`` is another change of the tree, as ``git diff`` writes it.
    """

    suite: str
    source: str
    toolchain: Literal["gcc", "llvm", "llvm-19"] = "gcc"
    options: tuple[str, ...] = ("minimal",)
    native: bool = False
    patch: bytes = field(default=b"", repr=False)  # too long to print

    @property
    def fragment(self) -> str:
        """The options as Kconfig reads them."""
        parts = (_CONFIGS / f"{name}.config" for name in self.options)
        return "".join(part.read_text(encoding="utf-8") for part in parts)

    @property
    def set_options(self) -> tuple[str, ...]:
        """Lines that Kconfig reads: not comments, except ``# CONFIG_X is not set``."""
        return tuple(line for line in self.fragment.splitlines() if line.startswith(("CONFIG_", "# CONFIG_")))

    @property
    def made_by(self) -> list[bytes]:
        """Parts that decide which kernel comes out: no comment, and nothing that only names it."""
        parts = [self.toolchain, *self.set_options, "native" if self.native else ""]
        return [*(part.encode() for part in parts), *_AS_BEFORE, self.patch]

    @property
    def compilers(self) -> tuple[str, ...]:
        """The programs whose versions decide what comes out; the compiler first, then the linker."""
        if self.toolchain == "gcc":
            return f"{CROSS}gcc", f"{CROSS}ld"
        return tuple(f"{name}{self._suffix}" for name in _LLVM)

    @property
    def make_arguments(self) -> tuple[str, ...]:
        """Arguments of make that select them."""
        if self.toolchain != "gcc":
            return (f"LLVM={self._suffix or 1}",)
        return (f"CROSS_COMPILE={programs.cross_prefix()}",)

    @property
    def _suffix(self) -> str:
        return self.toolchain.removeprefix("llvm")


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A tree with what was built in it. Treat all of it as read-only: it is the cache's."""

    recipe: Recipe
    tree: Path

    @property
    def out(self) -> Path:
        """Directory of the build."""
        return self.tree / "out"

    @property
    def vmlinux(self) -> Path:
        """Path of the vmlinux as linked: never processed."""
        return self.out / "vmlinux"

    @property
    def modules(self) -> tuple[Path, ...]:
        """Paths of the modules, as linked and not signed."""
        return tuple(sorted(self.out.rglob("*.ko")))

    @contextmanager
    def copied(self) -> Iterator[Path]:
        """Lend a tree to build in: hard links of sources, on the cache's file system, and copies of what was built."""
        with tempfile.TemporaryDirectory(dir=cache.root()) as name:
            tree = Path(name) / "tree"
            subprocess.run(["cp", "-al", str(self.tree), str(tree)], check=True)
            shutil.rmtree(tree / "out")
            subprocess.run(["cp", "-a", str(self.out), str(tree / "out")], check=True)
            yield tree


def make(tree: Path, recipe: Recipe, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make in a tree, as its developer would, with nothing of our own environment; output is merged and kept."""
    command = ["make", "-C", str(tree), "O=out", "ARCH=arm64", *recipe.make_arguments, *arguments]
    return subprocess.run(
        command, env={"PATH": os.environ["PATH"], **_FIXED, **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip


def build_kernel(recipe: Recipe, progress: Progress | None = None) -> BuiltKernel:
    """Build the vmlinux and the modules of a recipe; three to six minutes on two cores, 2 GB.

    Raises MissingToolError, what ``packages.download`` raises, and BenchError with the end of make's output.
    """
    with shown(progress) as report:
        compilers = recipe.compilers
        more = (_OPTION_TOOLS[name] for name in recipe.options if name in _OPTION_TOOLS)
        for name in (*_HOST_TOOLS, *compilers, *more):
            programs.find(name)
        if recipe.patch:
            programs.find("patch")
        (deb,) = packages.download(recipe.suite, [recipe.source], report)
        made_by = [deb.name.encode(), *recipe.made_by, b"steps %d" % _STEPS]
        made_by += [programs.version(name) for name in compilers]
        if recipe.native:
            made_by += _our_changes(recipe)
        key = f"builds/{recipe.source}-{hashlib.sha256(b'|'.join(made_by)).hexdigest()[:16]}"
        return BuiltKernel(recipe, cache.produce(key, lambda path: _build(deb, recipe, path, report)))


def _our_changes(recipe: Recipe) -> list[bytes]:
    """Return the content that goes into the tree and makes another kernel."""
    from prologue.kernel_tree.patches import load_patch

    changes = load_patch(recipe.source.removeprefix("linux-source-")).changes
    return [change.text for change in changes if not change.path.startswith(NOT_BUILT)]


def _build(deb: Path, recipe: Recipe, tree: Path, progress: Progress) -> None:
    progress(f"unpacking {deb.stem}", 0.0)
    link_source(deb, tree)
    if recipe.native:
        from prologue.kernel_tree.tree import install

        install(tree)
    if recipe.patch:
        apply_patch(recipe.patch, tree)
    (tree / "out").mkdir()
    options = options_of_release(recipe.set_options, tree)
    fragment = "".join(f"{option}\n" for option in options)
    (tree / "out" / "fragment").write_text(fragment, encoding="utf-8")
    _make(tree, recipe, "-s", f"KCONFIG_ALLCONFIG={tree / 'out' / 'fragment'}", "allnoconfig")
    _require_options(options, (tree / "out" / ".config").read_text(encoding="utf-8"), deb)
    progress(f"building {deb.stem}", 10.0)
    _make(tree, recipe, f"-j{len(os.sched_getaffinity(0))}", "PROLOGUE=true", "vmlinux", "modules")


def apply_patch(patch: bytes, tree: Path) -> None:
    """Change the tree as a patch says, exactly where it says."""
    command = ["patch", "--strip=1", "--fuzz=0", "--batch", "--directory", str(tree)]
    done = subprocess.run(command, input=patch, capture_output=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(command)}: {done.stdout.decode(errors='replace').strip()}")


def options_of_release(options: tuple[str, ...], tree: Path) -> tuple[str, ...]:
    """Name the options as the tree has them: 7.3 has CONFIG_SYSCTL for what was CONFIG_PROC_SYSCTL before."""
    if "config PROC_SYSCTL" in (tree / "fs" / "proc" / "Kconfig").read_text(encoding="utf-8"):
        return options
    return tuple(option.replace("CONFIG_PROC_SYSCTL=", "CONFIG_SYSCTL=") for option in options)


def _require_options(options: tuple[str, ...], config: str, deb: Path) -> None:
    """Check the options: Kconfig drops those it does not know or something else forbids, and says nothing."""
    wanted = {line for line in options if line.startswith("CONFIG_")}
    dropped = sorted(wanted - set(config.splitlines()))
    if dropped:
        raise BenchError(f"{deb.stem} cannot be configured with {', '.join(dropped)}")


def _make(tree: Path, recipe: Recipe, *arguments: str) -> None:
    done = make(tree, recipe, *arguments)
    if done.returncode:
        end = tail(done.stdout.splitlines(), 8)
        raise BenchError(f"make {' '.join(arguments)} failed in {tree}:\n  {end}")
