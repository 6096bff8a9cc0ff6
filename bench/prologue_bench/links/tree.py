"""The directory of a kernel build: how its vmlinux was linked, and the pieces of text that a link can order."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Final

from prologue.elf.image import ElfImage
from prologue_bench.errors import BenchError
from prologue_bench.host.events import tail
from prologue_bench.host.programs import find

_ARCHIVE: Final = "vmlinux.a"  # of everything that is linked; without modules, lib/lib.a comes after it as it is
_COMMANDS: Final = (".vmlinux.unstripped.cmd", ".vmlinux.cmd")  # kernel 6.15 links vmlinux.unstripped
_LINK: Final = "scripts/link-vmlinux.sh"
_SCRIPT: Final = "arch/arm64/kernel/vmlinux.lds"
_CONFIG: Final = "include/config/auto.conf"
# TEXT_MAIN of include/asm-generic/vmlinux.lds.h: the patterns of most functions' sections.
_MAIN_TEXT: Final = re.compile(r"\*\((?P<names>\.text(?: [^)]*)?)\)")
_KCONFIG: Final = re.compile(r"^deps_config :=((?:.*\\\n)*.*)$", re.MULTILINE)
_RECORDED: Final = re.compile(r'^ifneq "\$\((\w+)\)" "(.*)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TextUnit:
    """A section of main text in an object of ``vmlinux.a``: what the linker places as a whole."""

    member: str
    section: str

    def __str__(self) -> str:
        """Return the unit as linker scripts name it (GNU ld and LLD: ``ARCHIVE:FILE(SECTION)``)."""
        return f"{_ARCHIVE}:{self.member}({self.section})"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTree:
    """A finished build.

    ``command`` are the arguments of ``scripts/link-vmlinux.sh``: the linker and its two groups of flags. ``source`` is
    the source tree as the build names it: ``.``, ``..`` or absolute. ``variables`` are those of make that Kconfig
    recorded (``ARCH``, ``CC``, ``LD``, ...): with them make sees the build that there is.
    """

    out: Path
    source: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    script: str  # the linker script as the build preprocessed it
    units: tuple[TextUnit, ...]

    @property
    def granularity(self) -> str:
        """The smallest thing that is moved: ``object``; ``section`` if objects have several (-ffunction-sections)."""
        return "section" if len({unit.member for unit in self.units}) < len(self.units) else "object"


def open_tree(out: Path) -> BuildTree:
    """Read how a build was linked.

    Raises:
        BenchError: not the directory of a finished arm64 build from 6.1 on, one whose link has no order to change, or
            one that was configured again since.

    """
    if not (out / _ARCHIVE).is_file():
        raise BenchError(
            f"{out}: no {_ARCHIVE}: name the directory of a kernel build (O=, 6.1 or newer) with all its objects, "
            "or vmlinux files that you linked"
        )
    config, recorded, script = (_read(out, name) for name in (_CONFIG, f"{_CONFIG}.cmd", _SCRIPT))
    if "CONFIG_LTO_CLANG=y" in config.splitlines():
        raise BenchError(
            f"{out}: LTO makes one object of all: its order of functions cannot be changed after the build"
        )
    source, command = _link_command(out)
    _require_configured(out, source, recorded)
    variables = dict(_RECORDED.findall(recorded))
    units = _units(out, variables, _main_text(out, script)["names"].split())
    if len(units) < 2:
        raise BenchError(f"{out}: fewer than two objects have main text: there is no order to change")
    return BuildTree(
        out=out, source=source, command=command, variables=MappingProxyType(variables),
        script=script, units=units,
    )  # fmt: skip


def _require_configured(out: Path, source: str, recorded: str) -> None:
    """Refuse a build that its next make would configure again: a link of it would be of neither configuration."""
    built = (out / _CONFIG).stat().st_mtime_ns
    sources = _KCONFIG.search(recorded)
    names = sources[1].replace("\\\n", " ").split() if sources else []
    for name in (*([".config"] if (out / ".config").exists() else []), *names):
        # As make looks for it: in the build, then in the source tree.
        path = next((path for path in (out / name, out / source / name) if path.exists()), None)
        if path is None or path.stat().st_mtime_ns > built:
            what = f"{name} is gone since" if path is None else f"{path} is newer than"
            raise BenchError(f"{out}: {what} the configuration that was built: build vmlinux first")


def ordered_script(tree: BuildTree, order: Sequence[str], alignment: int) -> str:
    """Return the tree's linker script with its main text in that order, each unit at a multiple of ``alignment``.

    The units stand before the pattern that all of them match: a linker takes the first match. ``. = ALIGN()`` only
    raises what a section asks for. No table of the kernel changes its order: of initcalls, for one, the order matters.
    """
    at = _main_text(tree.out, tree.script).start()
    placed = "\n".join(f". = ALIGN({alignment}); {unit}" for unit in order)
    return f"{tree.script[:at]}\n{placed}\n{tree.script[at:]}"


def _main_text(out: Path, script: str) -> re.Match[str]:
    match = _MAIN_TEXT.search(script)
    if match is None:
        raise BenchError(f"{out / _SCRIPT}: no pattern *(.text ...) to put an order before")
    return match


def _read(out: Path, name: str) -> str:
    try:
        return (out / name).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise BenchError(f"{out / name}: {error.strerror}: is this an arm64 build that is finished?") from error


def _link_command(out: Path) -> tuple[str, tuple[str, ...]]:
    """Return the source tree and the script's arguments, from the command that kbuild saved."""
    name = next((name for name in _COMMANDS if (out / name).exists()), _COMMANDS[-1])
    _, _, saved = _read(out, name).partition("\n")[0].partition(" := ")
    try:
        words = shlex.split(saved.partition(";")[0].replace("$$", "$"))
    except ValueError:
        words = []
    if len(words) < 4 or not words[0].endswith(_LINK):
        raise BenchError(f"{out / name}: not the command of {_LINK}: how this vmlinux was linked is not known")
    return words[0].removesuffix(_LINK).rstrip("/") or ".", tuple(words[1:4])


def _units(out: Path, variables: Mapping[str, str], patterns: list[str]) -> tuple[TextUnit, ...]:
    """List what the script's pattern for main text takes, in the order of the link."""
    archiver = variables.get("AR", "ar")
    listed = subprocess.run([find(archiver), "t", _ARCHIVE], cwd=out, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise BenchError(f"{out / _ARCHIVE}: {tail(listed.stderr.splitlines(), 1)}")
    return tuple(
        TextUnit(member, name)
        for member in listed.stdout.splitlines()
        for name in dict.fromkeys(section.name for section in ElfImage(out / member).sections if section.size)
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    )
