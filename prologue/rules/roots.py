"""Separates root causes from what follows from them (decision 18).

The test is counterfactual: a copy of the file is mended, kind of damage by kind of damage, and the rules that fired run
again. What vanishes together with the finding at the damaged place follows from it. What stays is damage of its own.
"""

from __future__ import annotations

from dataclasses import replace

from prologue.errors import PrologueError
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import PlacedWords, image_with
from prologue.kernel.module import Module
from prologue.rules.base import FAILING, Subject, Traced, run_hits
from prologue.rules.mend import MENDERS, Damage, Mender


def trace_to_roots(subject: Subject, hits: list[Traced]) -> tuple[list[Traced], Binary]:
    """Find the roots among the hits; they come first.

    Returns:
        The hits, and the file as it would be without what could be mended.

    """
    fired = tuple(dict.fromkeys(item.rule for item in hits))
    original, done, left = subject.binary, list[PlacedWords](), hits
    decided: list[Traced] = []
    for mender in MENDERS:
        try:
            damages = [item for item in mender.find(subject) if _changes(subject.binary, item)]
            if not damages or not left:
                continue
            edits = [*done, *(edit for item in damages for edit in item.edits)]
            mended = replace(subject, binary=_mended(original, edits))
            after = {item.key: item for item in run_hits(mended, fired)}
        except PrologueError:
            continue  # damage that only shows in what was mended: nothing is known of what follows
        gone = [item for item in left if item.key not in after]
        roots = _roots(mender, damages, gone)
        if not roots or (mender.finishes and not all(item.rule.open_while_unfinished for item in gone)):
            continue  # or the rest of the plan covers other damage
        codes = tuple(dict.fromkeys(item.rule.code for item in roots))
        decided += roots.values()
        decided += [item._replace(follows_from=codes) for item in gone if item not in roots]
        left = [Traced(item.rule, after[item.key].hit) for item in left if item.key in after]
        subject, done = mended, edits
    traced = [
        *(item for item in decided if not item.follows_from),
        *left,
        *(item for item in decided if item.follows_from),
    ]
    return traced, subject.binary


def _changes(binary: Binary, damage: Damage) -> bool:
    words_at = binary.image.words_at
    return any((words_at(edit.offsets, edit.width) != edit.words).any() for edit in damage.edits)


def _roots(mender: Mender, damages: list[Damage], gone: list[Traced]) -> dict[Traced, Traced]:
    """Return, for each damaged place, the findings of the rule that names it best, and what they say as roots."""
    at: dict[int, list[Traced]] = {}
    for traced in gone:
        at.setdefault(traced.hit.vaddr, []).append(traced)
    roots: dict[Traced, Traced] = {}
    for damage in damages:
        candidates = [traced for place in damage.places & at.keys() for traced in at[place]]
        if not candidates:
            continue
        best = min(candidates, key=lambda traced: _rank(mender, traced)).rule.code
        for traced in sorted((item for item in candidates if item.rule.code == best), key=lambda item: item.hit.vaddr):
            message = f"{traced.hit.message}; {damage.note}" if damage.note else traced.hit.message
            hit = replace(traced.hit, message=message, fix=damage.fix or traced.hit.fix)
            roots.setdefault(traced, traced._replace(hit=hit))
    return roots


def _rank(mender: Mender, traced: Traced) -> tuple[bool, int]:
    """Rank failing findings first, then the rules that name this kind of damage best."""
    codes = mender.codes
    code = codes.index(traced.rule.code) if traced.rule.code in codes else len(codes)
    return traced.severity not in FAILING, code


def _mended(binary: Binary, edits: list[PlacedWords]) -> Binary:
    image = image_with(binary.image, edits)
    result = Module(image, binary.compression) if isinstance(binary, Module) else Kernel(image)
    result.symbols = binary.symbols  # read already, and edits do not touch them
    return result
