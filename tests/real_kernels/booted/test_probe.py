"""Real kernels are asked for kprobes at places of every kind, and answer as ``prologue probe`` says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from prologue.arrays import U64
from prologue.kernel.kernel import Kernel
from prologue.probe.instructions import REFUSED, SIMULATED, STEPPED
from prologue.probe.judge import Judge, Reason
from tests.real_kernels.kprobes.guest import SLOTS_IN_PAGE, TOOLS, ask, compare
from tests.real_kernels.kprobes.places import batches, choose
from tests.support.cases import one_tested
from tests.support.needs import needs_kernel, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

PLACES = 2400
SUITES = one_tested("trixie", "bookworm", "sid")


@pytest.fixture(scope="module", params=SUITES)
def judge(request: pytest.FixtureRequest) -> Judge:
    needs_tools(*TOOLS)
    return Judge(Kernel(needs_kernel(request.param).vmlinux))


def test_the_kernel_agrees_about_modules_probes(judge: Judge, tmp_path: Path) -> None:
    """What is left for register_kprobe() where kprobe events are refused because of ftrace."""
    kinds = choose(judge, PLACES // 2, seed=2)
    untraced = np.concatenate(list(kinds.values()))
    untraced = np.concatenate([untraced, _some(judge, Reason.NOTRACE), _some(judge, Reason.BLACKLIST)])
    asked = batches(judge, untraced, bare=True)
    result = compare(judge, asked, ask(judge, asked, tmp_path, bare=True), bare=True)
    assert result.disagreements == []
    assert {answer for _, answer in result.counts} == {"+", "e"}
    assert result.reasons[Reason.NOTRACE] > 100
    assert result.reasons[Reason.BLACKLIST] > 100


def test_nobody_knows_what_a_literal_will_hold(judge: Judge) -> None:
    """The address of an ftrace_ops, where KASLR put it: the kernel takes it for an instruction."""
    sites = judge.kernel.sites
    assert sites is not None
    before = sites.entry[sites.entry < np.uint64(judge.text_range.stop)] - np.uint64(8)
    outcomes = set(judge.judge(np.concatenate([before, before + np.uint64(4)]))[1].tolist())
    anything = REFUSED | STEPPED | SIMULATED
    assert (outcomes == {anything}) == (sites.layout == "4,2")


def _some(judge: Judge, reason: Reason) -> U64:
    """Places that this reason speaks against, from the first to the last."""
    index = np.flatnonzero(judge.reasons & np.uint16(reason))
    return np.uint64(judge.text.addr) + index[:: max(len(index) // 200, 1)].astype(np.uint64) * np.uint64(4)


def test_the_kernel_agrees(judge: Judge, tmp_path: Path) -> None:
    kinds = choose(judge, PLACES)
    asked = batches(judge, np.concatenate(list(kinds.values())))
    answers = ask(judge, asked, tmp_path)
    result = compare(judge, asked, answers)
    assert result.disagreements == []
    assert sum(result.counts.values()) > PLACES * 0.95
    # Every answer was given, and every reason that such a kernel has.
    assert all(result.counts[pair] > 10 for pair in (("+", "+"), ("n", "n"), ("e", "e")))
    assert set(result.reasons) >= set(Reason) - {Reason.NOT_TEXT, Reason.CFI_PREAMBLE}
    # Simulated ones took no page of slots (one is there since boot in 7.2), and of the stepped ones each took a slot.
    simulated, stepped = asked[0], next(k for k, batch in enumerate(asked) if k and batch.count_pages)
    assert simulated.count_pages
    assert answers[0].pages <= int(judge.kernel.version == (7, 2))
    assert answers[stepped].pages == -(-len(asked[stepped].vaddrs) // SLOTS_IN_PAGE)


@pytest.mark.extended  # one more boot
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
