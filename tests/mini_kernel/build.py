"""Builds the mini kernel in every form that the installed compilers and linkers can make."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
LINKER_SCRIPT = HERE.parent.parent / "linker_scripts" / "mini_kernel.lds.S"
TOOLS = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld", "clang", "ld.lld")

Layout = Literal["2", "4,2"]
Form = Literal["static", "rela", "rela-applied", "relr"]
Compiler = Literal["gcc", "clang"]
Contract = Literal["native", "stock"]
Run = Callable[[list[str]], None]

BUILDTIME_PROLOGUE = "CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE"
_LOADED_AT = 0x40200000  # where QEMU's virt board puts an Image
_LINKED_AT = 0xFFFF800008000000  # where arm64 kernels are linked
_VOFFSET = 0xFFFF800000000000  # MINI_VOFFSET of mini.h

# GNU ld of Debian 12 makes no RELR for arm64, so that form is LLD's.
LINK: dict[Form, list[str]] = {
    "static": ["aarch64-linux-gnu-ld", "-static"],
    "rela": ["aarch64-linux-gnu-ld", "-shared", "-Bsymbolic", "--no-apply-dynamic-relocs"],
    "rela-applied": ["aarch64-linux-gnu-ld", "-shared", "-Bsymbolic"],
    "relr": ["ld.lld", "-shared", "-Bsymbolic", "--pack-dyn-relocs=relr"],
}
_FLAGS = [
    "-O2", "-g0", "-ffreestanding", "-nostdlib", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables", "-mgeneral-regs-only", "-mstrict-align", "-fno-optimize-sibling-calls", "-fno-common",
    "-Wall", "-Wextra", "-Werror",
]  # fmt: skip
# As a listing has them: aligned to 16 bytes, one section each so that what nothing calls is left out.
_SMALL = ["-Os", "-falign-functions=16", "-ffunction-sections", "-fno-jump-tables", "-mcmodel=small"]


@dataclass(frozen=True, slots=True)
class Spec:
    """One build of the mini kernel."""

    layout: Layout = "2"
    bti: bool = False
    compiler: Compiler = "gcc"
    form: Form = "rela"
    contract: Contract = "native"
    zeros: bool = False  # two zero records first, as sorttable leaves them
    weak: bool = False  # an overridden weak function, whose record has no symbol
    labels: bool = False  # a jump label
    ignores_marker: bool = False  # ftrace.c is that of a stock kernel, whatever the contract
    parked: int = 0  # swings of a function whose task is preempted between its slots
    rewritten: int = 0  # rounds of writes to functions that the other CPU runs meanwhile
    options: tuple[str, ...] = ()  # more of the compiler's, for ftrace.c
    marker: Literal[1, 2] = 1  # version, of the native contract
    plain: bool = False  # with version 2: records as sorted addresses
    listed: bool = False  # static, small, and mapped at a kernel's address: what is in prologue/examples/small.lst

    def __str__(self) -> str:
        extras = [name for name in ("bti", "zeros", "weak", "labels", "plain", "listed") if getattr(self, name)]
        extras += ["marker2"] * (self.marker == 2)
        extras += [f"parked{self.parked}"] * bool(self.parked)
        extras += [f"rewritten{self.rewritten}"] * bool(self.rewritten)
        extras += ["ignores-marker"] * self.ignores_marker + [option.lstrip("-") for option in self.options]
        return "-".join([self.layout.replace(",", "_"), self.compiler, self.form, self.contract, *extras])


def all_specs() -> list[Spec]:
    """Every layout, landing pad, compiler, relocation form and contract."""
    choices = product(("2", "4,2"), (False, True), ("gcc", "clang"), LINK, ("native", "stock"))
    specs = [Spec(*choice) for choice in choices]  # type: ignore[arg-type]  # product loses the literals
    second = [replace(spec, marker=2) for spec in specs if spec.contract == "native"]
    plain = [replace(spec, plain=True) for spec in second if spec.layout == "2" and not spec.bti]
    return [*specs, *second, *plain]


def run_command(command: list[str]) -> None:
    """Run a step of a build.

    Raises:
        RuntimeError: it failed; with what it said.

    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def build(spec: Spec, directory: Path, run: Run = run_command) -> Path:
    """Compile and link into ``directory``; the path of a vmlinux-like ELF file."""
    compile_ = ["aarch64-linux-gnu-gcc"] if spec.compiler == "gcc" else ["clang", "--target=aarch64-linux-gnu"]
    flags = [*_FLAGS, f"-mbranch-protection={'bti' if spec.bti else 'none'}", f"-I{HERE}"]
    flags += ["-fno-pie"] if spec.form == "static" else ["-fpie"]
    defines = {"LAYOUT": f'"{spec.layout}"', "FORM": f'"{spec.form}"', "BTI": int(spec.bti)}
    defines["LINK_ADDR"] = hex(_link_address(spec))
    flags += [f"-DMINI_{name}={value}" for name, value in defines.items()]
    flags += ["-DMINI_CALL_OPS"] * (spec.layout == "4,2") + ["-DMINI_STOCK"] * (spec.contract == "stock")
    flags += [f"-DMINI_MARKER={spec.marker}"] + ["-DMINI_PLAIN"] * spec.plain
    flags += [*_SMALL, "-DMINI_MAPPED"] * spec.listed
    flags += [f"-DMINI_PARKED={spec.parked}"] * bool(spec.parked)
    flags += [f"-DMINI_REWRITTEN={spec.rewritten}"] * bool(spec.rewritten)
    traced = [
        f"-fpatchable-function-entry={spec.layout}",
        "-ffixed-x9",
        f"-falign-functions={16 if spec.listed else 8}",
    ]
    sources = ["zeros.S"] * spec.zeros + ["head.S", "main.c", "ftrace.c", "insn.c"] + ["labels.S"] * spec.labels
    sources += ["weak.c"] * spec.weak + ["parked.S", "parked.c"] * bool(spec.parked)
    sources += ["rewritten.S", "rewritten.c"] * bool(spec.rewritten) + ["work.c"]
    objects = []
    for source in sources:
        target = directory / f"{source}.o"
        more = traced if source in ("work.c", "weak.c", "parked.c") else []
        if source == "ftrace.c":
            more = [*["-DMINI_STOCK"] * spec.ignores_marker, *spec.options]
        run([*compile_, *flags, *more, "-c", str(HERE / source), "-o", str(target)])
        objects.append(str(target))
    out = directory / f"mini-{spec}"
    link(spec, objects, out, run)
    return out


