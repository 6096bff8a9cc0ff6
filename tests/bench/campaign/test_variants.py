"""Variants of one link, and that the proof can fail."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.errors import InputError, RefusedError
from prologue.kernel.kernel import Kernel
from prologue.plan.edits import Kind, PatchPlan
from prologue.plan.variants import KINDS
from prologue_bench.campaign.variants import make_link, plan_variants
from prologue_bench.errors import BenchError
from tests.mini_kernel.build import Spec

Mini = Callable[[Spec], Path]
SPEC = Spec(layout="4,2")  # 15 sites, records in RELA


@pytest.mark.thorough
def test_images_and_proof(mini: Mini, tmp_path: Path) -> None:
    vmlinux = mini(SPEC)
    (tmp_path / "variant-of-a-killed-run").mkdir()
    (tmp_path / ".Image.boot.x.tmp").touch()
    made = make_link(plan_variants(vmlinux, KINDS), tmp_path)
    symbols, sections = len(Kernel(vmlinux).symbols.values), len(Kernel(vmlinux).image.sections)
    assert made.proof == (
        f"same link: 0 of {symbols:,} symbols and 0 of {sections} sections moved",
        "nop-nop: 1 word differs: 1 in a named stub",
        "boot: as linked",
        "build: 32 words differ: 15 first slots, 15 of records, 2 of the marker",
    )
    assert [image.variant.words for image in made.images] == [0, 1, 33]
    assert made.stub == {}  # the native contract
    assert made.build_id == Kernel(vmlinux).build_id
    for image in made.images:
        by_hand = tmp_path / "by-hand"
        assert main(["variant", str(vmlinux), "--kind", str(image.variant.kind), "-o", str(by_hand)]) == 0
        assert main(["image", str(by_hand), "-o", str(tmp_path / "Image")]) == 0
        assert image.path.read_bytes() == (tmp_path / "Image").read_bytes()
        assert image.variant.image_sha256 == hashlib.sha256(image.path.read_bytes()).hexdigest()
    assert not [*tmp_path.glob("*variant*"), *tmp_path.glob(".Image*")]


def test_what_tells_a_running_build_from_a_boot(mini: Mini, tmp_path: Path) -> None:
    """Words of ``ftrace_init_nop``, at their distance from ``_stext``."""
    vmlinux = mini(replace(SPEC, contract="stock"))
    kernel = Kernel(vmlinux)
    start = kernel.symbols.find("_stext")
    assert start is not None
    made = make_link(plan_variants(vmlinux, KINDS), tmp_path)
    assert len(made.stub) == len(kernel.init_stub.edits) > 0
    for offset, word in made.stub.items():
        assert int.from_bytes(kernel.image.read_at(start.vaddr + offset, 4) or b"", "little") != word
    assert make_link(plan_variants(vmlinux, ("nop-nop", "boot")), tmp_path).stub == {}


def test_the_base_is_the_first(mini: Mini, tmp_path: Path) -> None:
    made = make_link(plan_variants(mini(SPEC), ("build", "boot")), tmp_path)
    assert [(image.variant.label, image.variant.words) for image in made.images] == [("build", 0), ("boot", 32)]


def test_a_word_that_no_plan_names_is_found(mini: Mini, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that does more than its plan: the plan that the proof sees lacks the last site."""
    whole = PatchPlan.changed_words

    def forgetful(plan: PatchPlan, kind: Kind | None = None) -> dict[int, int]:
        return dict(list(whole(plan, kind).items())[1:])

    monkeypatch.setattr(PatchPlan, "changed_words", forgetful)
    with pytest.raises(BenchError, match="differs, which no plan names"):
        make_link(plan_variants(mini(SPEC), ("boot", "build")), tmp_path)


def test_the_parts_of_the_proof_add_up(mini: Mini, tmp_path: Path) -> None:
    """Records of version 2 are 4 bytes, two in an 8-byte word of the plan."""
    vmlinux = mini(replace(SPEC, marker=2))
    *_, build = make_link(plan_variants(vmlinux, ("boot", "build")), tmp_path / "link").proof
    total, *parts = (int(number) for number in re.findall(r"\d+", build))
    assert main(["variant", str(vmlinux), "--kind", "build", "-o", str(tmp_path / "build")]) == 0
    before, after = (np.frombuffer(path.read_bytes(), "<u4") for path in (vmlinux, tmp_path / "build"))
    assert total == sum(parts) == np.count_nonzero(before != after)


def test_no_vmlinux_to_make_variants_of(mini: Mini, tmp_path: Path) -> None:
    vmlinux = mini(SPEC)
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    with pytest.raises(RefusedError, match="variants are made from an unprocessed vmlinux"):
        plan_variants(vmlinux, KINDS)
    with pytest.raises(InputError, match="nowhere"):
        plan_variants(tmp_path / "nowhere", KINDS)
    assert list(tmp_path.glob("Image*")) == []
