"""Turns the options of ``prologue trace`` into a trace that is read once, with its kernels, and filters."""

from __future__ import annotations

import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

import numpy as np

from prologue.arrays import I64, Bool
from prologue.cli.arguments import examples_with, number, placed, require_html
from prologue.errors import UsageError
from prologue.examples import PREFIX
from prologue.outputs import require_other
from prologue.report.terminal import is_quiet
from prologue.trace.cli.notes import left_out_lines, unmatched, warnings
from prologue.trace.path import kernel_images
from prologue.trace.path.assign import Kernels
from prologue.trace.path.check import ImageCheck
from prologue.trace.path.filters import Filters, Selection
from prologue.trace.path.history import TextHistory, read_history
from prologue.trace.path.kernel_images import GuestImage, HostImage
from prologue.trace.path.known import KnownRanges
from prologue.trace.ranges import Batch
from prologue.trace.readers.sources import Trace, open_trace
from prologue.trace.readers.streams import STDIN
from prologue.trace.views.summary import TraceSummary

_SKEW: Final = 10_000_000  # ns
_GUEST: Final = re.compile(r"(.*)@([0-9]{0,10})(?:\+(.*))?")  # a VMID or a process, which has at most 31 bits
_HIGHEST_GUEST: Final = (1 << 31) - 1
_LATEST: Final = Decimal((1 << 64) - 1) / 10**9  # s
_EVERY: Final = 0.5  # seconds between two states of a progress that are shown
_STDIN: Final = Path("/dev/stdin")  # leads to the file that a shell redirected from


def use_example_trace(args: Namespace) -> None:
    """Let an example as TRACE stand for ``--vmlinux``, too, unless that is given.

    Raises:
        UsageError: no such example, or it has no trace.

    """
    if not args.trace.startswith(PREFIX):
        return
    example = placed(args.trace)
    if example.trace is None:
        raise UsageError(f"{args.trace} has no trace: take {examples_with('trace')}")
    args.trace = str(example.trace)
    args.vmlinux = args.vmlinux or example.vmlinux


def require_no_input(out: Path | None, args: Namespace) -> None:
    """Refuse an output that would replace one of the files that are read.

    Raises:
        OutputError: it would.

    """
    if out is not None:
        require_other(out, *_input_files(args))


def require_report(args: Namespace) -> None:
    """Refuse, before the work, a report that cannot be written.

    Raises:
        UsageError: a file for text, which goes to standard output and standard error.
        InputError: HTML without Jinja2.
        OutputError: the report would replace an input.

    """
    if args.output is not None and args.format == "text":
        raise UsageError("-o is for --json and --format html")
    require_html(args.format)
    require_no_input(args.output, args)


def _input_files(args: Namespace) -> Iterator[Path]:
    """Yield every file that the options name; not all need to be there."""
    yield _STDIN if args.trace == STDIN else Path(args.trace)
    if args.vmlinux is not None:
        yield args.vmlinux
    yield from (Path(text.rpartition("@")[0] or text) for text in args.guest_vmlinux)  # the file of VMLINUX@ID
    yield from map(Path, args.guest_vmlinux)
    if args.writes is not None:
        yield args.writes
    for source in (args.memory, getattr(args, "explain", None)):
        if source is not None:
            yield Path(source)
    if args.modules is not None and args.modules.is_dir():
        from prologue.kernel.load import find_modules

        yield from find_modules(args.modules)


def open_kernels(args: Namespace, trace: Trace, explained: int | None = None) -> Kernels:
    """Open the kernels that the options name; ``explained`` is the host's slide in the memory of ``--explain``.

    Raises:
        InputError, UsageError: as ``kernel_images.open_kernels``, and for options that do not go together.

    """
    slide = None if args.slide is None else number("--slide", args.slide)
    guests = [_guest_image(text) for text in args.guest_vmlinux]
    if args.memory is None and slide is None and trace.decoded is not None and trace.decoded.kcore is not None:
        args.memory = str(trace.decoded.kcore)
    if args.vmlinux is None:
        _require_no_file_options(args)
    if args.memory is not None and slide is not None:
        raise UsageError("--slide is for --vmlinux without --memory, which says where it is")
    if args.memory is None and args.modules is not None:
        raise UsageError("--modules needs --memory: only memory says where modules were loaded")
    if trace.decoded is not None:
        trace.decoded.progress = progress_on_terminal()
    known = None if explained is None else (explained, args.explain)
    host = HostImage(
        vmlinux=args.vmlinux,
        memory=args.memory,
        modules=args.modules,
        slide=slide,
        explained=known,
        symfs=args.symfs,
    )
    return kernel_images.open_kernels(trace, host, guests)


def _require_no_file_options(args: Namespace) -> None:
    """Refuse what only a vmlinux answers."""
    options = {"--slide": args.slide, "--modules": args.modules, "--explain": getattr(args, "explain", None)}
    given = [option for option, value in options.items() if value is not None]
    if getattr(args, "format", None) == "srcline":
        given.append("--format srcline")
    if given:
        raise UsageError(f"{given[0]} needs --vmlinux: memory and kallsyms do not say it")


