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
    "sorttable": "arm64: ftrace: prologues that the build writes",
    "build": "arm64: ftrace: prologues that the build writes",
}
_COUNTS: Final = "prologue.exact-counts/1"
_SCAN: Final = "prologue.scan/1"
_MEASURED: Final = "prologue.bench-figures/1"
# Trees on which the patches were made or tried; no commit of them is known.
_BASES: Final = {
    "6.1": "6.1.192",
    "6.6": "6.6.63",
    "6.12": "6.12.117",
    "6.18": "6.18.35",
    "7.2": "7.2.13",
    "7.3": "7.3.4",
}
_NOT_IN_DEBIAN: Final = ("6.6", "6.18")
_NEWEST: Final = "7.3"

_PAIR: Final = """\
Each function that can be traced begins with two NOPs. ftrace_init() makes
the first one MOV X9, LR at boot, for each of tens of thousands of
functions; only then may tracing swing the second one between NOP and BL.
"""
_WHY: Final = """\
The first patches make that cheaper for every kernel: one loop at boot, and
literals and checks when something is first traced. The others let {who}
write the MOVs, and sorted records. ftrace_init() then copies the records,
and does nothing else for a function.

The option is off by default. A kernel without it, from the same source,
boots as after the first patches. Modules are loaded as before.
"""
_WHYS: Final[dict[Mode, str]] = {
    "boot": f"""\
{_PAIR}
It does so as if other CPUs were running. Before other CPUs are up, one
loop through the linear alias does it for a small part of the instructions,
and literals and checks can wait until something is traced.
""",
    "sorttable": f"{_PAIR}\n{_WHY.format(who='sorttable')}",
    "build": f"{_PAIR}\n{_WHY.format(who='a tool')}",
}
_STEPS: Final = {
    "literals": "checks callsites and sets literals before the first BL of all",
    "records": "lets an architecture make the records of the core kernel",
    "loop": "makes the records and writes the MOVs in one loop",
    "accept": "accepts a MOV that is there, and puts a BL only after one",
    "relocations": "ends early boot's relocation at the first unused entry",
    "marker": "adds the marker that tells the kernel, and what follows it",
    "step": "adds the option, and the build step that sets the marker",
    "sorttable": "adds the option, and does the step in scripts/sorttable",
    "documentation": "describes all of it",
    "selftest": "passes whether the kernel or the build wrote the prologues",
}
# Steps that other trees than arm64's take, and whose they are.
_TREES: Final = {"records": "ftrace", "sorttable": "ftrace and kbuild", "documentation": "ftrace", "selftest": "ftrace"}
_BEFORE: Final = """\
Discussed before, and near to this:

objtool on arm64 (LPC 2021): what objtool does elsewhere is to come from
the toolchain. Nothing here follows control flow or makes sections.
https://lpc.events/event/11/contributions/971/

"arm64: ftrace: allow DIRECT_CALLS without CALL_OPS" (June 2026), and a
single ftrace_ops for direct calls (HAVE_SINGLE_FTRACE_DIRECT_OPS), which
x86 has: they change lines near to these, and nothing that these rely on.
https://lists.infradead.org/pipermail/linux-arm-kernel/2026-June/1138275.html
"""


def cover_text(series: KernelPatch, figures: Sequence[Sequence[str]]) -> str:
    """Write the letter's text for one release, 78 columns at most; ``figures`` are the lines of each file."""
    width = len(str(len(series.patches)))
    steps = "".join(f"  {k:{width}}  {_STEPS[p.step]}\n" for k, p in enumerate(series.patches, 1))
    others = [f"{k} ({_TREES[p.step]})" for k, p in enumerate(series.patches, 1) if p.step in _TREES]
    trees = f"All patches are for arm64's tree, with an Ack for {', '.join(others)}."
    base = f"Applies to Linux {_BASES[series.series]}" + ", as Debian has it" * (series.series not in _NOT_IN_DEBIAN)
    if series.series != _NEWEST:
        base += f"; the newest tree that was to be had is {_BASES[_NEWEST]}, for which there is the same series"
    paragraphs = [_WHYS[series.mode], "Each patch stands without those after it:\n", steps]
    paragraphs += [textwrap.fill(trees, 75) + "\n", *("".join(f"{line}\n" for line in lines) for lines in figures)]
    paragraphs += [_BEFORE, textwrap.fill(f"{base}.", 75) + "\n"]
    return "\n".join(paragraphs)


def read_figures(path: Path) -> list[str]:
    """Read figures, as lines of the letter, of ``bench/exact_counts.py``, ``prologue scan`` or ``bench export``.

    Raises:
        InputError: the file cannot be read, or is none of their JSON.

    """
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
        schema = data["schema"]
        if schema == _COUNTS:
            return _counted(data)
        if schema == _SCAN:
            return _scanned(data)
        if schema == _MEASURED:
            return [str(line) for line in data["lines"]]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            "has no figures: give the output of bench/exact_counts.py --json, prologue scan --json or prologue bench"
            " export --for-mail",
            path=path,
        ) from error
    raise InputError(f"has figures of another kind ({schema}): give {_COUNTS}, {_SCAN} or {_MEASURED}", path=path)


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
