"""``prologue trace etm``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.cli.arguments import add_json
from prologue.errors import InputError, OutputError, UsageError
from prologue.words import counted

if TYPE_CHECKING:
    from prologue.trace.etm.stream import EtmStream
    from prologue.trace.readers.recording import TraceRecords

SCHEMA: Final = "prologue.trace-etm/1"
_LEVELS: Final = (1, 2)  # exception levels of a kernel and its hypervisor
_HIGHEST_VMID: Final = 0xFFFF  # of 16 bits (Arm ARM, VTTBR_EL2)
_HIGHEST_PID: Final = (1 << 22) - 1  # PID_MAX_LIMIT (include/linux/threads.h, 6.12)
HELP: Final = "write a recording as the ETMv4 trace of each CPU, for OpenCSD (trc_pkt_lister) or perf"
EXAMPLES: Final = (
    "  prologue trace etm read.ptrace --vmlinux vmlinux.live -o snapshot/\n"
    "  trc_pkt_lister -ss_dir snapshot -src_name buffer0 -decode\n"
    "  prologue trace etm read.ptrace --vmlinux vmlinux.live --decoder-vmlinux vmlinux -o stale/   # stale text\n"
    "  prologue trace etm read.ptrace --vmlinux vmlinux --perf --memory read.core -o perf.data\n"
    "  perf script -i perf.data --itrace=b\n"
)


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    added.add_argument("recording", type=Path, metavar="RECORDING", help="from trace record")
    added.add_argument("--vmlinux", type=Path, required=True, metavar="VMLINUX",
                       help="with the text as executed (from live overlay)")  # fmt: skip
    added.add_argument("--decoder-vmlinux", type=Path, metavar="VMLINUX",
                       help="the decoder gets the text of this one, stale or not")  # fmt: skip
    added.add_argument("--perf", action="store_true", help="write perf.data, as perf record -e cs_etm// does")
    added.add_argument("--memory", metavar="SOURCE",
                       help="with --perf: the memory (trace record --save-memory) with the text that was executed; "
                            "it is kept, as perf record --kcore does")  # fmt: skip
    added.add_argument("--modules", type=Path, metavar="DIR", help="with --memory: files of the loaded modules")
    added.add_argument("--level", type=int, choices=(0, 1, 2, 3), action="append",
                       help="only this exception level; repeatable (default: 1 and 2)")  # fmt: skip
    added.add_argument("-o", "--output", type=Path, required=True, metavar="OUT",
                       help="a new directory; with --perf and without --memory a file")  # fmt: skip
    add_json(added, "trace-etm")


def run(args: argparse.Namespace) -> int:
    """Write the directory or the file.

    Returns:
        0.

    """
    from prologue.trace.etm.snapshot import write_snapshot
    from prologue.trace.etm.stream import linked_text
    from prologue.trace.readers.recording import invalid_records, load_recording

    _require_fitting(args)
    if args.output.exists() or args.output.is_symlink():
        raise OutputError("is already there: name a new one", path=args.output)
    header, records = load_recording(args.recording)
    if header.slide is None:
        raise InputError("has no slide: it ends before the kernel relocates itself; record longer", path=args.recording)
    wrong = invalid_records(records, header.cpus) | (records["vmid"] > _HIGHEST_VMID) | (records["task"] > _HIGHEST_PID)
    if count := int(wrong.sum()):
        raise InputError(f"damaged: {count:,} of its records make no sense", path=args.recording)
    levels = tuple(sorted(set(args.level or _LEVELS)))
    _require_levels(levels, records, args.recording)
    if args.perf:
        from prologue.trace.cli.etm_perf import write_perf

        streams = write_perf(args, header, records, levels)
    else:
        text = linked_text(args.vmlinux, header)
        other = None if args.decoder_vmlinux is None else linked_text(args.decoder_vmlinux, header)
        streams = write_snapshot(records, text, args.output, levels=levels, memory=other)
    if args.json:
        cpus = [_data(cpu, stream, is_perf=args.perf) for cpu, stream in streams.items()]
        data = {"schema": SCHEMA, "output": str(args.output), "cpus": cpus}
        print(json.dumps(data, indent=2))
    elif not args.quiet:
        for cpu, stream in streams.items():
            print(_line(args, cpu, stream))
    return 0


def _require_fitting(args: argparse.Namespace) -> None:
    if args.perf and args.decoder_vmlinux is not None:
        raise UsageError("--decoder-vmlinux is of snapshots: perf gets its text from --memory or from perf -k")
    if args.memory is not None and not args.perf:
        raise UsageError("--memory is for --perf")
    if args.modules is not None and args.memory is None:
        raise UsageError("--modules needs --memory: only memory says where modules were loaded")


def _require_levels(levels: tuple[int, ...], records: TraceRecords, path: Path) -> None:
    """Check that the recording says exception levels, and has something of those that are wanted."""
    import numpy as np

    from prologue.trace.ranges import NO_LEVEL

    ranges = records["level"][records["count"] != 0]
    recorded = np.unique(ranges[ranges != NO_LEVEL]).tolist()
    if len(ranges) and not recorded:
        raise InputError("says no exception levels, which a trace unit's context needs", path=path)
    if recorded and not set(levels) & set(recorded):
        wanted, has = (", ".join(f"EL{number}" for number in numbers) for numbers in (levels, recorded))
        raise UsageError(f"--level: nothing of {wanted} was recorded, but of {has}: name one of these")


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
    line = f"{args.output}: {source}: {instructions} in {size}"
    if stream.filtered:
        line += f"; {stream.filtered:,} of other levels or guests left out"
    if stream.unknown:
        line += f"; {stream.unknown:,} left out, whose text {args.memory or args.vmlinux} does not have"
    return line
