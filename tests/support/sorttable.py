"""The kernel's own sorttable with our patch, compiled as ``scripts/Makefile`` does it: no kernel has to be built."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from prologue.kernel_tree.git import apply_changes
from prologue.kernel_tree.patches import default_mode, load_patch
from tests.support.debian.source import unpacked_source
from tests.support.needs import needs_packages, needs_tools
from tests.support.trees import SOURCES

SOURCE: Final = "scripts/sorttable.c"
SERIES: Final = tuple(series for series in SOURCES if default_mode(series) == "sorttable")
# KBUILD_USERHOSTCFLAGS of the top Makefile, and more. The kernel's get_unaligned_le32() shifts an int to its sign bit.
_FLAGS: Final = ("-Wall", "-Wextra", "-Wno-sign-compare", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Werror",
                 "-O2", "-fomit-frame-pointer", "-std=gnu11", "-fsanitize=address,undefined",
                 "-fno-sanitize=shift", "-fno-sanitize-recover=all", "-DMCOUNT_SORT_ENABLED")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sorttable:
    """The programs: ``upstream`` without the patch, ``plain`` without the option, ``layouts`` by NOPs before."""

    upstream: Path
    plain: Path
    layouts: dict[int, Path]


@dataclass(frozen=True, slots=True)
class Patched:
    """The patched source in a directory of its own, and the tree that it is of."""

    tree: Path
    source: Path

    @property
    def includes(self) -> tuple[str, ...]:
        """As ``scripts/Makefile`` has them; ``sorttable-arm64.h`` is beside the source."""
        return f"-I{self.tree}/scripts", f"-I{self.tree}/tools/include", f"-I{self.source.parent}"


def patch_sorttable(series: str, directory: Path) -> Patched:
    """Write ``sorttable.c`` and ``sorttable-arm64.h`` as the series leaves them."""
    tree = _tree(series)
    changed = directory / "sorttable.c"
    changes = {change.path: change for change in load_patch(series, mode="sorttable").changes}
    content = apply_changes(changes[SOURCE].text, {SOURCE: (tree / SOURCE).read_bytes()})[SOURCE]
    assert content is not None
    changed.write_bytes(content)
    (directory / "sorttable-arm64.h").write_bytes(changes["scripts/sorttable-arm64.h"].created)
    return Patched(tree, changed)


def compile_sorttable(series: str, directory: Path, *flags: str) -> Sorttable:
    """Compile all of them, with sanitizers."""
    patched = patch_sorttable(series, directory)
    make = partial(_compile, patched, flags)
    nops = {pre: make(patched.source, f"layout{pre}", f"-DARM64_FTRACE_PRE_NOPS={pre}") for pre in (0, 2)}
    return Sorttable(make(patched.tree / SOURCE, "upstream"), make(patched.source, "plain"), nops)


def _compile(patched: Patched, flags: tuple[str, ...], source: Path, name: str, *more: str) -> Path:
    program = patched.source.with_name(name)
    objects = (source, patched.tree / "scripts/elf-parse.c", "-lpthread")
    command: list[str | Path] = ["gcc", *_FLAGS, *flags, *more, *patched.includes, "-o", program, *objects]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


@cache
def _tree(series: str) -> Path:
    needs_tools("gcc", "git", "xz", "tar", "dpkg-deb")
    return unpacked_source(*needs_packages(*SOURCES[series]))
