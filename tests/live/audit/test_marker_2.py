"""Running kernels with version 2 of the marker: processed, records are offsets; unprocessed, boot writes the MOVs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prologue.insn.a64 import encode_b
from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import OFFSETS, SYMBOL, WRITING
from prologue.kernel.marker_reader import FLAGS
from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, as_running, process
from tests.support.built import Mini
from tests.support.elf_edit import MOV, NOP, edit
from tests.support.tool import Tool

FORMS = [
    Spec(marker=2), Spec(marker=2, form="rela-applied"), Spec(marker=2, plain=True), Spec(marker=2, weak=True),
    Spec("4,2", compiler="clang", form="relr", bti=True, marker=2), Spec("4,2", form="rela", zeros=True, marker=2),
]  # fmt: skip


def audited(vmlinux: Path, changes: dict[int, int], tool: Tool, status: int = 0) -> dict[str, Any]:
    """The report, with counts by mechanism as ``rows``."""
    data: dict[str, Any] = tool(*AUDIT, *as_running(vmlinux, changes), "--json", status=status).json
    rows = {row["mechanism"]: row for row in data["files"][0]["mechanisms"]}
    return data | {"rows": rows, "notes": data["files"][0]["notes"]}


@pytest.mark.parametrize("spec", FORMS, ids=str)
def test_a_processed_kernel_that_was_never_traced(mini: Mini, spec: Spec, tool: Tool) -> None:
    """No word of ftrace's differs from the file."""
    vmlinux = process(mini(spec))
    kernel = Kernel(vmlinux)
    assert kernel.state == "processed"
    said = audited(vmlinux, {}, tool)
    of_ftrace = [name for name in ("first slots", "second slots", "CALL_OPS literals") if name in said["rows"]]
    assert len(of_ftrace) == (3 if spec.layout == "4,2" else 2)
    assert kernel.sites is not None
    for name in of_ftrace:
        row = said["rows"][name]
        assert row["words"] == len(kernel.sites) * (2 if "literals" in name else 1)
        assert (row["changed"], row["wrong"]) == (0, 0)
    assert [note.partition(":")[0] for note in said["notes"]] == ["nothing was traced since boot"] * (
        len(of_ftrace) - 2
    )


@pytest.mark.parametrize("spec", FORMS, ids=str)
def test_boot_wrote_the_movs(mini: Mini, spec: Spec, tool: Tool) -> None:
    vmlinux = mini(spec)
    sites = Kernel(vmlinux).sites
    assert sites is not None
    said = audited(vmlinux, dict.fromkeys(sites.first.tolist(), MOV), tool)
    row = said["rows"]["first slots"]
    assert (row["words"], row["changed"], row["wrong"]) == (len(sites), len(sites), 0)
    assert bool(said["notes"]) == (spec.layout == "4,2")


@pytest.mark.parametrize("spec", FORMS, ids=str)
def test_a_site_that_was_damaged(mini: Mini, spec: Spec, tool: Tool) -> None:
    vmlinux = process(mini(spec))
    sites = Kernel(vmlinux).sites
    assert sites is not None
    first, second, third = sites.second[:3].tolist()
    changes = {first - 4: NOP, second: encode_b(second, third, link=True)}
    said = audited(vmlinux, changes, tool, status=1)
    assert {finding["code"] for finding in said["findings"]} == {"PL501", "PL502"}


def test_a_literal_that_was_never_set(mini: Mini, tool: Tool) -> None:
    """Others were: something was traced."""
    vmlinux = process(mini(Spec("4,2", form="relr", marker=2)))
    kernel = Kernel(vmlinux)
    ops = kernel.symbols.find("ftrace_nop_ops")
    assert kernel.sites is not None
    assert ops is not None
    slide = 0x2F0000000000
    set_ = [int(entry) - 8 for entry in kernel.sites.entry.tolist()]
    low, high = (ops.vaddr + slide) & 0xFFFFFFFF, (ops.vaddr + slide) >> 32
    changes = dict.fromkeys(set_[1:], low) | {at + 4: high for at in set_[1:]}
    said = audited(vmlinux, changes, tool, status=1)
    assert {finding["vaddr"] for finding in said["findings"]} == {f"{set_[0]:#x}", f"{set_[0] + 4:#x}"}
    assert "it was never set, and others were" in said["findings"][0]["message"]
    changes |= {set_[0]: low, set_[0] + 4: high}
    said = audited(vmlinux, changes, tool)
    assert said["rows"]["CALL_OPS literals"]["changed"] == 2 * len(set_)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("flag", "unfinished: an interrupted run of `prologue patch`; ftrace's records cannot be read"),
        ("bounds", "ftrace's records cannot be read: give the vmlinux as it was linked"),
    ],
)
def test_records_that_cannot_be_read(mini: Mini, damage: str, said: str, tool: Tool) -> None:
    """Without them no site would be judged, and an audit would say that all is well."""
    vmlinux = process(mini(FORMS[0]))
    with edit(vmlinux) as elf:
        if damage == "flag":
            elf.set_word(elf.value(SYMBOL) + FLAGS, OFFSETS | WRITING)
        else:
            elf.set_symbol("__stop_mcount_loc", value=elf.value("__stop_mcount_loc") + 4)
    assert said in tool(*AUDIT, *as_running(vmlinux, {}), status=2).err
