"""PL402: the marker disagrees with records and text."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import BUILT, SIZES, SYMBOL, Marker
from prologue.kernel.sites import Sites
from prologue.rules.base import Hit, Rule, Subject
from prologue.words import counted


def check(subject: Subject) -> Iterator[Hit]:
    """Report a marker that disagrees with the sites, unknown flags, or a wrong number of sites."""
    sites, marker, records = subject.sites, subject.kernel.marker, subject.kernel.records
    if marker is not None and marker.version > 1 and records is not None:
        yield from _second_version(subject.kernel, marker, sites)
        return
    if marker is None or not records:
        return
    symbol = subject.kernel.symbols.find(SYMBOL)
    if symbol is not None and symbol.size == SIZES[2]:
        yield Hit(marker.vaddr, f"has version 1, in an object of {SIZES[2]} bytes, the size of version 2")
        return
    done = bool(sites.has_mov.all() and sites.moved.all()) and len(sites) > 0
    if marker.processed and not done:
        yield Hit(
            marker.vaddr,
            f"says processed, but {int((sites.has_mov & sites.moved).sum())} of {counted(len(sites), 'site')} are",
        )
    elif done and not marker.processed:
        yield Hit(marker.vaddr, f"says unprocessed, but all {len(sites)} sites are processed")
    elif marker.unknown_flags:
        yield Hit(marker.vaddr, f"has flags {marker.flags:#x}, of which only {BUILT:#x} is known", (marker.flags,))
    elif not marker.processed and marker.sites not in (0, len(sites)):
        yield Hit(marker.vaddr, f"says unprocessed, but counts {counted(marker.sites, 'site')}", (marker.sites,), (0,))
    elif marker.processed and marker.sites != len(sites):
        yield Hit(
            marker.vaddr,
            f"counts {counted(marker.sites, 'site')}, the records {len(sites)}",
            (marker.sites,),
            (len(sites),),
        )


def _second_version(kernel: Kernel, marker: Marker, sites: Sites) -> Iterator[Hit]:
    """Check version 2: the flag decides how records are read, so only sites and the table can disagree with it."""
    mov, count = int(sites.has_mov.sum()), listed(kernel, marker)
    if marker.unknown_flags or marker.reserved:
        unknown = marker.unknown_flags or marker.reserved
        yield Hit(marker.vaddr, f"has {unknown:#x} in flags or reserved, which is not known", (unknown,))
    elif not marker.processed and len(sites) and mov == len(sites):
        yield Hit(marker.vaddr, f"says unprocessed, but all {len(sites)} sites hold the MOV")
    elif not marker.processed and (marker.sites or marker.encoding or marker.first or marker.extent):
        yield Hit(marker.vaddr, f"says unprocessed, but counts {counted(marker.sites, 'site')}", (marker.sites,), (0,))
    elif marker.processed and marker.sites != count:
        message = f"counts {counted(marker.sites, 'site')}, the table has {count}"
        yield Hit(marker.vaddr, message, (marker.sites,), (count,))
    elif marker.processed and not len(sites):
        yield Hit(marker.vaddr, f"says processed, but none of {counted(count, 'record')} leads to a site")
    elif marker.processed and mov < len(sites):
        yield Hit(marker.vaddr, f"says processed, but {mov} of {counted(len(sites), 'site')} are")


def listed(kernel: Kernel, marker: Marker) -> int:
    """Count the records of the table, whatever the marker counts; without zero records."""
    bounds, records = kernel.bounds, kernel.records
    if records is None or bounds is None:
        return 0
    if not (marker.processed and marker.offsets):
        return int(records.nonzero.sum())
    from prologue.kernel.offset_table import halves

    return int((halves(kernel.image, bounds)[0] != 0).sum())


RULE = Rule(
    code="PL402",
    slug="marker-disagrees",
    severity="fatal",
    inputs=("V",),
    open_while_unfinished=True,
    what="`__ftrace_prologue_marker` disagrees with records and text.",
    why="The kernel trusts the marker. If it wrongly says processed, ftrace finds no MOV before the first BL that it "
    "is to write, and disables itself; without that check in `ftrace_make_call`, LR would be lost. If it wrongly "
    "says unprocessed, records that are moved are adjusted once more: ftrace disables itself at the first function "
    "that is traced, or at boot.",
    example="marker: processed, 43880 sites; text: 43879 sites hold the MOV",
    fix="find what changed the marker, and link again",
    citation='prologue help kernel-contract "native"',
    check=check,
    words=(0xD503201F, 0xD503201F),
)
