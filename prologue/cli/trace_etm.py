"""``prologue trace etm``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.errors import InputError, OutputError, UsageError
from prologue.words import counted

if TYPE_CHECKING:
    from prologue.trace.etm.stream import EtmStream
    from prologue.trace.readers.recording import TraceRecords

SCHEMA: Final = "prologue.trace-etm/1"
_HIGHEST_VMID: Final = 0xFFFF  # of 16 bits (Arm ARM, VTTBR_EL2)
_HIGHEST_PID: Final = (1 << 22) - 1  # PID_MAX_LIMIT (include/linux/threads.h, 6.12)
HELP: Final = "write a recording as the ETMv4 trace of each CPU, for OpenCSD (trc_pkt_lister) or perf"
EXAMPLES: Final = (
    "  prologue trace etm read.ptrace --vmlinux vmlinux.live -o snapshot/\n"
    "  trc_pkt_lister -ss_dir snapshot -src_name buffer0 -decode\n"
    "  prologue trace etm read.ptrace --vmlinux vmlinux.live --memory vmlinux -o stale/   # a decoder with stale text\n"
    "  prologue trace etm read.ptrace --vmlinux vmlinux --perf --kcore read.core -o perf.data\n"
    "  perf script -i perf.data --itrace=b\n"
)


def add_options(added: argparse.ArgumentParser) -> None:
    """All options."""
    added.add_argument("recording", type=Path, metavar="RECORDING", help="from trace record")
    added.add_argument("--vmlinux", type=Path, required=True, metavar="FILE",
                       help="with the text as executed (from live overlay)")  # fmt: skip
    added.add_argument("--memory", type=Path, metavar="FILE",
                       help="another vmlinux, whose text the decoder gets instead")  # fmt: skip
    added.add_argument("--perf", action="store_true", help="write perf.data, as perf record -e cs_etm// does")
    added.add_argument("--kcore", metavar="SOURCE",
                       help="with --perf: the memory (trace record --dump) with the text that was executed; "
                            "it is kept, as perf record --kcore does")  # fmt: skip
    added.add_argument("--modules", type=Path, metavar="DIR", help="with --kcore: files of the loaded modules")
    added.add_argument("--levels", type=_levels, default=(1, 2), metavar="EL,...",
                       help="exception levels to trace (default: 1,2)")  # fmt: skip
    added.add_argument("-o", "--output", type=Path, required=True, metavar="PATH",
                       help="a new directory; with --perf and without --kcore a file")  # fmt: skip
    say = added.add_mutually_exclusive_group()
    say.add_argument("--json", action="store_true", help=f"print JSON (schema {SCHEMA})")
    say.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def _levels(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word in ("0", "1", "2", "3") for word in words):
        raise argparse.ArgumentTypeError(f"not exception levels from 0 to 3, with commas: {text!r}")
    return tuple(sorted({int(word) for word in words}))


def run(args: argparse.Namespace) -> int:
    """Write the directory or the file.

    Returns:
        0.

    """
    from prologue.trace.etm.linked_text import linked_text
    from prologue.trace.etm.snapshot import write_snapshot
    from prologue.trace.readers.recording import load_recording, senseless

    _require_fitting(args)
    if args.output.exists() or args.output.is_symlink():
        raise OutputError("is already there: name a new one", path=args.output)
    header, records = load_recording(args.recording)
    if header.slide is None:
        raise InputError("has no slide: it ends before the kernel relocates itself; record longer", path=args.recording)
    wrong = senseless(records, header.cpus) | (records["vmid"] > _HIGHEST_VMID) | (records["task"] > _HIGHEST_PID)
    if count := int(wrong.sum()):
        raise InputError(f"damaged: {count:,} of its records make no sense", path=args.recording)
    _require_levels(args.levels, records)
    if args.perf:
        from prologue.cli.trace_etm_perf import write_perf

        streams = write_perf(args, header, records)
    else:
        text = linked_text(args.vmlinux, header)
        memory = None if args.memory is None else linked_text(args.memory, header)
        streams = write_snapshot(records, text, args.output, levels=args.levels, memory=memory)
    if args.json:
        cpus = [_data(cpu, stream, is_perf=args.perf) for cpu, stream in streams.items()]
        data = {"schema": SCHEMA, "output": str(args.output), "cpus": cpus}
        print(json.dumps(data, indent=2))
    elif not args.quiet:
        for cpu, stream in streams.items():
            print(_line(args, cpu, stream))
    return 0


def _require_fitting(args: argparse.Namespace) -> None:
    if args.perf and args.memory is not None:
        raise UsageError("--memory is of snapshots: a decoder of perf.data gets its text from --kcore or from perf -k")
    if args.kcore is not None and not args.perf:
        raise UsageError("--kcore is for --perf")
    if args.modules is not None and args.kcore is None:
        raise UsageError("--modules needs --kcore: only memory says where modules were loaded")


def _require_levels(levels: tuple[int, ...], records: TraceRecords) -> None:
    """Check that the recording has something of the exception levels that are wanted, if it says any level."""
    import numpy as np

    from prologue.trace.ranges import NO_LEVEL

    there = np.unique(records["level"][(records["count"] != 0) & (records["level"] != NO_LEVEL)]).tolist()
    if there and not set(levels) & set(there):
        wanted, has = (", ".join(f"EL{number}" for number in some) for some in (levels, there))
        raise UsageError(f"--levels: nothing of {wanted} was recorded, but of {has}: name one of these")


def _data(cpu: int, stream: EtmStream, *, is_perf: bool) -> dict[str, Any]:
    return {
        "cpu": cpu,
        "source": None if is_perf else f"buffer{cpu}",
        "bytes": len(stream.data),
        "ranges": len(stream.starts),
        "instructions": sum(stream.counts),
        "filtered": stream.filtered,
        "unknown": stream.unknown,
    }


def _line(args: argparse.Namespace, cpu: int, stream: EtmStream) -> str:
    instructions, size = counted(sum(stream.counts), "instruction"), counted(len(stream.data), "byte")
    source = f"CPU {cpu}" if args.perf else f"buffer{cpu}"
    said = f"{args.output}: {source}: {instructions} in {size}"
    if stream.filtered:
        said += f"; {stream.filtered:,} of other levels or guests left out"
    if stream.unknown:
        said += f"; {stream.unknown:,} left out, whose text {args.kcore or args.vmlinux} does not have"
    return said
