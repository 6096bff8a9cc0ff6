"""CALL_OPS literals while ftrace is at work: what its records contradict is not decided."""

from __future__ import annotations

import numpy as np
import pytest

from prologue.insn import a64
from prologue.live.audit.claims import Claims
from prologue.live.audit.ftrace_state import Ops
from prologue.live.structs.ftrace_lists import ENABLED, LiveRecords
from tests.live.audit.made_claims import ftrace_claims, sites_of
from tests.mini_kernel.build import Spec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.compare import wrong_words

IDLE, TRACER = 0xFFFF800081000000, 0xFFFF800081000100


@pytest.mark.parametrize(
    ("literal", "enabled", "known"),
    [(IDLE, False, True), (TRACER, True, True), (IDLE, True, False), (TRACER, False, False)],
)
def test_records_and_literals(mini: Mini, literal: int, enabled: bool, known: bool) -> None:
    """While the lock is held a literal may be ahead of its record, or somebody else's: nobody can say."""
    for busy in (True, False):
        one = claimed(mini, literal, busy=busy, enabled=enabled)
        assert (wrong_words(one) == []) == (known or busy)
        assert np.all(one.unsure & one.right) == (not known and busy)
        assert np.any(one.unstable & one.right) == (busy and not known)


@pytest.mark.parametrize(
    ("literal", "plausible"),
    [
        (0xFFFF699C832F9700, True),  # in the linear map, where most ops are: of 48 bits, of 52, of 39
        (0xFFF0080001234560, True),
        (0xFFFFFF8001234560, True),
        (0xFFFF8000812F9700, True),  # vmalloc
        (0x0000FFFF812F9700, False),
        (0xFFFF699C832F9704, False),
    ],
)
def test_an_ops_that_may_have_left_is_an_address_of_the_kernel_s(mini: Mini, literal: int, plausible: bool) -> None:
    one = claimed(mini, literal, busy=True, enabled=True, leaving=True)
    assert np.all(one.unsure & one.right) == one.right.all() == plausible
    assert not claimed(mini, literal, busy=True, enabled=True).right.reshape(-1, 2).all(axis=1).any()


def test_an_ops_that_was_not_read_may_be_anywhere(mini: Mini) -> None:
    """Instances and BPF have theirs in the heap; a list that ends early does not accuse them."""
    one = claimed(mini, 0xFFFF00000A4E9C00, busy=False, enabled=True, complete=False)
    assert np.all(one.unsure & one.right)


@pytest.mark.parametrize("literal", [IDLE, TRACER, 0xFFFF00000A4E9C00])
@pytest.mark.parametrize("word", [a64.NOP, a64.encode_b(0, 8, link=True)])
def test_sites_without_any_record_are_not_decided(mini: Mini, literal: int, word: int) -> None:
    """As those of a module that is being unloaded: its records go first, and its text stays as it was traced."""
    first, second, data = every_claim(mini, literal, busy=False, enabled=False, recorded=False, word=word)
    assert wrong_words(first) == []
    assert wrong_words(second) == []
    assert np.all(second.unsure)
    assert wrong_words(data) == []
    assert np.all(data.unsure) == (literal not in {IDLE, TRACER})


def test_the_kernel_has_records_of_its_own_sites(mini: Mini) -> None:
    call = a64.encode_b(0, 8, link=True)
    _, second, _ = every_claim(mini, TRACER, busy=False, enabled=False, recorded=False, own=True, word=call)
    assert not second.right.any()


def claimed(
    mini: Mini, literal: int, *, busy: bool, enabled: bool, leaving: bool = False, complete: bool = True
) -> Claims:
    """Claim the literals of a kernel, which are all the same."""
    return every_claim(mini, literal, busy=busy, enabled=enabled, leaving=leaving, complete=complete)[-1]


def every_claim(
    mini: Mini, literal: int, *, busy: bool, enabled: bool, leaving: bool = False, complete: bool = True,
    recorded: bool = True, own: bool = False, word: int = 0,
) -> tuple[Claims, Claims, Claims]:  # fmt: skip
    """Claim first slots, second slots (``word``, if it is not 0) and literals."""
    vmlinux = process(mini(Spec(layout="4,2", form="relr")))
    sites = sites_of(vmlinux)
    flags = np.full(len(sites.second), ENABLED if enabled else 0, np.uint64)
    first, second, data, *_ = ftrace_claims(
        vmlinux,
        dict.fromkeys(sites.second.tolist() if word else (), word),
        {entry - 8: literal for entry in sites.entry.tolist()},
        of_module=not (recorded or own),
        unstable=busy,
        idle_ops=IDLE,
        trampolines=frozenset((sites.second + np.uint64(8)).tolist()),
        ops=Ops(frozenset({TRACER}), complete=complete),
        records=LiveRecords(np.sort(sites.second) + np.uint64(0 if recorded else 1 << 30), flags),
        may_be_leaving=lambda _: leaving,
    )
    assert len(data.vaddrs) == 2 * len(sites.second)
    return first, second, data
