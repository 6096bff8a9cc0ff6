"""Real kernels are asked for kprobes at places of every kind, and answer as ``prologue probe`` says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from prologue.insn.kprobes import REFUSED
from prologue.probe.judge import Judge, Reason
from prologue.sites.kernel import Kernel
from tests.real_kernels.kprobes.compare import compare
from tests.real_kernels.kprobes.guest import SLOTS_IN_PAGE, TOOLS, ask
from tests.real_kernels.kprobes.places import batches, choose
from tests.support.needs import needs_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

PLACES = 2400


@pytest.mark.parametrize("suite", ["bookworm", "trixie", "sid"])
def test_the_kernel_agrees(suite: str, tmp_path: Path) -> None:
    needs_tools(*TOOLS)
    judge = Judge(Kernel(needs_kernel(suite).vmlinux))
    kinds = choose(judge, PLACES)
    asked = batches(judge, np.concatenate(list(kinds.values())))
    answers = ask(judge, asked, tmp_path)
    result = compare(judge, asked, answers)
    assert result.disagreements == []
    assert sum(result.counts.values()) > PLACES * 0.95
    # Every answer was given, and every reason that such a kernel has.
    assert all(result.counts[pair] > 10 for pair in (("+", "+"), ("n", "n"), ("e", "e")))
    assert set(result.reasons) >= set(Reason) - {Reason.NOT_TEXT, Reason.CFI_PREAMBLE}
    # Simulated ones took no slot, and of the stepped ones each took one.
    simulated, stepped = asked[0], next(k for k, batch in enumerate(asked) if k and batch.count_pages)
    assert simulated.count_pages
    assert answers[0].pages == 0
    assert answers[stepped].pages == -(-len(asked[stepped].vaddrs) // SLOTS_IN_PAGE)


def test_the_comparison_can_fail(tmp_path: Path) -> None:
    """A judge that forgets one rule is found out."""
    needs_tools(*TOOLS)
    judge = Judge(Kernel(needs_kernel("trixie").vmlinux))
    right = judge.reasons.copy()
    judge.reasons[:] &= ~np.uint16(Reason.SECOND_SLOT)
    index = np.flatnonzero(right == np.uint16(Reason.SECOND_SLOT))[:50]
    index = index[judge.outcomes[index] & REFUSED == 0]
    vaddrs = np.uint64(judge.text.addr) + index.astype(np.uint64) * np.uint64(4)
    asked = batches(judge, vaddrs)
    result = compare(judge, asked, ask(judge, asked, tmp_path))
    assert len(result.disagreements) == len(vaddrs) > 10
    assert Counter(answer for _, _, answer in result.disagreements) == {"e": len(vaddrs)}
