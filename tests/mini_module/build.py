"""Builds the mini module in every form that modules come in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from tests.mini_kernel.build import Run, run_command

HERE = Path(__file__).parent
LINKER_SCRIPT = HERE.parent.parent / "linker_scripts" / "mini_module.lds"


@dataclass(frozen=True, slots=True)
class ModuleSpec:
    """One build of the mini module."""

    layout: Literal["2", "4,2"] = "2"
    bti: bool = False
    compiler: Literal["gcc", "clang"] = "gcc"
    linked: bool = True  # with the script; else as compiled, every function in a section of its own
    merged: bool = True  # by the script; else LLD leaves every function and its record in sections of their own
    release: str = "6.12.0-mini"  # that of the mini kernel: mini.h

    def __str__(self) -> str:
        extras = ["bti"] * self.bti + ([] if self.linked else ["unlinked"])
        extras += [] if self.merged else ["unmerged"]
        return "-".join([self.layout.replace(",", "_"), self.compiler, *extras])


def all_modules() -> list[ModuleSpec]:
    """Every layout, landing pad and compiler, linked and as compiled: by GCC, whose records are in one section."""
    choices = product(("2", "4,2"), (False, True), ("gcc", "clang"), (True, False))
    return [ModuleSpec(*choice) for choice in choices if choice[2:] != ("clang", False)]  # type: ignore[arg-type]  # product loses the literals


def build_module(spec: ModuleSpec, directory: Path, run: Run = run_command) -> Path:
    """Compile, and link if asked to; the path of a ``.ko``."""
    compile_ = ["aarch64-linux-gnu-gcc"] if spec.compiler == "gcc" else ["clang", "--target=aarch64-linux-gnu"]
    flags = ["-O2", "-g0", "-ffreestanding", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-common"]
    flags += ["-fno-pie", "-falign-functions=8", "-fno-optimize-sibling-calls", "-Wall", "-Wextra", "-Werror"]
    flags += [f"-fpatchable-function-entry={spec.layout}", f'-DMINI_RELEASE="{spec.release}"']
    flags += [f"-mbranch-protection={'bti' if spec.bti else 'none'}"]
    flags += [] if spec.linked and spec.merged else ["-ffunction-sections"]
    out = directory / "mini.ko"
    compiled = directory / "module.o" if spec.linked else out
    run([*compile_, *flags, "-c", str(HERE / "module.c"), "-o", str(compiled)])
    if not spec.merged:
        run(["ld.lld", "-r", "-T", str(HERE / "unmerged.lds"), "-o", str(out), str(compiled)])
    elif spec.linked:
        link_module(compiled, out, run)
    return out


def link_module(compiled: Path, out: Path, run: Run = run_command) -> None:
    """Link one object as the mini module is linked."""
    run(["aarch64-linux-gnu-ld", "-r", "--build-id=sha1", "-T", str(LINKER_SCRIPT), "-o", str(out), str(compiled)])
