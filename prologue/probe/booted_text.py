"""The kernel's text when it has booted, and the outcome of a probe on each word: boot replaces words of the file.

First slots get their MOV, CALL_OPS literals an address, alternatives are chosen by what the CPUs can do, and dynamic
shadow call stacks replace AUTIASP if there is no pointer authentication. A word that may be one of several has the
outcomes of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, Bool
from prologue.elf.sections import Section
from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.tables import PATCHES_NOPS, Ranges, alternative_entries
from prologue.probe.instructions import REFUSED, SIMULATED, STEPPED, Decoding, Outcomes, exclusives, outcomes

_CHUNK: Final = 1 << 17  # words at once: what fits into a cache is much faster
_SCS_PATCHERS: Final = ("scs_patch_vmlinux", "__pi_scs_patch_vmlinux", "__pi_scs_patch")


class Switch(NamedTuple):
    """The exclusive sequences that one capability of the CPUs changes: index of each word, and what it then does."""

    at: I64
    begins: Bool
    ends: Bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BootedText:
    """A section's words, one array element for each, shape (n,); and the switches."""

    words: U32  # as in the file, except first slots
    outcomes: Outcomes  # by the word alone
    begins: Bool  # begins an exclusive sequence, if no alternative is applied
    ends: Bool
    replaced: Bool  # by an alternative, perhaps
    switches: tuple[Switch, ...]


def booted_text(kernel: Binary, section: Section, decoding: Decoding) -> BootedText:
    """Return the content of ``section`` when the kernel has booted."""
    words: U32 = kernel.text.view(section, "<u4").astype(np.uint32)
    if kernel.sites is not None:
        words[_indices(Ranges(kernel.sites.first, np.full(len(kernel.sites), 4)), section)[0]] = a64.MOV_X9_X30
    result = BootedText(
        words=words,
        outcomes=np.zeros(len(words), np.uint8),
        begins=np.zeros(len(words), np.bool_),
        ends=np.zeros(len(words), np.bool_),
        replaced=np.zeros(len(words), np.bool_),
        switches=(),
    )
    for low in range(0, len(words), _CHUNK):
        part = slice(low, low + _CHUNK)
        result.outcomes[part] = outcomes(words[part], decoding)
        result.begins[part], result.ends[part] = exclusives(words[part], decoding)
    if kernel.sites is not None and kernel.sites.layout == "4,2":
        # CALL_OPS literals: the address of an ftrace_ops, which KASLR moves, so any word.
        literals = Ranges(kernel.sites.entry - np.uint64(8), np.full(len(kernel.sites), 8))
        result.outcomes[_indices(literals, section)[0]] = REFUSED | STEPPED | SIMULATED
    result = replace(result, switches=tuple(_add_alternatives(kernel, section, decoding, result)))
    if any(kernel.symbols.find(name) is not None for name in _SCS_PATCHERS):
        result.outcomes[words == np.uint32(a64.AUTIASP)] |= STEPPED  # LDR X30, [X18, #-8]!
    return result


def _add_alternatives(kernel: Binary, section: Section, decoding: Decoding, text: BootedText) -> Iterator[Switch]:
    """Add the alternatives of the section to ``text``: replaced words and their outcomes; yield the switches."""
    entries = alternative_entries(kernel)
    at, entry, step = _indices(entries.original, section)
    text.replaced[at] = True
    # One callback writes NOPs (6.1-7.2); others write words that depend on the machine, and no exclusives.
    callback = entries.replacement.size[entry] == 0  # 5.5-7.2
    nops = kernel.symbols.find(PATCHES_NOPS)
    writes_nops = callback & (entries.replacement.start[entry] == np.uint64(nops.vaddr if nops else 0))
    np.bitwise_or.at(text.outcomes, at[callback & ~writes_nops], REFUSED | STEPPED | SIMULATED)
    nop = outcomes(np.array([a64.NOP], np.uint32), decoding)
    np.bitwise_or.at(text.outcomes, at[writes_nops], nop[0])
    plain = ~callback
    new = kernel.text.words(entries.replacement.start[entry[plain]] + step[plain].astype(np.uint64) * np.uint64(4))
    np.bitwise_or.at(text.outcomes, at[plain], outcomes(new, decoding))
    begins, ends = exclusives(new, decoding)
    capability = entries.capability[entry[plain]]
    differs = (begins != text.begins[at[plain]]) | (ends != text.ends[at[plain]])
    for number in sorted(set(capability[differs].tolist())):
        changed = capability == number
        yield Switch(at[plain][changed], begins[changed], ends[changed])


def _indices(ranges: Ranges, section: Section) -> tuple[I64, I64, I64]:
    """Return, for every word of the runs that is in the section, its index there, its run, and its place in the run."""
    count = ranges.size // 4
    run: I64 = np.repeat(np.arange(len(count)), count)
    step: I64 = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
    at: I64 = (ranges.start[run] - np.uint64(section.addr)).view(np.int64) // 4 + step
    inside: npt.NDArray[np.bool_] = (at >= 0) & (at < section.size // 4)
    return at[inside], run[inside], step[inside]
