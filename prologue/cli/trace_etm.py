"""``prologue trace etm``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.errors import InputError, OutputError, UsageError
from prologue.words import counted

if TYPE_CHECKING:
    from prologue.trace.etm.stream import EtmStream, ProgramText
    from prologue.trace.readers.recording import RecordingHeader, TraceRecords

SCHEMA: Final = "prologue.trace-etm/1"
_HIGHEST_VMID: Final = 0xFFFF  # of 16 bits (Arm ARM, VTTBR_EL2)
HELP: Final = "write a recording as the ETMv4 trace of each CPU, for OpenCSD (trc_pkt_lister)"
EXAMPLES: Final = (
    "  prologue trace etm read.ptrace --vmlinux vmlinux.live -o snapshot/\n"
    "  trc_pkt_lister -ss_dir snapshot -src_name buffer0 -decode\n"
    "  prologue trace etm read.ptrace --vmlinux vmlinux.live --memory vmlinux -o stale/   # a decoder with stale text\n"
)


def add_options(added: argparse.ArgumentParser) -> None:
    """All options."""
    added.add_argument("recording", type=Path, metavar="RECORDING", help="from trace record")
    added.add_argument("--vmlinux", type=Path, required=True, metavar="FILE",
                       help="with the text as executed (from live overlay)")  # fmt: skip
    added.add_argument("--memory", type=Path, metavar="FILE",
                       help="another vmlinux, whose text the decoder gets instead")  # fmt: skip
    added.add_argument("--levels", type=_levels, default=(1, 2), metavar="EL,...",
                       help="exception levels to trace (default: 1,2)")  # fmt: skip
    added.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="a new directory")
    say = added.add_mutually_exclusive_group()
    say.add_argument("--json", action="store_true", help=f"print JSON (schema {SCHEMA})")
    say.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def _levels(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word in ("0", "1", "2", "3") for word in words):
        raise argparse.ArgumentTypeError(f"not exception levels from 0 to 3, with commas: {text!r}")
    return tuple(sorted({int(word) for word in words}))


def run(args: argparse.Namespace) -> int:
    """Write the directory.

    Returns:
        0.

    """
    from prologue.trace.etm.snapshot import write_snapshot
    from prologue.trace.readers.recording import load_recording, senseless

    if args.output.exists() or args.output.is_symlink():
        raise OutputError("is already there: name a new directory", path=args.output)
    header, records = load_recording(args.recording)
    if header.slide is None:
        raise InputError("has no slide: it ends before the kernel relocates itself; record longer", path=args.recording)
    if count := int((senseless(records, header.cpus) | (records["vmid"] > _HIGHEST_VMID)).sum()):
        raise InputError(f"damaged: {count:,} of its records make no sense", path=args.recording)
    _require_levels(args.levels, records)
    text = _text(args.vmlinux, header.slide, header)
    memory = None if args.memory is None else _text(args.memory, header.slide, header)
    streams = write_snapshot(records, text, args.output, levels=args.levels, memory=memory)
    if args.json:
        data = {"schema": SCHEMA, "output": str(args.output), "cpus": [_data(cpu, s) for cpu, s in streams.items()]}
        print(json.dumps(data, indent=2))
    elif not args.quiet:
        for cpu, stream in streams.items():
            print(_line(args, cpu, stream))
    return 0


def _require_levels(levels: tuple[int, ...], records: TraceRecords) -> None:
    """Check that the recording has something of the exception levels that are wanted, if it says any level."""
    import numpy as np

    from prologue.trace.ranges import NO_LEVEL

    there = np.unique(records["level"][(records["count"] != 0) & (records["level"] != NO_LEVEL)]).tolist()
    if there and not set(levels) & set(there):
        wanted, has = (", ".join(f"EL{number}" for number in some) for some in (levels, there))
        raise UsageError(f"--levels: nothing of {wanted} was recorded, but of {has}: name one of these")


def _text(path: Path, slide: int, header: RecordingHeader) -> ProgramText:
    import numpy as np

    from prologue.elf.image import ElfImage
    from prologue.elf.notes import gnu_build_id
    from prologue.trace.etm.stream import ProgramText
    from prologue.trace.ranges import TOP

    image = ElfImage(path)
    own = gnu_build_id(image)
    if not header.may_be_of(own):
        said = f"is another kernel: its build-id is {own or 'unknown'}, recorded {header.build_id.hex()}"
        raise InputError(said, path=path)
    sections = [(section, image.read_at(section.addr, section.size)) for section in image.text_sections]
    return ProgramText(
        [
            (section.addr + slide & TOP, np.frombuffer(data[: len(data) & ~3], "<u4"))
            for section, data in sections
            if data
        ]
    )


def _data(cpu: int, stream: EtmStream) -> dict[str, Any]:
    return {
        "cpu": cpu,
        "source": f"buffer{cpu}",
        "bytes": len(stream.data),
        "ranges": len(stream.starts),
        "instructions": sum(stream.counts),
        "filtered": stream.filtered,
        "unknown": stream.unknown,
    }


def _line(args: argparse.Namespace, cpu: int, stream: EtmStream) -> str:
    instructions, size = counted(sum(stream.counts), "instruction"), counted(len(stream.data), "byte")
    said = f"{args.output}: buffer{cpu}: {instructions} in {size}"
    if stream.filtered:
        said += f"; {stream.filtered:,} of other levels left out"
    if stream.unknown:
        said += f"; {stream.unknown:,} left out, whose text {args.vmlinux} does not have"
    return said
