"""CALL_OPS literals of a kernel that sets them before its first BL of all, and not at boot: in the file until then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.insn.a64 import NOP, encode_b
from prologue.kernel.kernel import Kernel
from prologue.live.audit.claims import Claims
from prologue.live.audit.ftrace_state import Ops
from prologue.live.structs.ftrace_lists import ENABLED, LiveRecords
from tests.live.audit.made_claims import ftrace_claims, sites_of
from tests.mini_kernel.build import Spec
from tests.rules.fixture import process
from tests.support.built import Mini
from tests.support.compare import wrong_words
from tests.support.cores import running
from tests.support.tool import Tool, as_format

IDLE, TRACER, OTHER = 0xFFFF800081000000, 0xFFFF800081000100, 0xFFFF800081000200
NOPS = NOP | NOP << 32


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    return process(mini(Spec(layout="4,2", form="relr")))


def audited(vmlinux: Path, literals: Sequence[int], calls: int = 0, **said: Any) -> tuple[Claims, Claims]:
    """What is claimed of second slots and of literals, of which the first are those, and the last one is all others."""
    sites, caller = sites_of(vmlinux), Kernel(vmlinux).symbols.find("ftrace_caller")
    assert caller is not None
    values = [*literals, *[literals[-1]] * len(sites.second)][: len(sites.second)]
    order = np.argsort(sites.second)
    flags = np.where(np.arange(len(order)) < calls, ENABLED, np.uint64(0)).astype(np.uint64)[order]
    known: dict[str, Any] = {
        "sets_literals_late": True, "idle_ops": IDLE, "trampolines": frozenset({caller.vaddr}),
        "ops": Ops(frozenset({TRACER}), complete=True), "records": LiveRecords(sites.second[order], flags),
    }  # fmt: skip
    claims = ftrace_claims(
        vmlinux,
        {second: encode_b(second, caller.vaddr, link=True) for second in sites.second[:calls].tolist()},
        {entry - 8: value for entry, value in zip(sites.entry.tolist(), values, strict=True)},
        **(known | said),
    )
    (second,) = [one for one in claims if one.kind == "call"]
    (data,) = [one for one in claims if one.kind == "data"]
    return second, data


def wrong(claims: Claims) -> list[int]:
    """Which literals."""
    return sorted({k // 2 for k in np.flatnonzero(~claims.right).tolist()})


def test_nothing_was_traced_since_boot(vmlinux: Path) -> None:
    second, data = audited(vmlinux, [NOPS])
    assert wrong_words(second) == []
    assert not np.any(second.unsure)
    assert wrong_words(data) == []
    assert not np.any(data.unsure)
    assert data.note == "nothing was traced since boot: 15 CALL_OPS literals are those of the file"
    assert "nothing was traced" in data.reason(0)


def test_a_kernel_that_sets_them_at_boot(vmlinux: Path) -> None:
    _, data = audited(vmlinux, [NOPS], sets_literals_late=False)
    assert not data.right.any()
    assert not data.note
    assert data.expected[0] == IDLE & 0xFFFFFFFF


def test_literals_of_a_module_are_set_when_it_is_loaded(vmlinux: Path) -> None:
    _, data = audited(vmlinux, [NOPS], of_module=True)
    assert not data.right.any()


def test_something_was_traced(vmlinux: Path) -> None:
    second, data = audited(vmlinux, [TRACER, TRACER, IDLE], calls=2)
    assert wrong_words(second) == []
    assert wrong_words(data) == []
    assert not data.note


@pytest.mark.parametrize(
    ("literals", "expected"), [([IDLE, NOPS, IDLE], IDLE), ([NOPS, IDLE, NOPS], NOPS), ([NOPS, OTHER, NOPS], NOPS)]
)
def test_all_literals_are_set_at_once(vmlinux: Path, literals: list[int], expected: int) -> None:
    _, data = audited(vmlinux, literals)
    assert wrong(data) == [1]
    assert int(data.expected[2]) | int(data.expected[3]) << 32 == expected


@pytest.mark.parametrize("literals", [[IDLE] * 4 + [NOPS], [IDLE] * 12 + [NOPS]])
@pytest.mark.parametrize("why", ["disabled", "unstable"])
def test_a_pass_that_is_not_over_or_was_given_up(vmlinux: Path, literals: list[int], why: str) -> None:
    """Damage ends it half-way: ftrace disables itself, and no BL is ever written."""
    _, data = audited(vmlinux, literals, **{why: True})
    assert wrong_words(data) == []
    assert np.any(data.unsure) == (why == "unstable")
    assert not data.note
    _, data = audited(vmlinux, [*literals[:2], OTHER, *literals[3:]], **{why: True})
    assert wrong(data) == [2]


@pytest.mark.parametrize("calls", [0, 1])
def test_without_records_the_literal_says_that_a_site_is_not_traced(vmlinux: Path, calls: int) -> None:
    second, data = audited(vmlinux, [NOPS], calls, records=None)
    assert not np.any(second.unsure)
    assert np.flatnonzero(~second.right).tolist() == [0] * calls
    assert wrong_words(data) == []


@pytest.mark.thorough
def test_the_report_says_so(vmlinux: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    """Of a kernel that can set literals late, which a function says that it has."""
    core = vmlinux.with_name("core")
    core.write_bytes(running(vmlinux, {}))
    command = ["live", "audit", str(vmlinux), str(core), "--allow-undecided"]
    assert main(command) == 1
    monkeypatch.setattr("prologue.live.audit.ftrace_state._SETS_ALL_LITERALS", "aarch64_insn_write_literal_u64")
    for form in ("text", "json", "sarif", "junit"):
        printed = tool(*command, *as_format(form))
        assert "nothing was traced since boot: 15 CALL_OPS literals are those of the file" in printed.out
