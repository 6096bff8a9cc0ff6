"""Variants of one link, made from one vmlinux, and the proof that they are of one link."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage, differing_files
from prologue.kernel.kernel import Kernel
from prologue.patching.patch import carry_out
from prologue.plan.edits import PatchPlan
from prologue.plan.variants import VariantKind, variant_plan
from prologue.rules.engine import approve
from prologue_bench.errors import BenchError
from prologue_bench.results.model import Variant

_ASIDE: Final = "new"
_SCRATCH: Final = "variant-"
_WHAT: Final = {
    "site": "first slots",
    "record": "of records",
    "relocation": "of relocations",
    "init": "in a named stub",
    "marker": "of the marker",
}
# Words at file offsets, as (offset, value): what a plan writes if it changes something.
_Words = dict[int, int]


@dataclass(frozen=True, slots=True)
class Variants:
    """A vmlinux as linked, and what would make each variant of it."""

    kernel: Kernel
    plans: Mapping[VariantKind, PatchPlan]


@dataclass(frozen=True, slots=True)
class Image:
    """A variant's flat Image."""

    variant: Variant
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A vmlinux as linked, its variants, and the lines that prove that they are one link.

    ``stub`` are the words by which a running ``build`` of the stock contract differs from ``boot``, whose sites are the
    same: by bytes from ``_stext``. Empty for the native contract, which leaves no such words.
    """

    release: str
    build_id: str
    layout: str
    images: tuple[Image, ...]
    proof: tuple[str, ...]
    stub: Mapping[int, int]

    def moved(self, directory: Path) -> Link:
        """Move the Images over those in another directory of the same file system; the link is the same."""
        images = (replace(image, path=image.path.replace(directory / image.path.name)) for image in self.images)
        return replace(self, images=tuple(images))


def plan_variants(vmlinux: Path, kinds: Sequence[VariantKind]) -> Variants:
    """Look at a vmlinux; nothing is written.

    Raises:
        PrologueError: no variants can be made of it.

    """
    kernel = Kernel(vmlinux)
    return Variants(kernel, {kind: variant_plan(kernel, kind) for kind in kinds})


@contextmanager
def link_aside(variants: Variants, directory: Path) -> Iterator[Link]:
    """Make the link beside the Images that a directory has: they stay until it is moved there, if ever.

    Raises:
        PrologueError: see ``make_link``.

    """
    aside = directory / _ASIDE
    try:
        yield make_link(variants, aside)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def make_link(variants: Variants, directory: Path) -> Link:
    """Write ``Image.KIND`` for each variant into a directory that nothing else writes to; the first kind is the base.

    The variants' own vmlinux files exist only while they are compared, in the same directory: an Image that is made
    again is the same, bit for bit. What a killed run left there is removed.

    Raises:
        OutputError: a file cannot be written.
        BenchError: variants are not of one link, which is a bug in prologue.

    """
    kernel, plans = variants.kernel, variants.plans
    words = {kind: plan.changed_words() for kind, plan in plans.items()}
    base = next(iter(words.values()))
    directory.mkdir(parents=True, exist_ok=True)
    for stale in (*directory.glob(f"{_SCRATCH}*"), *directory.glob(".Image.*")):
        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
    images, counts = [], []
    for kind, plan in plans.items():
        path = directory / f"Image.{kind}"
        counts.append(f"{kind}: {_write(kernel, plan, words[kind], path)}")
        images.append(
            Image(Variant(kind, kind, _sha256(path), len({at for at, _ in base.items() ^ words[kind].items()})), path)
        )
    sections, symbols = len(kernel.image.sections), len(kernel.symbols.values)
    head = f"same link: 0 of {symbols:,} symbols and 0 of {sections} sections moved"
    stub = _stub(kernel, plans["build"]) if "build" in plans else {}
    return Link(
        release=kernel.release,
        build_id=kernel.build_id,
        layout=kernel.layout,
        images=tuple(images),
        proof=(head, *counts),
        stub=stub,
    )


def _stub(kernel: Kernel, plan: PatchPlan) -> dict[int, int]:
    """Return words of the kernel's own prologue writing that the plan changes, if they stay in memory."""
    symbols = [kernel.symbols.find(name) for name in ("_stext", "__init_begin", "__init_end")]
    places = [symbol.vaddr for symbol in symbols if symbol is not None]
    if len(places) < len(symbols):
        return {}
    start, freed, kept = places
    return {
        vaddr - start: word
        for stage in plan.stages
        if stage.kind == "init"
        for vaddr, word in zip(stage.vaddrs.tolist(), stage.new.tolist(), strict=True)
        if not freed <= vaddr < kept
    }


def _write(kernel: Kernel, plan: PatchPlan, words: _Words, path: Path) -> str:
    """Write a variant's Image; say how its vmlinux differs from the linked one."""
    if not plan.stages:
        write_flat(kernel.image, path)
        return "as linked"
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=_SCRATCH) as name:
        copy = Path(name) / "vmlinux"
        carry_out(approve(kernel, plan), copy, independent=True)
        after = ElfImage(copy)
        _require_same_link(kernel.image, after, words, path.name)
        write_flat(after, path)
    kinds = {stage.kind: len(plan.changed_words(stage.kind)) for stage in plan.stages}
    parts = ", ".join(f"{count:,} {_WHAT[kind]}" for kind, count in kinds.items() if count)
    return f"1 word differs: {parts}" if len(words) == 1 else f"{len(words):,} words differ: {parts}"


def _require_same_link(before: ElfImage, after: ElfImage, words: _Words, name: str) -> None:
    """Check that nothing differs but the words of the plan: no symbol, no section, no other byte."""
    if after.sections != before.sections:
        raise BenchError(f"{name}: its sections are not those of the link")
    differing = differing_files(before, after, before.size)
    if stray := sorted({int(offset) & ~3 for offset in differing} - words.keys()):
        raise BenchError(f"{name}: the word at file offset {stray[0]:#x} differs, which no plan names")


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
