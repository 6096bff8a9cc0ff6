"""Techniques of public rootkits as ``imitator.c`` has them, each with its findings, and machines to try them on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from tests.real_kernels.booted.conftest import MODULES
from tests.real_kernels.native import MACHINES
from tests.real_kernels.states import programs
from tests.support.debian.kbuild import Recipe, make
from tests.support.debian_modules import build_modules
from tests.support.live_guest import live_guest
from tests.support.needs import needs_built_kernel, needs_kernel, needs_modules
from tests.support.serial_guest import HOST as SERIAL_HOST
from tests.support.serial_guest import serial_guest

_SOURCE: Final = Path(__file__).with_name("imitator.c")
PROGRAM: Final = "vfs_fsync_range"
"""The function with a kprobe of perf that runs a BPF program."""


class Imitation(NamedTuple):
    """One technique: the module ``imitator_NAME``, its parameters, and the findings by code and symbol.

    ``at`` is SYMBOL+OFFSET, whose run-time address the module is given; ``hide`` as ``imitator.c`` has it; ``patches``
    is what a livepatch replaces; a kernel without the symbol ``needs`` cannot do it.
    """

    name: str
    parameters: str
    finds: tuple[tuple[str, str], ...] = ()
    at: str = ""
    hide: int = 7
    patches: str = ""
    needs: str = ""


IMITATIONS: Final = (
    Imitation("ftrace", "technique=ftrace", (("PL509", "vfs_read"),)),
    Imitation("unlisted", "technique=unlisted", (("PL514", "vfs_writev"),), "ftrace_ops_list+0x0", 5),
    Imitation("kprobe", "technique=kprobe", (("PL509", "kallsyms_lookup_name"),), hide=5),
    Imitation("tracepoint", "technique=tracepoint", (("PL509", "__tracepoint_sched_process_exit"),)),
    Imitation("syscall", "technique=pointer", (("PL512", "sys_call_table"),), "sys_call_table+0x340"),
    Imitation("ops", "technique=pointer", (("PL512", "kernfs_file_fops"),), "kernfs_file_fops+0x10"),
    Imitation("branch", "technique=branch", (("PL503", "kernel_halt"),), "kernel_halt+0x10", 5),
    Imitation("list", "", hide=1),
    Imitation("tree", "", hide=2),
    Imitation("kobject", "", hide=4),
    Imitation("program", "technique=program", (("PL509", PROGRAM),), "prog_idr+0x0", 5, needs="bpf_event_mutex"),
    Imitation("patch", "", (("PL510", "cmdline_proc_show"),), hide=0, patches="cmdline_proc_show", needs="klp_patches"),
    Imitation("unlisted_patch", "", (("PL509", "version_proc_show"), ("PL510", "version_proc_show")),
              "klp_patches+0x0", 5, "version_proc_show", "klp_patches"),
    # The last one: the next module may get the memory.
    Imitation("freed", "technique=freed", (("PL509", "kernel_restart"), ("PL509", "kernel_power_off")), hide=0),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Victim:
    """A running machine; ``directory`` has its modules, by name there; ``run`` returns what a shell script prints."""

    vmlinux: Path
    directory: str
    run: Callable[[str], str]
    dump: Callable[[], Path]
    capture: Callable[[], Path]
    imitations: tuple[Imitation, ...]


def write_sources(directory: Path, imitations: tuple[Imitation, ...]) -> Path:
    """Write one module for each technique: the kernel takes no second module of a name, and messages name them."""
    directory.mkdir()
    shutil.copy(_SOURCE, directory)
    for each in imitations:
        patches = f'#define PATCHED "{each.patches}"\n' if each.patches else ""
        (directory / f"imitator_{each.name}.c").write_text(f'{patches}#include "imitator.c"\n')
    (directory / "Kbuild").write_text(f"obj-m := {' '.join(f'imitator_{each.name}.o' for each in imitations)}\n")
    return directory


def imitations_on(vmlinux: Path) -> tuple[Imitation, ...]:
    """What a kernel can do."""
    symbols = Kernel(vmlinux).symbols
    return tuple(each for each in IMITATIONS if not each.needs or symbols.find(each.needs) is not None)


@contextmanager
def native(recipe: Recipe, machine: str, directory: Path) -> Iterator[Victim]:
    """Boot a processed kernel of ours, with its own modules, some of which make direct calls."""
    built = needs_built_kernel(recipe)
    vmlinux = Path(shutil.copy(built.vmlinux, directory / "vmlinux"))
    assert main(["patch", str(vmlinux), "--in-place", "-q"]) == 0
    imitations = imitations_on(vmlinux)
    source = write_sources(directory / "imitators", imitations)
    done = make(built.tree, built.recipe, f"M={source}", "modules")
    assert done.returncode == 0, done.stdout
    files = [*built.modules, *source.glob("*.ko"), _program(directory)]
    with serial_guest(vmlinux, directory, MACHINES[machine], files) as guest:

        def capture() -> Path:
            out = directory / "capture"
            command = ["live", "capture", SERIAL_HOST, "--vmlinux", str(vmlinux), "-o", str(out), "-q"]
            # A process of its own: one at a time has the line to the guest, until it has ended.
            subprocess.run([sys.executable, "-m", "prologue", *command], check=True)
            return out

        guest.run("for module in /ftrace-direct*.ko /overlay.ko; do insmod $module; done")
        yield Victim(vmlinux, "", guest.run, guest.dump, capture, imitations)


@contextmanager
def debian(suite: str, directory: Path) -> Iterator[Victim]:
    """Boot a kernel of Debian's, with some of its modules."""
    kernel = needs_kernel(suite)
    package = needs_modules(kernel)
    imitations = imitations_on(kernel.vmlinux)
    source = write_sources(directory / "imitators", imitations)
    build_modules(kernel, source)
    files = programs() | {f"more/{path.name}": path.read_bytes() for path in source.glob("*.ko")}
    with live_guest(kernel.vmlinux, directory, package=package, modules=MODULES, files=files) as guest:
        yield Victim(guest.vmlinux, "/more", guest.shell, guest.dump, lambda: guest.capture("capture"), imitations)


def _program(directory: Path) -> Path:
    ((name, content),) = programs().items()
    path = directory / Path(name).name
    path.write_bytes(content)
    return path