def progress_on_terminal() -> Callable[[int, int], None] | None:
    """Return what shows bytes decoded and the time left; None with ``--quiet``, or if standard output is a terminal.

    None, too, if standard error is not one.
    """
    if sys.stdout.isatty() or is_quiet() or not sys.stderr.isatty():
        return None
    begun = shown = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < _EVERY and done < total:
            return
        shown = now
        left = (now - begun) * (total - done) / done if done else 0
        text = f"decoding: {done / max(total, 1):.0%} of {total:,} bytes, {left:.0f} s left" if done < total else ""
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return show


def open_history(args: Namespace, trace: Trace, kernels: Kernels) -> TextHistory | None:
    """Read the writes to the host's text that ``--writes`` names, or that perf.data has; errors as ``read_history``."""
    writes, decoded, host = args.writes, trace.decoded, kernels.host
    if writes is None and decoded is not None and decoded.changes is not None:
        vaddrs = decoded.changes.vaddrs
        writes = decoded.poked if (host.piece_of(vaddrs, vaddrs + np.uint64(4)) >= 0).any() else None
    if writes is None:
        return None
    return read_history(writes, host, _SKEW, says_exceptions=trace.kind != "perf")


def _guest_image(text: str) -> GuestImage:
    if "@" not in text or Path(text).exists():
        return GuestImage(Path(text))
    match = _GUEST.fullmatch(text)
    if match is None or int(match[2] or 0) > _HIGHEST_GUEST:
        raise UsageError(f"--guest-vmlinux {text}: expected VMLINUX, VMLINUX@ID or VMLINUX@ID+SLIDE")
    slide = 0 if match[3] is None else number("--guest-vmlinux", match[3])
    return GuestImage(Path(match[1]), int(match[2]) if match[2] else None, slide)


def make_filters(args: Namespace, kernels: Kernels) -> Filters:
    """Make the filters: what of the trace to look at.

    Raises:
        InputError: a function that no image has.
        UsageError: times that are none.

    """
    return Filters(
        places=tuple(kernels.find_symbols(args.symbols)),
        cpus=frozenset(args.cpu or ()),
        times=_times(args.time),
        levels=frozenset(args.level or ()),
        pids=frozenset(args.pid or ()),
        comms=frozenset(args.comm),
    )


def _times(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    begin, comma, end = text.partition(",")
    try:
        first, last = _nanoseconds(begin.strip() or "0"), _nanoseconds(end.strip() or "Infinity")
    except ArithmeticError:
        comma = ""
        first = last = 0
    if not comma:
        raise UsageError(f"--time {text}: expected FROM,TO in seconds")
    if first > last:
        raise UsageError(f"--time {text}: ends before it begins")
    return first, last


def _nanoseconds(seconds: str) -> int:
    """Return the nearest time that a trace can have: 64 bits, and exact, which a float of seconds since 1970 is not."""
    return int(min(max(Decimal(seconds), Decimal(0)), _LATEST) * 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReading:
    """A trace, the kernels that its options name, and what is learned of both while it is read."""

    args: Namespace
    trace: Trace
    kernels: Kernels
    known: KnownRanges
    check: ImageCheck
    summary: TraceSummary

    def passing(self, filters: Filters) -> Iterator[tuple[Batch, I64, Bool, tuple[Batch, I64]]]:
        """Read the trace: yield batches, the numbers of their ranges, which of these pass, and those that do."""
        selection = Selection()
        for batch, numbers in self.check.executed(self.trace):
            keep = filters.mask(batch, numbers, self.known)
            wanted = selection.take(batch, numbers, keep)
            self.summary.add(*wanted)
            yield batch, numbers, keep, wanted

    def notes(
        self, filters: Filters, extra: Sequence[str] = (), entered: Set[tuple[int, int]] = frozenset()
    ) -> list[str]:
        """Return what is to be said in the end; ``extra`` is of one command, ``entered`` are roots of call trees."""
        return [
            *warnings(self.check, self.trace, self.args),
            *unmatched(self.args, filters, self.known, entered),
            *self.summary.lines(),
            *extra,
            *left_out_lines(self.check),
            *self.trace.account.lines(),
        ]


@contextmanager
def begin_reading(args: Namespace, explained: int | None = None) -> Iterator[TraceReading]:
    """Open the trace and the kernels that the options name; errors as of what opens them, ``explained`` as there."""
    with open_trace(args.trace) as trace:
        kernels = open_kernels(args, trace, explained)
        known = KnownRanges(kernels, open_history(args, trace, kernels))
        check, summary = ImageCheck(known, trace), TraceSummary(known)
        yield TraceReading(args=args, trace=trace, kernels=kernels, known=known, check=check, summary=summary)
