"""One file of a kernel, compiled as that kernel's make does: with the headers it needs, and with any configuration.

The cache holds no tree, only the files that ``arch/arm64/kernel/ftrace.c`` includes, as Debian has them, and the
compiler's command.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from prologue_bench.host import cache, programs
from tests.support.debian.kbuild import Recipe, make
from tests.support.debian.source import link_source
from tests.support.needs import needs_packages, needs_tools
from tests.support.trees import SOURCES

SOURCE: Final = "arch/arm64/kernel/ftrace.c"
OBJECT: Final = SOURCE.replace(".c", ".o")
KCONFIG_HEADER: Final = "-include ../include/linux/kconfig.h"
# Clang is the stricter one; the distribution's is too old for the latest release.
TOOLCHAINS: Final = {"6.1": "gcc", "6.12": "llvm", "7.2": "gcc", "7.3": "gcc"}
_COMPILERS: Final = {"gcc": "aarch64-linux-gnu-gcc", "llvm": "clang"}
_LAYOUT: Final = 1  # of the cache's entry


@dataclass(frozen=True, slots=True)
class OneObject:
    """What one object is made of; the cache's, so read-only."""

    tree: Path

    def read(self, name: str) -> bytes:
        """A file of the kernel's source."""
        return (self.tree / name).read_bytes()

    def warnings(self, changed: Mapping[str, bytes], on: Iterable[str], off: Iterable[str], scratch: Path) -> list[str]:
        """Compile with these files in place of the tree's, and these options; the warnings, without line numbers."""
        overlay = scratch / "overlay"
        for name, content in changed.items():
            (overlay / name).parent.mkdir(parents=True, exist_ok=True)
            (overlay / name).write_bytes(content)
        header = scratch / "options.h"
        lines = [f"#undef CONFIG_{name}\n" for name in (*off, *on)] + [f"#define CONFIG_{name} 1\n" for name in on]
        header.write_text("".join(lines))
        command = (self.tree / "command").read_text()
        for old, new in (
            (KCONFIG_HEADER, f"{KCONFIG_HEADER} -include {header}"),
            (" -nostdinc ", f" -nostdinc -I{overlay}/arch/arm64/include -I{overlay}/include "),
            (f" ../{SOURCE}", f" {overlay}/{SOURCE}"),
            (f" -o {OBJECT}", f" -o {scratch}/object.o"),
        ):
            assert command.count(old) == 1, old
            command = command.replace(old, new)
        done = subprocess.run(
            shlex.split(command), cwd=self.tree / "out", capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return re.findall(r"(?m)^.*?:\d+:\d+: warning: (.*)$", done.stderr)


def needs_one_object(series: str) -> OneObject:
    """The object of a release."""
    suite, package = SOURCES[series]
    recipe = Recipe(suite=suite, source=package, toolchain="gcc" if TOOLCHAINS[series] == "gcc" else "llvm")
    needs_tools("make", "gcc", "flex", "bison", "bc", "perl", "xz", "dpkg-deb", _COMPILERS[recipe.toolchain])
    (deb,) = needs_packages(suite, package)
    made_by = [*recipe.made_by, b"layout %d" % _LAYOUT, programs.version(_COMPILERS[recipe.toolchain])]
    key = f"objects/{deb.stem}-{hashlib.sha256(b'|'.join(made_by)).hexdigest()[:16]}"
    return OneObject(cache.produce(key, partial(_compile, deb, recipe)))


def _compile(deb: Path, recipe: Recipe, directory: Path) -> None:
    tree = directory.with_name(f"{directory.name}.tree")
    try:
        link_source(deb, tree)
        (tree / "out").mkdir()
        (tree / "out" / "fragment").write_text(recipe.fragment)
        for arguments in (
            ("-s", f"KCONFIG_ALLCONFIG={tree / 'out' / 'fragment'}", "allnoconfig"),
            ("-s", "W=1", "KCFLAGS=-Wunused-function", OBJECT),
        ):
            done = make(tree, recipe, *arguments)
            assert done.returncode == 0, done.stdout
        _keep(tree, directory)
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _keep(tree: Path, directory: Path) -> None:
    """Copy what the compiler has read, and its command."""
    saved = (tree / "out" / "arch/arm64/kernel/.ftrace.o.cmd").read_text()
    command = re.match(r"(?:saved)?cmd_\S+ := (.*?)(?: ; .*)?\n", saved)
    assert command is not None
    directory.mkdir()
    # The list of dependencies is not wanted, and would be written into the cache.
    (directory / "command").write_text(re.sub(r" -Wp,-MM?D,\S+", "", command[1]))
    # kbuild leaves the configuration out: each option of it is a dependency by itself.
    names = {SOURCE, "out/include/generated/autoconf.h"}
    for name in re.findall(r"(?m)^  (\S+\.[hc]) \\$", saved):
        names.add(name.removeprefix("../") if name.startswith("../") else f"out/{name}")
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / name, directory / name)
