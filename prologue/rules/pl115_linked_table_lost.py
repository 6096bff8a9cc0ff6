"""PL115: a processed kernel does not give back what was linked, although its marker says that it does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.errors import InputError, RefusedError
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Hit, Rule, Subject
from prologue.rules.pl113_offsets_relocated import check as relocated
from prologue.rules.pl114_relocations_cut_off import check as cut_off


def check(subject: Subject) -> Iterator[Hit]:
    """Undo the processing in memory, process the result again, and compare with the file. One hit.

    What PL113, PL114 and PL402 report cannot be undone, either: it is left to them.
    """
    kernel, marker = subject.kernel, subject.kernel.marker
    if marker is None or marker.version == 1 or marker.reserved or kernel.state != "processed":
        return
    if any(relocated(subject)) or any(cut_off(subject)):
        return
    from prologue.kernel.linked import is_by_sorttable, strange_fields

    if is_by_sorttable(kernel, marker):
        return  # promises nothing
    problem = strange_fields(kernel, marker)
    # Without an extent the marker promises nothing, except of a static link (0), which has no relocations to take out.
    if not problem and (marker.extent or (marker.offsets and not marker.encoding)):
        problem = _problem(kernel)
    if problem:
        yield Hit(marker.vaddr, problem)


def _problem(kernel: Kernel) -> str:
    from prologue.kernel.linked import as_linked
    from prologue.plan.build import build_plan

    try:
        linked = as_linked(kernel)
        plan = build_plan(linked, "native")
    except (InputError, RefusedError) as error:
        return error.message.partition("; give the plan")[0]
    for stage in plan.stages:
        words = kernel.image.words_at(stage.offsets, stage.width)
        for k in np.flatnonzero(words != stage.new)[:1].tolist():
            return (
                f"what was linked cannot be had from this file: processed again it would differ at "
                f"{int(stage.vaddrs[k]):#x} ({stage.reason})"
            )
    if _ascending(kernel) and not _ascending(linked):
        return "its marker says that relocations were taken out where they would not have been in order"
    return ""


def _ascending(kernel: Kernel) -> bool:
    """Return whether the R_AARCH64_RELATIVE entries of RELA ascend, as linkers sort them; true without any."""
    from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, RELA, relocation_sections

    for section in relocation_sections(kernel.image, "RELA")[:1]:
        table = kernel.image.view(section, RELA)
        places = table["offset"][table["info"] == R_AARCH64_RELATIVE]
        return bool((places[1:] > places[:-1]).all())
    return True


RULE = Rule(
    code="PL115",
    slug="linked-table-lost",
    severity="error",
    inputs=("V",),
    what="A kernel processed for version 2 of the marker that does not give back what was linked, although its marker "
    "says so: the order of its records in the second half of the table, or where relocations were taken out; or a "
    "marker that names relocations of a kind that this kernel does not have.",
    why="No kernel reads this, but nothing except prologue writes it: something changed the file after it was "
    "processed. `prologue patch --reverse` would make another file than the one that was linked.",
    example="slots 17 and 18 both name record 17",
    fix="find what changed the file, and process the linked vmlinux again",
    citation='prologue help kernel-contract "Version 2"',
    check=check,
)
