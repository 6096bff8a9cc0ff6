"""``prologue.open_system``: words, places and audits of a kernel that runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import prologue
from tests.live.overlay.test_modules import Loaded, load
from tests.rules.fixture import as_running, process
from tests.support.built import Mini
from tests.support.compare import addresses
from tests.support.cores import SLIDE, core, image_of, vmcoreinfo
from tests.support.elf_edit import MOV, NOP, ElfEdit


def running(vmlinux: Path, changes: dict[int, int] | None = None) -> prologue.System:
    return prologue.open_system(*map(str, as_running(vmlinux, changes or {})))


def test_words_are_those_of_memory_in_the_order_of_the_addresses(vmlinux: Path) -> None:
    leaf = ElfEdit(vmlinux).value("work_leaf")
    system, at = running(vmlinux, {leaf + 8: 0xD4200080}), leaf + SLIDE
    words, present = system.words([at + 8, 0, at, at + 8, at + (1 << 30)])
    assert words.tolist() == [0xD4200080, 0, MOV, 0xD4200080, 0]
    assert present.tolist() == [True, False, True, True, False]
    assert (words.dtype.name, present.dtype.name) == ("uint32", "bool")
    assert [each.tolist() for each in system.words(at + 4)] == [[NOP], [True]]
    assert [each.shape for each in system.words([])] == [(0,), (0,)]
    slots = prologue.open(vmlinux).sites
    assert slots is not None
    words = system.words(slots.first + np.uint64(system.slide))[0]
    assert addresses(slots.first[words != MOV]) == []
    assert not system.words((1 << 64) - 4)[1].any()


@pytest.mark.parametrize("wrong", [2, -4, 1 << 64, [[0, 4]], [0.5], np.array([4.0]), np.zeros((2, 2), np.uint64)])
def test_what_is_no_address_is_a_usage_error(vmlinux: Path, wrong: int) -> None:
    with pytest.raises(prologue.UsageError):
        running(vmlinux).words(wrong)


def test_addresses_have_names(vmlinux: Path) -> None:
    system = running(vmlinux)
    [leaf] = system.find("work_leaf")
    assert leaf == ElfEdit(vmlinux).value("work_leaf") + SLIDE == system.slide + leaf - SLIDE
    where = system.locate(leaf + 8)
    assert (where.vaddr, where.symbol, where.symbol_offset, where.section) == (leaf + 8, "work_leaf", 8, ".text")
    assert system.find("nope") == []
    for vaddr in (0, leaf - SLIDE, (1 << 64) - 1):
        assert system.locate(vaddr) == prologue.Location(vaddr)
    for vaddr in (-1, 1 << 64):
        with pytest.raises(prologue.UsageError):
            system.locate(vaddr)


def test_an_audit_that_leaves_words_open_does_not_pass(vmlinux: Path) -> None:
    audit = running(vmlinux).audit()
    assert (audit.findings, audit.undecided.lacking, audit.passed) == ((), 15, False)


def test_an_audit_finds_what_the_command_finds(vmlinux: Path) -> None:
    leaf = ElfEdit(vmlinux).value("work_leaf")
    system = running(vmlinux, {leaf: NOP})
    assert [(finding.code, finding.where.symbol) for finding in system.audit().findings] == [("PL501", "work_leaf")]
    assert system.audit(ignore=["PL501"]).findings == ()
    for select in (["PL1"], ["PL506"], ["PL999"]):
        with pytest.raises(prologue.UsageError):
            system.audit(select=select)
    with pytest.raises(prologue.UsageError):
        system.audit(select="PL501")


def test_what_changed_since(vmlinux: Path, tmp_path: Path) -> None:
    leaf = ElfEdit(vmlinux).value("work_leaf")
    before = running(vmlinux)
    (tmp_path / "core").rename(tmp_path / "before")
    before = prologue.open_system(vmlinux, tmp_path / "before")
    audit = running(vmlinux, {leaf: NOP}).audit(since=before)
    assert [(each.mechanism, each.words, each.allowed) for each in audit.transitions] == [("first slots", 1, True)]


def test_memory_of_another_kernel_is_bad_input(vmlinux: Path, tmp_path: Path) -> None:
    start, image = image_of(vmlinux)
    (tmp_path / "other").write_bytes(core([(start + SLIDE, 0, bytes(len(image)))], [vmcoreinfo(SLIDE)]))
    with pytest.raises(prologue.InputError):
        prologue.open_system(vmlinux, tmp_path / "other")
    with pytest.raises(prologue.InputError):
        prologue.open_system(vmlinux, vmlinux)
    with pytest.raises(prologue.InputError):
        prologue.open_system(vmlinux, tmp_path / "none")


@pytest.fixture
def loaded(mini: Mini) -> Loaded:
    loaded = load(mini)
    process(loaded.vmlinux)
    return loaded


def test_modules_are_named_by_their_files(loaded: Loaded) -> None:
    capture = loaded.capture()
    system = prologue.open_system(loaded.vmlinux, capture, loaded.ko.parent)
    text = loaded.places[".text"]
    assert (system.locate(text).symbol or "").endswith(" [mini]")
    assert system.words(text)[1].tolist() == [True]
    assert len(system.audit().files) == 2
    alone = prologue.open_system(loaded.vmlinux, capture)
    assert alone.locate(text) == prologue.Location(text)
    assert alone.words(text)[0] == system.words(text)[0]
