"""Separates root causes from what follows from them (decision 18).

The test is counterfactual: a copy of the file is mended, kind of damage by kind of damage, and the rules that fired run
again. What vanishes together with the finding at the damaged place follows from it. What stays is damage of its own.
"""

from __future__ import annotations

from prologue.elf.image import ElfImage
from prologue.errors import PrologueError
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import private_copy
from prologue.kernel.module import Module
from prologue.rules.base import FAILING, Subject
from prologue.rules.hits import Traced, run_hits
from prologue.rules.mend import MENDERS, Damage, Edit, Mender


def trace_to_roots(subject: Subject, hits: list[Traced]) -> tuple[list[Traced], Binary]:
    """Find the roots among the hits; they come first.

    Returns:
        The hits, and the file as it would be without what could be mended.

    """
    fired = tuple(dict.fromkeys(one.rule for one in hits))
    original, done, left = subject.binary, list[Edit](), hits
    decided: list[Traced] = []
    for mender in MENDERS:
        try:
            damages = [one for one in mender.find(subject) if _changes(subject.binary, one)]
            if not damages or not left:
                continue
            edits = [*done, *(edit for one in damages for edit in one.edits)]
            mended = subject._replace(binary=_mended(original, edits))
            after = {one.key: one for one in run_hits(mended, fired)}
        except PrologueError:
            continue  # damage that only shows in what was mended: nothing is known of what follows
        gone = [one for one in left if one.key not in after]
        roots = _roots(mender, damages, gone)
        if not roots:
            continue
        codes = tuple(dict.fromkeys(one.rule.code for one in roots))
        decided += roots.values()
        decided += [one._replace(follows_from=codes) for one in gone if one not in roots]
        left = [Traced(one.rule, after[one.key].hit) for one in left if one.key in after]
        subject, done = mended, edits
    every = [*(one for one in decided if not one.follows_from), *left, *(one for one in decided if one.follows_from)]
    return every, subject.binary


def _changes(binary: Binary, damage: Damage) -> bool:
    read = binary.image.read
    return any(int.from_bytes(read(offset, width), "little") != value for offset, width, value in damage.edits)


def _roots(mender: Mender, damages: list[Damage], gone: list[Traced]) -> dict[Traced, Traced]:
    """For each damaged place, the findings of the rule that names it best, and what they say as roots."""
    at: dict[int, list[Traced]] = {}
    for one in gone:
        at.setdefault(one.hit.vaddr, []).append(one)
    roots: dict[Traced, Traced] = {}
    for damage in damages:
        here = [one for place in damage.places & at.keys() for one in at[place]]
        if not here:
            continue
        best = min(here, key=lambda one: _rank(mender, one)).rule.code
        for one in sorted((one for one in here if one.rule.code == best), key=lambda one: one.hit.vaddr):
            message = f"{one.hit.message}; {damage.note}" if damage.note else one.hit.message
            roots.setdefault(one, one._replace(hit=one.hit._replace(message=message, fix=damage.fix or one.hit.fix)))
    return roots


def _rank(mender: Mender, one: Traced) -> tuple[bool, int]:
    """Failing findings first, then the rules that name this kind of damage best."""
    codes = mender.codes
    code = codes.index(one.rule.code) if one.rule.code in codes else len(codes)
    return (one.hit.severity or one.rule.severity) not in FAILING, code


def _mended(binary: Binary, edits: list[Edit]) -> Binary:
    content = private_copy(binary.image)
    for offset, width, value in edits:
        content[offset : offset + width] = value.to_bytes(width, "little")
    image = ElfImage(binary.path, content)
    return Module(image, binary.compression) if isinstance(binary, Module) else Kernel(image)
