"""The sites that a board reads back, of a Debian kernel."""

from __future__ import annotations

import pytest

from prologue.kernel.kernel import Kernel
from prologue_bench.recorder.sampling import sample_sites
from tests.support.needs import needs_kernel

pytestmark = pytest.mark.kernel


def test_sites_are_sampled_outside_of_init_memory() -> None:
    vmlinux = needs_kernel("bookworm").vmlinux
    kernel = Kernel(vmlinux)
    stext, begin, end = (kernel.symbols.require(name) for name in ("_stext", "__init_begin", "__init_end"))
    assert kernel.sites is not None
    first = kernel.sites.first
    assert ((first >= begin.vaddr) & (first < end.vaddr)).any()
    sample = sample_sites(vmlinux)
    assert set(sample) <= set((first - stext.vaddr).tolist())
    assert not any(begin.vaddr <= stext.vaddr + offset < end.vaddr for offset in sample)
    assert (len(sample), sorted(set(sample))) == (256, list(sample))
    assert (sample_sites(vmlinux) == sample, sample_sites(vmlinux, seed=2) == sample) == (True, False)
    assert len(sample_sites(vmlinux, count=10**6)) > 30_000
