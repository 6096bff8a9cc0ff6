"""The library on Debian's kernels, as a script uses it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prologue
from tests.real_kernels.conftest import Case

pytestmark = pytest.mark.kernel


def test_a_script(case: Case, tmp_path: Path) -> None:
    kernel = prologue.open(case.vmlinux)
    assert isinstance(kernel, prologue.Kernel)
    assert kernel.sites is not None
    assert prologue.verify(kernel).passed
    with pytest.raises(prologue.RefusedError, match="does not know the native contract"):
        prologue.make_plan(kernel)
    approved = prologue.make_plan(kernel, contract="stock")
    assert approved.plan.count("site") == len(kernel.sites)
    assert prologue.write(approved, tmp_path / "vmlinux") == len(approved.plan)
    copy = prologue.open(tmp_path / "vmlinux")
    assert copy.state == "processed"
    assert copy.sites is not None
    assert np.array_equal(copy.sites.first, kernel.sites.first)
    assert prologue.verify(copy, against=kernel).passed
    prologue.write(prologue.make_plan(copy, reverse=approved.plan), in_place=True)
    assert (tmp_path / "vmlinux").read_bytes() == case.vmlinux.read_bytes()
    able, unable = prologue.judge_probes(kernel, "vfs_read", "vfs_read+4")
    assert (able.answer, unable.answer) == ("yes", "no")
