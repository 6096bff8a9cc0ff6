"""The record of a link beside its vmlinux: how it was made, and how its sites share lines and pages."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.elf.symbols import STT_FUNC
from prologue.kernel.kernel import Kernel
from prologue.kernel.sites import Sites
from prologue_bench.errors import BenchError
from prologue_bench.results.fields import Fields, parse, read_file

SCHEMA: Final = "prologue.bench-link/1"
RECORD: Final = "link.json"
VMLINUX: Final = "vmlinux"
LINE: Final = 64  # bytes of a cache line, as on every CPU of the 2019 question
PAGE: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Neighbourhood of first slots: how many units of a size hold any, and how many sites share theirs."""

    size: int  # bytes
    touched: int
    sharing: int  # sites with another site in the same unit


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """A link to make: every unit of ``order`` at a multiple of ``alignment`` bytes; ``granularity`` names the units."""

    seed: int
    alignment: int
    granularity: str
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLink:
    """A link of a build, as it came out.

    ``functions`` is a digest of the names and sizes of all traced functions: equal for links of one build, whatever
    their order. ``moved`` functions have another one before them than in the build's own vmlinux, or in the first that
    a user linked. ``plan`` is None for a vmlinux that a user linked.
    """

    name: str
    source: str  # the build, or the vmlinux that this is a copy of
    plan: LinkPlan | None
    build_id: str
    release: str
    layout: str
    functions: str
    sites: int
    moved: int
    lines: Sharing
    pages: Sharing


def look_at(vmlinux: Path, name: str, source: Path, plan: LinkPlan | None, reference: list[str]) -> RecordedLink:
    """Read what a link came to; ``reference`` are the traced functions of the vmlinux to compare with.

    Raises:
        PrologueError: not an arm64 vmlinux with sites.

    """
    kernel = Kernel(vmlinux)
    functions, first = traced_functions(kernel), sites_of(kernel).first
    return RecordedLink(
        name=name,
        source=str(source),
        plan=plan,
        build_id=kernel.build_id,
        release=kernel.release,
        layout=kernel.layout,
        functions=digest_of(functions),
        sites=len(first),
        moved=len({*pairwise(functions)} - {*pairwise(reference)}),
        lines=sharing(first, LINE),
        pages=sharing(first, PAGE),
    )


def sites_of(kernel: Kernel) -> Sites:
    """Return the patch sites of a kernel.

    Raises:
        BenchError: it has none.

    """
    if kernel.sites is None or not len(kernel.sites):
        raise BenchError(f"{kernel.path}: no ftrace sites: nothing to measure")
    return kernel.sites


def sharing(first: U64, size: int) -> Sharing:
    """Count how sites share units of ``size`` bytes; ``first`` are the addresses of first slots, shape (n,)."""
    _, counts = np.unique(first // np.uint64(size), return_counts=True)
    return Sharing(size=size, touched=len(counts), sharing=int(counts[counts > 1].sum()))


def traced_functions(kernel: Kernel) -> list[str]:
    """Return ``NAME SIZE`` of every function that has a site, with its aliases, in the order of addresses."""
    symbols, entries = kernel.symbols, np.sort(sites_of(kernel).entry)
    is_function = (symbols.table["info"] & 15 == STT_FUNC) & symbols.defined
    rows = np.flatnonzero(is_function & np.isin(symbols.values, entries))
    named: dict[int, list[str]] = {}
    for row, vaddr, size in zip(*(part.tolist() for part in (rows, symbols.values[rows], symbols.table["size"][rows])),
                                strict=True):  # fmt: skip
        named.setdefault(vaddr, []).append(f"{symbols.name_of(row)} {size}")
    return [" ".join(sorted(named.get(vaddr, ()))) for vaddr in entries.tolist()]


def digest_of(functions: list[str]) -> str:
    """Return a digest that does not depend on their order."""
    return hashlib.sha256("\n".join(sorted(functions)).encode()).hexdigest()


def write_record(link: RecordedLink, directory: Path) -> None:
    """Write the record into the link's directory; with it the link is complete."""
    text = json.dumps({"schema": SCHEMA, **asdict(link)}, indent=1) + "\n"
    (directory / RECORD).write_text(text, encoding="utf-8", errors="surrogateescape")


def read_record(directory: Path) -> RecordedLink:
    """Read the record of a link.

    Raises:
        BenchError: it cannot be read, or a field is absent or wrong.

    """
    path = directory / RECORD
    fields = parse(read_file(path), str(path))
    fields.schema(SCHEMA)
    return RecordedLink(
        name=fields.text("name"),
        source=fields.text("source"),
        plan=None if fields.data.get("plan") is None else _plan(fields.below("plan")),
        build_id=str(fields.data.get("build_id") or ""),
        release=str(fields.data.get("release") or ""),
        layout=fields.text("layout"),
        functions=fields.text("functions"),
        sites=fields.integer("sites"),
        moved=fields.integer("moved"),
        lines=_sharing(fields.below("lines")),
        pages=_sharing(fields.below("pages")),
    )


def _plan(fields: Fields) -> LinkPlan:
    return LinkPlan(
        seed=fields.integer("seed"),
        alignment=fields.integer("alignment"),
        granularity=fields.text("granularity"),
        order=fields.texts("order"),
    )


def _sharing(fields: Fields) -> Sharing:
    return Sharing(size=fields.integer("size"), touched=fields.integer("touched"), sharing=fields.integer("sharing"))
