"""The kernel's own sorttable with our patch, compiled as ``scripts/Makefile`` does it: no kernel has to be built."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from prologue.kernel_tree.git import apply_changes
from prologue.kernel_tree.patches import default_mode, load_patch
from prologue_bench.errors import MissingToolError, UnreachableError
from prologue_bench.guest.packages import download
from tests.support.debian.source import unpacked_source
from tests.support.needs import missing, needs_tools
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


def compile_sorttable(series: str, directory: Path, *flags: str) -> Sorttable:
    """Compile all of them, with sanitizers."""
    tree = _tree(series)
    changed = directory / "sorttable.c"
    changes = {change.path: change for change in load_patch(series, mode="sorttable").changes}
    content = apply_changes(changes[SOURCE].text, {SOURCE: (tree / SOURCE).read_bytes()})[SOURCE]
    assert content is not None
    changed.write_bytes(content)
    (directory / "sorttable-arm64.h").write_bytes(changes["scripts/sorttable-arm64.h"].created)
    make = partial(_compile, tree, directory, flags)
    nops = {pre: make(changed, f"layout{pre}", f"-DARM64_FTRACE_PRE_NOPS={pre}") for pre in (0, 2)}
    return Sorttable(make(tree / SOURCE, "upstream"), make(changed, "plain"), nops)


def _compile(tree: Path, directory: Path, flags: tuple[str, ...], source: Path, name: str, *more: str) -> Path:
    includes = ("-I", tree / "scripts", "-I", tree / "tools/include")
    objects = (source, tree / "scripts/elf-parse.c", "-lpthread")
    command: list[str | Path] = ["gcc", *_FLAGS, *flags, *more, *includes, "-o", directory / name, *objects]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory / name


@cache
def _tree(series: str) -> Path:
    needs_tools("gcc", "git", "xz", "tar", "dpkg-deb")
    suite, package = SOURCES[series]
    try:
        (file,) = download(suite, [package])
    except (MissingToolError, UnreachableError) as error:
        missing(str(error))
        raise  # not reached: missing() does not return
    return unpacked_source(file)
