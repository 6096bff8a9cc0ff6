"""The audit of a loaded module's text: the same tables, in its own sections, and the loader's PLT entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from prologue.arrays import U32, U64, among
from prologue.insn import a64
from prologue.insn.decode import ADD_IMM, ADR, ADRP, adr_immediate
from prologue.insn.disasm import insn_text
from prologue.live.audit.alternatives import claim_alternatives
from prologue.live.audit.audit_kernel import KernelFacts, lift
from prologue.live.audit.audited import Audited, LiveWord, MechanismCount
from prologue.live.audit.claims import Claims
from prologue.live.audit.ftrace import claim_ftrace
from prologue.live.audit.judge import Describer, TextJudge, without_verdict
from prologue.live.audit.jump_labels import claim_jump_labels
from prologue.live.audit.shadow_stacks import claim_shadow_stacks
from prologue.live.memory.ranges import PAGE, Range
from prologue.live.memory.reading import read_until_stable
from prologue.live.system.placed_module import LATE
from prologue.live.system.running_kernel import LiveText
from prologue.live.system.running_module import RunningModule
from prologue.live.system.running_text import LiveSection

_SHOWN: Final = 8  # words of which nothing says what they refer to
_MOST: Final = 1 << 20  # bytes of PLT entries: a section that begins further away is no neighbour


def audit_module(module: RunningModule, facts: KernelFacts) -> Audited:
    """Judge a module's text."""
    lifted = lift(module.live_text, 0, facts.breakpoints)
    scene = facts.scene(module, 0)
    plts = Plts(module, facts)
    sections = [replace(live, linked=_linked(module, plts, live)) for live in module.live_text.live.values()]
    claims = [*claim_ftrace(scene, facts.ftrace, plts.of_ftrace), claim_alternatives(scene), claim_jump_labels(scene)]
    claims += [*claim_shadow_stacks(scene), _claim_unknown(module)]
    text = LiveText(module.image, sections)
    audited = TextJudge(text, lifted, Describer(module, 0, facts.state), facts.not_known).judge(claims)
    odd = [without_verdict(word, facts.not_known) for word in plts.wrong] if facts.not_known else plts.wrong
    words = tuple(sorted((*audited.words, *odd), key=lambda word: word.vaddr))
    count, hidden = sum(word.words for word in odd), len(plts.hidden_calls)
    wrong, unknown = (0, count) if facts.not_known else (count, 0)
    row = MechanismCount(
        mechanism="module PLTs", words=plts.words, changed=plts.words, wrong=wrong, unsure=unknown, unknown=unknown
    )
    return replace(
        audited,
        words=words,
        text=audited.text + plts.words,
        mechanisms=(*audited.mechanisms, row),
        missing=audited.missing + hidden,
        unlooked=(*audited.unlooked, *([(".plt, which these words call", hidden)] if hidden else [])),
    )


def _linked(module: RunningModule, plts: Plts, section: LiveSection) -> U32:
    """Return the words of the file; calls by a PLT entry, and ADRPs for erratum 843419, are as the loader made them."""
    words: U32 = section.linked.copy()
    placed = module.placed
    for place in (*placed.far, *placed.late_adrps):
        at = (place - section.section.addr) // 4
        if not 0 <= at < len(words):
            continue
        live, linked = int(section.words[at]), int(words[at])
        entry = a64.branch_target(live, place)
        if place in placed.far:
            entry = entry if live >> 26 == linked >> 26 else None
            is_right = entry is not None and plts.targets.get(entry) == placed.far[place]
        else:
            entry = entry if a64.classify(live) == "B" else None
            is_right = _is_adr(live, place, *placed.late_adrps[place]) or plts.veneers.get(entry) == place
        if is_right or any(entry in part for part in plts.unread):
            words[at] = live
            plts.hidden_calls.update([] if is_right else [place])
    return words


def _is_adr(word: int, place: int, register: int, page: int | None) -> bool:
    distance = int(adr_immediate(np.array([word], np.uint32))[0])
    return word & ADR[0] == ADR[1] and word & 31 == register and page in (None, place + distance)


def _claim_unknown(module: RunningModule) -> Claims:
    """Claim words whose relocation has no known target: the other bits have to be those of the file.

    A word that refers to an empty section is right if the section is where the loader's layout has it.
    """
    masks = dict(sorted(module.placed.unknown.items()))
    vaddrs = np.array(list(masks), np.uint64)
    in_text = module.text.in_text(vaddrs)
    vaddrs, bits = vaddrs[in_text], np.array(list(masks.values()), np.uint32)[in_text]
    live, linked = module.text.words(vaddrs), module.image.words(vaddrs)
    expected = linked & ~bits | live & bits
    reason = "a relocation whose symbol has no known address, and whose other bits differ"
    laid_out = among(vaddrs, np.array(sorted(module.placed.laid_out), np.uint64))
    unsure = ~laid_out | (live != linked)
    odd = vaddrs[unsure].tolist()
    more = f" and {len(odd) - _SHOWN:,} more" if len(odd) > _SHOWN else ""
    places = ", ".join(str(place) for place in module.symbols.locate_all(odd[:_SHOWN]))
    note = f"{module.placed.loaded.name}: nothing says what these words refer to: {places}{more}" if odd else ""
    return Claims(
        "relocations without a place", vaddrs, live, expected, reason=lambda _: reason, unsure=unsure, note=note
    )


