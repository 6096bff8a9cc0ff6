"""Direct calls of kernels that have no literal, or one ``ftrace_ops`` for many: ``direct_functions`` says where to."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from prologue.insn import a64
from prologue.live.audit.ftrace_state import FtraceState, Ops
from prologue.live.memory.sources import open_memory
from prologue.live.structs.ftrace_lists import ENABLED, LiveRecords
from prologue.live.structs.variables import Variables
from prologue.live.system.running_kernel import RunningKernel, open_running
from tests.live.audit.made_claims import ftrace_claims, sites_of
from tests.live.hooks.hooked import make, saved
from tests.mini_kernel.build import Spec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.compare import wrong_words
from tests.support.elf_edit import ElfEdit

_MANY = 0xFFFF_8000_0F00_0000  # an ops that has no target of its own


@pytest.mark.parametrize(
    ("layout", "literal", "sent", "right"),
    [
        ("2", None, True, True),
        ("2", None, False, False),
        ("4,2", _MANY, True, True),
        ("4,2", _MANY, False, False),
        ("4,2", _MANY + 8, True, False),  # no registered ops: the table does not vouch for it
        ("2", None, None, True),  # memory lacks a part of the table: not decided
    ],
)
def test_the_table_says_where_a_direct_call_leads(
    layout: Literal["2", "4,2"], literal: int | None, sent: bool | None, right: bool, mini: Mini
) -> None:
    vmlinux = process(mini(Spec(layout=layout, form="relr")))
    sites = sites_of(vmlinux)
    place, target = int(sites.second[0]), int(sites.first[1])
    flags = np.where(np.sort(sites.second) == place, ENABLED, np.uint64(0))
    claims = ftrace_claims(
        vmlinux,
        {place: a64.encode_b(place, target, link=True)},
        {int(sites.entry[0]) - 8: literal} if literal is not None else {},
        ops=Ops(frozenset({_MANY}), complete=True),
        records=LiveRecords(np.sort(sites.second), flags),
        direct_targets=None if sent is None else {place: target if sent else target + 4},
    )
    (seconds,) = [each for each in claims if each.mechanism == "second slots"]
    chosen = seconds.vaddrs == place
    assert (wrong_words(seconds.only(chosen)) == []) == right
    assert np.broadcast_to(seconds.unsure, chosen.shape)[chosen].all() == (sent is None)


def test_the_table_is_read(tmp_path: Path) -> None:
    vmlinux = make(tmp_path)
    elf = ElfEdit(vmlinux)
    for changes, expected in (({}, {elf.value("vfs_read") + 4: elf.value("on_probe")}), ({"sends+16": 9}, None)):
        memory = open_memory(str(saved(vmlinux, {"direct_functions": elf.value("sends"), **changes})))
        kernel = RunningKernel(open_running(vmlinux, memory), memory)
        assert FtraceState(kernel, Variables.of_kernel(kernel)).direct_targets == expected, changes


@pytest.mark.parametrize(
    ("unstable", "named", "right"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_a_direct_call_whose_ops_was_just_taken_off_the_list(
    unstable: bool, named: bool, right: bool, mini: Mini
) -> None:
    """``unregister_ftrace_direct`` writes text after that; memory of another moment does not name the code any more."""
    vmlinux = process(mini(Spec(layout="4,2", form="relr")))
    sites = sites_of(vmlinux)
    place, target = int(sites.second[0]), int(sites.first[1])
    claims = ftrace_claims(
        vmlinux,
        {place: a64.encode_b(place, target, link=True)},
        {int(sites.entry[0]) - 8: _MANY},
        unstable=True,
        text_unstable=unstable,
        may_be_leaving=lambda _: True,
        is_code=lambda _: named,
        direct_call=lambda _: target,
    )
    (seconds,) = [each for each in claims if each.mechanism == "second slots"]
    assert (wrong_words(seconds.only(seconds.vaddrs == place)) == []) == right
