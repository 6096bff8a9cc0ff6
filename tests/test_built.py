"""Mini kernels are kept between runs, for as long as what they are made of is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support import built as maker
from tests.support.built import AnySpec, Mini, built
from tests.support.needs import needs_mini_kernel_tools

SPECS = [Spec(), ModuleSpec(), ModuleSpec(linked=False)]


@pytest.fixture
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_mini_kernel_tools()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(maker, "built", built.__wrapped__)  # as the next run sees it


@pytest.mark.thorough
@pytest.mark.usefixtures("_empty")
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_second_run_builds_nothing(spec: AnySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = maker.built(spec)
    assert first.is_relative_to(tmp_path / "prologue" / "mini")
    assert first.read_bytes().startswith(b"\x7fELF")

    def fails(*_: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr("subprocess.run", fails)
    assert maker.built(spec) == first


@pytest.mark.thorough
@pytest.mark.usefixtures("_empty")
def test_another_compiler_makes_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    first = maker.built(Spec())
    monkeypatch.setattr(maker, "_ingredients", lambda: "gcc 99")
    assert maker.built(Spec()) != first


@pytest.mark.thorough
@pytest.mark.usefixtures("_empty")
def test_every_form_has_a_file_of_its_own() -> None:
    assert len({maker.built(spec) for spec in (*SPECS, Spec(layout="4,2"), Spec(zeros=True))}) == 5


def test_a_test_changes_its_copy_only(mini: Mini) -> None:
    copy = mini(Spec())
    copy.write_bytes(b"changed")
    assert mini(Spec()).read_bytes() != b"changed"
