"""PL111: records that the module loader does not look at."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.elf.symbols import SHN_LORESERVE
from prologue.kernel.module_loader import RECORDS, record_sections
from prologue.rules.base import Hit, Rule, Subject
from prologue.words import counted


def check(subject: Subject) -> Iterator[Hit]:
    """Report all sections of records after the first in one hit; and a file with more sections than a loader counts."""
    image = subject.module.image
    count = len(image.sections)
    if count >= SHN_LORESERVE:
        yield Hit(0, f"{count:,} sections: the module loader knows numbers of 16 bits, and refuses to load the module")
    sections = record_sections(image)
    records = sum(section.size // 8 for section in sections)
    if not sections or sections[0].size // 8 == records:
        return
    message = (
        f"{len(sections)} sections {RECORDS}, of which the module loader takes the first: "
        f"{sections[0].size // 8:,} of {counted(records, 'function')} can be traced"
    )
    yield Hit(next(s.addr for s in sections[1:] if s.size), message)


RULE = Rule(
    code="PL111",
    slug="records-not-loaded",
    severity="error",
    inputs=("K",),
    what="A module with several sections `__patchable_function_entries`, of which the first does not hold all records; "
    "or with more than 65,279 sections.",
    why="The module loader takes the first section of that name and ignores the others: their functions cannot "
    "be traced, and a livepatch or BPF program cannot attach to them. Numbers of sections that need more than 16 bits "
    "it does not know at all, and refuses the module.",
    example="5 sections __patchable_function_entries, of which the first has 1 of 5 records",
    fix="link the module with the kernel's scripts/module.lds, which makes one section of them (ld.lld -r does not, "
    "unless a script says so), and merge the text sections of -ffunction-sections",
    citation='kernel kernel/module/main.c "find_sec", "find_module_sections", "elf_validity_cache_secstrings", '
    "scripts/module.lds.S (6.12)",
    check=check,
)