def link(spec: Spec, objects: list[str], out: Path, run: Run = run_command) -> None:
    """Link ``objects`` as the mini kernel of ``spec`` is linked."""
    script = out.with_name("mini_kernel.lds")
    defines = [f"MINI_LINK_ADDR={_link_address(spec):#x}"] + [BUILDTIME_PROLOGUE] * _marker_of_script(spec)
    preprocess(LINKER_SCRIPT, script, *defines, run=run)
    options = ["--gc-sections"] * spec.listed + ["--build-id=none", "-z", "max-page-size=4096", "-T", str(script)]
    run([*LINK[spec.form], *options, "-o", str(out), *objects])


def _marker_of_script(spec: Spec) -> bool:
    return spec.contract == "native" and spec.marker == 1


def preprocess(source: Path, script: Path, *defines: str, run: Run = run_command) -> None:
    """Make a linker script from an ``.lds.S`` file, as kernel builds do."""
    cpp = ["aarch64-linux-gnu-gcc", "-E", "-P", "-x", "c", "-undef", "-DLINKER_SCRIPT"]
    run([*cpp, *(f"-D{define}" for define in defines), "-o", str(script), str(source)])


def _link_address(spec: Spec) -> int:
    if spec.listed:
        return _LOADED_AT | _VOFFSET
    return _LOADED_AT if spec.form == "static" else _LINKED_AT


def missing_tools() -> list[str]:
    """Which of the programs are not installed."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]
