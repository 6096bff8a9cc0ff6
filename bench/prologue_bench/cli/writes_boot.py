"""``prologue writes boot``: every write to kernel text of one run in QEMU."""

from __future__ import annotations

import argparse
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Final

from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from prologue.outputs import is_null, require_other, require_plain_target
from prologue.report.terminal import note, working
from prologue.words import counted
from prologue_bench.cli.common import MACHINE, add_machine, machine_of
from prologue_bench.exact.build import build_stop
from prologue_bench.exact.writes import WritesRun, record_writes
from prologue_bench.guest.initramfs import pack

_COMMAND_LINE: Final = "console=ttyAMA0 panic=-1"


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    added.add_argument("vmlinux", type=Path, metavar="VMLINUX", help="unstripped; boots on QEMU's virt board")
    added.add_argument("-o", "--output", type=Path, required=True, metavar="OUT",
                       help="the recording, readable by its owner only; FILE.log is the console")  # fmt: skip
    added.add_argument("--image", type=Path, metavar="IMAGE", help="flat Image of that vmlinux (default: made from it)")
    added.add_argument("--initrd", type=Path, metavar="CPIO",
                       help="what to run; it must power off (default: power off at once)")  # fmt: skip
    add_machine(added, least_ram=64, ram=MACHINE.memory)


def run(args: Namespace) -> int:
    """Boot, record, and say what was recorded."""
    log = args.output.with_name(f"{args.output.name}.log")
    to_null = is_null(args.output)
    for out in () if to_null else (args.output, log):
        require_other(out, args.vmlinux, args.image, args.initrd)
        if out.is_symlink() or out.exists():
            require_plain_target(out)
    with tempfile.TemporaryDirectory(prefix="prologue-writes-") as name, working(f"booting {args.vmlinux.name}"):
        directory = Path(name)
        seen = record_writes(
            WritesRun(
                vmlinux=args.vmlinux,
                image=args.image or _image(args.vmlinux, directory),
                initramfs=args.initrd or _stop(directory),
                append=f"{_COMMAND_LINE} {args.append}".strip(),
                machine=machine_of(args),
                timeout=args.timeout,
            ),
            args.output,
            directory,
            directory / "log" if to_null else log,
        )
    note(f"{args.output}: {counted(seen.rows, 'word')} written; next: prologue writes judge {args.output}")
    return 0


def _image(vmlinux: Path, directory: Path) -> Path:
    image = directory / "Image"
    write_flat(ElfImage(vmlinux), image)
    return image


def _stop(directory: Path) -> Path:
    """Make an initramfs whose init powers off."""
    initramfs = directory / "init.cpio"
    initramfs.write_bytes(pack({"init": build_stop().read_bytes()}))
    return initramfs
