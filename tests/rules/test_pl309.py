"""Entries of __jump_table whose branch no ``asm goto`` makes."""

from __future__ import annotations

import struct

import pytest

from prologue.insn.a64 import MOV_X9_X30
from prologue.kernel.load import open_binary
from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.pl309_jump_label_word import RULE, check
from prologue.rules.registry import find_rule
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit


def said(mini: Mini, field: int, change: int, rename: str = "") -> list[str]:
    with edit(mini(Spec(labels=True))) as elf:
        (entry,) = (section for section in open_binary(elf.path).image.sections if section.name == "__jump_table")
        at = entry.offset + field
        (distance,) = struct.unpack_from("<i", elf.data, at)
        struct.pack_into("<i", elf.data, at, distance + change)
    return [hit.message for hit in check(Subject(open_binary(elf.path)))]


@pytest.mark.parametrize("field", [0, 4])
@pytest.mark.parametrize("change", [2, 1 << 30])
def test_a_place_that_is_no_instruction(mini: Mini, field: int, change: int) -> None:
    (message,) = said(mini, field, change)
    assert message.endswith(": not both are instructions")


@pytest.mark.parametrize("change", [0, -4])
def test_places_of_the_same_function(mini: Mini, change: int) -> None:
    assert said(mini, 4, change) == []


def test_a_word_on_no_list_is_left_to_pl308_only_if_that_runs(mini: Mini) -> None:
    with edit(mini(Spec(labels=True))) as elf:
        elf.set_word(elf.value("label_user"), MOV_X9_X30)
    subject, both = Subject(open_binary(elf.path)), (find_rule("PL308"), RULE)
    assert [finding.code for finding in run_rules(subject, both)] == ["PL308"]
    assert [finding.code for finding in run_rules(subject, both[1:])] == ["PL309"]


def test_another_function(mini: Mini) -> None:
    elf = ElfEdit(mini(Spec(labels=True)))
    distance = elf.value("work_leaf") - elf.value("label_target")
    (message,) = said(mini, 4, distance)
    assert message.startswith("encodes a B from label_user (")
    assert " to work_leaf (" in message
    assert message.endswith(": another function")
