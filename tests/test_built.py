"""Mini kernels are kept between runs, for as long as what they are made of is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support import built as maker
from tests.support.built import Mini, built
from tests.support.needs import needs_mini_kernel_tools


@pytest.mark.thorough
def test_another_form_or_compiler_makes_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_mini_kernel_tools()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make = built.__wrapped__  # as the next run sees it
    first = make(Spec())
    assert make(Spec()) == first
    assert len({first, make(Spec(zeros=True)), make(ModuleSpec()), make(ModuleSpec(linked=False))}) == 4
    monkeypatch.setattr(maker, "_ingredients", lambda: "gcc 99")
    assert make(Spec()) != first


def test_a_test_changes_its_copy_only(mini: Mini) -> None:
    copy = mini(Spec())
    copy.write_bytes(b"changed")
    assert mini(Spec()).read_bytes() != b"changed"