class Plts:
    """A module's PLT entries.

    ``targets`` has the target of each entry by its address, ``veneers`` the place of the ADRP that an entry replaces
    (erratum 843419), ``of_ftrace`` the entries that lead to ftrace, ``wrong`` words that are no entries. ``words`` were
    looked at. Of ``unread`` addresses memory has nothing; ``hidden_calls`` are words that call them.
    """

    def __init__(self, module: RunningModule, facts: KernelFacts) -> None:
        self.targets: dict[int, int] = {}
        self.veneers: dict[int | None, int] = {}
        self.wrong: list[LiveWord] = []
        self.unread: list[range] = []
        self.hidden_calls: set[int] = set()
        self.words = 0
        self._good = module.placed.calls | facts.ftrace.trampolines
        starts = sorted({*(s.addr for s in module.image.sections if s.allocated), *module.placed.plts})
        for start in module.placed.plts:
            after = min((other for other in starts if other > start), default=start + PAGE)
            page = -(-(start + 1) // PAGE) * PAGE
            self._read(module, Range(start, (after if after - start < _MOST else page) - start & ~3))
        of_ftrace = sorted(entry for entry, target in self.targets.items() if target in facts.ftrace.trampolines)
        self.of_ftrace: U64 = np.array(of_ftrace, np.uint64)

    def _read(self, module: RunningModule, plt: Range) -> None:
        (steady,) = read_until_stable(module.memory, [plt])
        if not steady.present[:1].any():
            self.unread.append(range(plt.vaddr, plt.end))
            return
        words = np.frombuffer(steady.data, "<u4").tolist()
        empty = [at for at in range(0, len(words), 3) if not any(words[at : at + 3])]
        # Where Cortex-A53 may get an ADRP wrong, the loader leaves an entry out.
        holes = {at for at in empty if (plt.vaddr + 4 * at) % PAGE >= LATE and any(words[at + 3 : at + 6])}
        used = next((at for at in empty if at not in holes), len(words))
        # After the entries, the rest of their page is the module's; it is zero.
        end = -(-(plt.vaddr + 4 * used) // PAGE) * PAGE
        padding = words[used : (end - plt.vaddr) // 4]
        self.words += used
        for at in [
            *sorted({*range(0, used, 3)} - holes),
            *(used + k for k, word in enumerate(padding) if word and not any(padding[:k])),
        ]:
            vaddr, entry = plt.vaddr + 4 * at, words[at : at + 3]
            target, returns = _target(vaddr, entry), _returns_to(vaddr, entry)
            if returns is not None and target is not None:
                register, page = module.placed.late_adrps.get(returns - 4, (None, None))
                if register == entry[0] & 31 and page in (None, target):
                    self.veneers[vaddr] = returns - 4
                    continue
            elif target is not None and target in self._good:
                self.targets[vaddr] = target
                continue
            shown = "; ".join(f"`{insn_text(word, vaddr + 4 * k)}`" for k, word in enumerate(entry))
            leads = "" if target is None else f", which leads to {target:#x}, where nothing of this module calls"
            message = f"holds {shown}{leads}: not what the loader puts into a PLT"
            self.wrong.append(
                LiveWord(
                    kind="word",
                    vaddr=vaddr,
                    found=(entry[0],),
                    expected=(0,),
                    message=message,
                    words=len(entry),
                    mechanism="module PLTs",
                )
            )


def _target(vaddr: int, entry: list[int]) -> int | None:
    """Return the target of ADRP, ADD and a branch; None if the words are others.

    A PLT entry is ADRP X16, ADD X16, BR X16 (arch/arm64/kernel/module-plts.c, 6.1-7.2).
    """
    if len(entry) < 3 or entry[0] & ADRP[0] != ADRP[1] or entry[1] & ADD_IMM[0] != ADD_IMM[1]:
        return None
    register = entry[0] & 31
    leaves = (entry[2] == a64.BR_X16 and register == 16) or _returns_to(vaddr, entry) is not None
    if entry[1] & 0x3FF != register << 5 | register or not leaves:
        return None
    page = int(adr_immediate(np.array([entry[0]], np.uint32))[0]) << 12
    return (vaddr & ~0xFFF) + page + (entry[1] >> 10 & 0xFFF) & (1 << 64) - 1


def _returns_to(vaddr: int, entry: list[int]) -> int | None:
    """Return where an entry leads back to that replaces an ADRP (erratum 843419): it ends in a B; None for others."""
    return a64.branch_target(entry[2], vaddr + 8) if len(entry) == 3 and a64.classify(entry[2]) == "B" else None
