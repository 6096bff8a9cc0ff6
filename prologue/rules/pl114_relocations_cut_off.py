"""PL114: the RELA table of a kernel with version 2 of the marker goes on after its end, an entry of zeros."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.kernel.kernel import Kernel
from prologue.rules.base import Hit, Rule, Subject
from prologue.words import counted


def check(subject: Subject) -> Iterator[Hit]:
    """Report relocations after the first NONE; and less room of zeros than was freed by taking relocations out.

    GNU ld writes R_AARCH64_RELATIVE first, then zeros, then types that the kernel passes over anyway.
    """
    kernel, marker = subject.kernel, subject.kernel.marker
    if marker is None or not marker.offsets or kernel.records is None:
        return
    from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, RELA, relocation_sections

    for section in relocation_sections(kernel.image, "RELA"):
        table = kernel.image.view(section, RELA)
        types = table["info"] & np.uint64(0xFFFFFFFF)
        unused = table["info"] == 0
        end = int(unused.argmax()) if unused.any() else len(table)
        late = np.flatnonzero(types[end:] == R_AARCH64_RELATIVE) + end
        used = np.flatnonzero(table.view("<u8").reshape(-1, 3).any(axis=1))
        room = len(table) - (int(used[-1]) + 1 if len(used) else 0)
        if len(late):
            lost = counted(len(late), "relocation")
            yield Hit(
                section.addr + RELA.itemsize * int(late[0]),
                f"{lost} in {section.name} after the first entry of zeros (R_AARCH64_NONE), which ends the table",
            )
        elif room < _freed(kernel):
            entries = counted(room, "entry", plural="entries")
            yield Hit(
                section.addr + RELA.itemsize * (len(table) - room),
                f"{section.name} ends in {entries} of zeros, but {_freed(kernel):,} were taken out: "
                "some were not, or others came",
            )


def _freed(kernel: Kernel) -> int:
    """Count the entries that were taken out of RELA, as far as the marker says."""
    marker = kernel.marker
    if marker is None or not marker.processed or marker.encoding not in (1, 2):  # RELA, see offset_table.ENCODINGS
        return 0
    return max(marker.extent, 1)


RULE = Rule(
    code="PL114",
    slug="relocations-cut-off",
    severity="fatal",
    inputs=("V",),
    what="A kernel with version 2 of the marker has R_AARCH64_RELATIVE after R_AARCH64_NONE; or, processed, its table "
    "does not end in as many entries of zeros as relocations of records were taken out.",
    why="A kernel may stop at the first R_AARCH64_NONE (`prologue kernel patch --series relocations`). What comes "
    "after it is then not relocated, and points to link-time addresses under KASLR. Without zeros at the end, "
    "entries that were to be taken out are still there.",
    example=".rela.dyn+0x121a70: zeros, and 3 R_AARCH64_RELATIVE after them",
    fix="link again, and process the result; a later step must not edit .rela.dyn",
    citation='prologue help kernel-contract "Version 2"; kernel arch/arm64/kernel/pi/relocate.c (6.12)',
    check=check,
)
