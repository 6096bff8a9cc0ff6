"""What the kernel answered against what was said before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from prologue.probe.instructions import REFUSED
from prologue.probe.judge import KERNEL_REASONS, Judge, Reason
from tests.real_kernels.kprobes.guest import Answer, Batch

DEPENDS = "d"


@dataclass(slots=True)
class Comparison:
    """``counts`` by what was said and what was answered: the characters of ask.c, or ``d`` if the machine decides."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[Reason] = field(default_factory=Counter)
    disagreements: list[tuple[str, str, str]] = field(default_factory=list)  # place, said, answered


def compare(judge: Judge, batches: Sequence[Batch], answers: Sequence[Answer], *, bare: bool = False) -> Comparison:
    """Compare place by place; ``bare`` is as in guest.ask."""
    result = Comparison()
    for batch, answer in zip(batches, answers[: len(batches)], strict=True):
        reasons, outcomes = judge.judge(batch.vaddrs)
        found = zip(batch.vaddrs.tolist(), reasons.tolist(), outcomes.tolist(), answer.places, strict=True)
        for vaddr, reason, outcome, answered in found:
            said = expected(reason & ~Reason.NOTRACE if bare else reason, outcome)
            result.counts[said, answered] += 1
            result.reasons.update(Reason(reason))
            if answered != said and (said != DEPENDS or answered not in "+e"):
                result.disagreements.append((str(judge.kernel.symbols.locate(vaddr)), said, answered))
    return result


def expected(reason: int, outcome: int) -> str:
    """The answer that a verdict lets one expect; data are no concern of the kernel's."""
    if reason & Reason.NOTRACE:
        return "n"
    if reason & KERNEL_REASONS:
        return "e"
    return DEPENDS if outcome & REFUSED else "+"
