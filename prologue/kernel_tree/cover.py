"""The cover letter of a series: what it does, in which order, and figures that were measured."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prologue.documents import parse_json
from prologue.errors import InputError
from prologue.words import counted

if TYPE_CHECKING:
    from prologue.kernel_tree.patches import KernelPatch, Mode

SUBJECTS: Final[dict[Mode, str]] = {
    "boot": "arm64: ftrace: make all callsites in one loop at boot",
    "build": "arm64: ftrace: prologues that the build writes",
}
_COUNTS: Final = "prologue.exact-counts/1"
_SCAN: Final = "prologue.scan/1"

_PAIR: Final = """\
Each function that can be traced begins with two NOPs. ftrace_init() makes
the first one MOV X9, LR at boot, for each of tens of thousands of
functions; only then may tracing swing the second one between NOP and BL.
"""
_WHY: Final[dict[Mode, str]] = {
    "boot": f"""\
{_PAIR}
It does so as if other CPUs were running. Before other CPUs are up, one
loop through the linear alias does it for a small part of the instructions,
and literals and checks can wait until something is traced.
""",
    "build": f"""\
{_PAIR}
The first patches make that cheaper for every kernel: one loop at boot, and
literals and checks when something is first traced. The others let a build
step after the link write the MOVs, and sorted records that nothing
relocates. ftrace_init() then copies the records, and does nothing else for
a function.

The option is off by default. A kernel that was not processed boots as
before, from the same source, and modules can be processed or not.
""",
}
_STEPS: Final = {
    "literals": "checks callsites and sets literals before the first BL of all",
    "loop": "makes the records and writes the MOVs in one loop",
    "accept": "accepts a MOV that is there, and puts a BL only after one",
    "marker": "adds the option, and the marker that tells the kernel",
    "step": "adds the build step, which sets the marker",
    "sorttable": "does the same in scripts/sorttable, without another tool",
    "documentation": "describes all of it",
    "selftest": "passes whether the kernel or the build wrote the prologues",
}


def cover_text(series: KernelPatch, figures: Sequence[Sequence[str]]) -> str:
    """Write the letter's text for one release, 75 columns at most; ``figures`` are the lines of each file."""
    paragraphs = [_WHY[series.mode], f"Made for Linux {series.series}. Each patch stands without those after it:\n"]
    width = len(str(len(series.patches)))
    paragraphs.append("".join(f"  {k:{width}}  {_STEPS[p.step]}\n" for k, p in enumerate(series.patches, 1)))
    paragraphs += ["".join(f"{line}\n" for line in lines) for lines in figures]
    return "\n".join(paragraphs)


def read_figures(path: Path) -> list[str]:
    """Read figures, as lines of the letter, of ``bench/exact_counts.py --json`` or ``prologue scan --json``.

    Raises:
        InputError: the file cannot be read, or is neither.

    """
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
        schema = data["schema"]
        if schema == _COUNTS:
            return _counted(data)
        if schema == _SCAN:
            return _scanned(data)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            "has no figures: give the output of bench/exact_counts.py --json or of prologue scan --json", path=path
        ) from error
    raise InputError(f"has figures of another kind ({schema}): give {_COUNTS} or {_SCAN}", path=path)


def _counted(data: dict[str, Any]) -> list[str]:
    lines = [
        f"Counted with bench/exact_counts.py: guest instructions under QEMU {data['qemu']}",
        f"icount, one CPU ({data['cpu']}), both variants of one link.",
    ]
    for kernel in data["kernels"]:
        boot, build = kernel["boot"], kernel["build"]
        words = [sum(variant["ftrace_init_words"][slot] for slot in ("first", "second")) for variant in (boot, build)]
        lines += ["", f"{boot['release']}, {counted(boot['sites'], 'site')}".center(64).rstrip()]
        lines.append(_row("", "at boot", "at build time"))
        lines.append(_row("instructions, reset to init", boot["instructions"], build["instructions"]))
        lines.append(_row("of them in ftrace_init", boot["ftrace_init"], build["ftrace_init"]))
        lines.append(_row("instructions written there", *words))
        if literals := boot["ftrace_init_words"]["literal"]:
            # A literal is two words of text.
            lines.append(_row("literals written there", literals // 2, build["ftrace_init_words"]["literal"] // 2))
    return lines


def _scanned(data: dict[str, Any]) -> list[str]:
    kernels = [file for file in data["files"] if file["kind"] == "vmlinux" and file["ftrace"]]
    if not kernels:
        raise ValueError("no kernel with sites")
    return [
        line
        for kernel in kernels
        for line in textwrap.wrap(
            f"By prologue scan, the vmlinux of {kernel['release']} has {counted(kernel['sites'], 'site')} "
            f"in {counted(kernel['records'], 'record')} ({kernel['zero_records']:,} of them zero).",
            75,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _row(label: str, boot: object, build: object) -> str:
    cells = [f"{value:,}" if isinstance(value, int) else str(value) for value in (boot, build)]
    return f"  {label:<30}{cells[0]:>15}{cells[1]:>16}"
