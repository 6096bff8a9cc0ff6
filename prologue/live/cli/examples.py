"""The example that stands for VMLINUX and SOURCE: its memory is a capture beside its kernel."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prologue.cli.examples import examples_with, placed
from prologue.errors import UsageError
from prologue.examples import PREFIX

if TYPE_CHECKING:
    from prologue.examples.listing import KernelListing

_RELEASE: Final = "6.12.0-example"  # as the banner in kernel.lst


def use_example_system(args: argparse.Namespace) -> None:
    """Let an example as VMLINUX stand for SOURCE, too.

    Raises:
        UsageError: no such example, it has no memory, or SOURCE is named as well.

    """
    argument = str(args.vmlinux)
    if not argument.startswith(PREFIX):
        return
    if args.source is not None:
        raise UsageError(f"{argument} stands for VMLINUX and SOURCE: name no SOURCE")
    example = placed(argument)
    if example.memory is None:
        raise UsageError(f"{argument} has no memory: take {examples_with('memory')}")
    args.vmlinux, args.source = example.vmlinux, str(place_memory(example.vmlinux, example.memory))


def place_memory(vmlinux: Path, listing: KernelListing) -> Path:
    """Write a capture beside the example's vmlinux, of the kernel at its link-time addresses; return its path."""
    from prologue.live.memory.capture import write_capture
    from prologue.live.memory.state import KernelState, LiveSymbol
    from prologue.live.memory.write_core import Piece

    symbols = tuple(LiveSymbol(symbol.vaddr, name, "") for name, symbol in listing.symbols.items())
    state = KernelState(release=_RELEASE, boot_id="", modules=(), symbols=symbols, kprobes=())
    vmcoreinfo = (
        f"OSRELEASE={_RELEASE}\nPAGESIZE=4096\nSYMBOL(_stext)={listing.address('_stext'):x}\n"
        "NUMBER(VA_BITS)=48\nNUMBER(TCR_EL1_T1SZ)=0x10\nKERNELOFFSET=0\n"
    )
    pieces = [Piece(section.vaddr, 0, bytes(section.data), ()) for section in listing.sections]
    path = vmlinux.with_name("memory")
    write_capture(path, "an example", state, vmcoreinfo.encode(), pieces)
    return path
