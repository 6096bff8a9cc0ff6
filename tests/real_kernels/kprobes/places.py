"""Which places to ask about: some of every kind that the rules tell apart, and random ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import I64, U64, sorted_unique
from prologue.insn import a64
from prologue.kernel.tables import bug_words, jump_labels
from prologue.probe.instructions import REFUSED, SIMULATED, STEPPED
from prologue.probe.judge import KERNEL_REASONS, Judge, Reason
from tests.real_kernels.kprobes.guest import SLOTS_IN_PAGE, Batch

RANDOM: Final = "random words"
_SIZES: Final = (2 * SLOTS_IN_PAGE + 1, SLOTS_IN_PAGE + 1)


def choose(judge: Judge, count: int, seed: int = 1) -> dict[str, U64]:
    """Places by kind, about ``count`` in all, a quarter of them random; the same for the same seed."""
    rng = np.random.default_rng(seed)
    kinds = dict(_kinds(judge))
    each = count * 3 // 4 // len(kinds)
    base, result = np.uint64(judge.text.addr), {}
    for name, index in kinds.items():
        some = sorted_unique(index[(index >= 0) & (index < len(judge.reasons))])
        chosen = rng.choice(some, min(each, len(some)), replace=False)
        result[name] = base + chosen.astype(np.uint64) * np.uint64(4)
    rest = count - len(sorted_unique(np.concatenate(list(result.values()))))
    words = rng.choice(len(judge.reasons), rest, replace=False)
    result[RANDOM] = base + words.astype(np.uint64) * np.uint64(4)
    return result


def _kinds(judge: Judge) -> Iterator[tuple[str, I64]]:
    """Name, and indices of all such words of the text; some lie outside of it."""
    base, words, running = judge.text.addr, judge.booted.words, judge.booted
    sites = judge.kernel.sites
    assert sites is not None

    def at(vaddrs: U64) -> I64:
        return (vaddrs - np.uint64(base)).view(np.int64) // 4

    def around(index: I64, distances: tuple[int, ...]) -> I64:
        return np.concatenate([index + distance for distance in distances])

    yield "symbol starts", at(judge.kallsyms.starts)
    yield "function entries", at(sites.entry)
    yield "first slots", at(sites.first)
    yield "second slots", at(sites.second)
    yield "words after the slots", at(sites.second) + 1
    yield "CALL_OPS literals and words before functions", around(at(sites.entry), (-2, -1))
    yield "one word around exclusives", around(np.flatnonzero(running.begins | running.ends), (-1, 0, 1))
    yield "2 to 34 words after exclusives", around(np.flatnonzero(running.begins), tuple(range(2, 35)))
    for reason in Reason:
        yield f"reason {reason.name}", np.flatnonzero(judge.reasons & np.uint16(reason))
    yield "around jump labels", around(at(jump_labels(judge.kernel).code), (-1, 1))
    yield "around BUG and WARN", around(at(bug_words(judge.kernel)[0]), (-1, 1))
    yield "replaced by alternatives", np.flatnonzero(running.replaced)
    yield "landing pads", np.flatnonzero(words & np.uint32(a64.BTI_MASK) == np.uint32(a64.BTI))
    yield "PACIASP, AUTIASP", np.flatnonzero((words == np.uint32(a64.PACIASP)) | (words == np.uint32(a64.AUTIASP)))
    yield "symbols with a suffix", at(judge.kallsyms.starts[list(judge._suffixed)])
    for name in ("LDR literal", "MRS", "MSR", "hints", "barriers"):
        mask, value = _GROUPS[name]
        yield name, np.flatnonzero(words & np.uint32(mask) == np.uint32(value))
    for name, bit in (("stepped", STEPPED), ("simulated", SIMULATED), ("refused by the word", REFUSED)):
        yield name, np.flatnonzero(running.outcomes == bit)
    is_open = (judge.reasons & KERNEL_REASONS == 0) & (judge.outcomes & REFUSED != 0)
    yield "what the machine decides", np.flatnonzero(is_open)


_GROUPS: Final = {
    "LDR literal": (0x3B000000, 0x18000000),
    "MRS": (0xFFF00000, 0xD5300000),
    "MSR": (0xFFF00000, 0xD5100000),
    "hints": (0xFFFFF01F, 0xD503201F),
    "barriers": (0xFFFFF01F, 0xD503301F),
}


def batches(judge: Judge, vaddrs: U64, *, bare: bool = False) -> list[Batch]:
    """The same places, each once: first those that are simulated, then those that are stepped, then all others.

    While only simulated ones are there, no page holds slots for instructions. One more stepped place than whole pages
    hold needs another page: a single one that is not stepped would show. ``bare`` is as in guest.ask.
    """
    vaddrs = sorted_unique(vaddrs)
    reasons, outcomes = judge.judge(vaddrs)
    taken = reasons & (KERNEL_REASONS & ~Reason.NOTRACE if bare else KERNEL_REASONS) == 0
    groups = [taken & (outcomes == SIMULATED), taken & (outcomes == STEPPED)]
    groups.append(~(groups[0] | groups[1]))
    result = []
    for number, group in enumerate(groups):
        some, start = vaddrs[group], 0
        while start < len(some):
            size = next((size for size in _SIZES if size <= len(some) - start), len(some) - start)
            telling = number == 0 or (number == 1 and size in _SIZES)
            result.append(Batch(some[start : start + size], telling))
            start += size
    return result
