"""The mini kernel in every form: processed binaries run, parked tasks too, and the check that says so can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.patching.reread.vmlinux import reread
from tests.mini_kernel.build import HERE, Spec, all_specs
from tests.mini_kernel.run import MiniRun, run
from tests.support.cases import one_quick, pairs
from tests.support.elf_edit import NOP, edit
from tests.support.needs import needs_common_tools

pytestmark = pytest.mark.qemu
Mini = Callable[[Spec], Path]


def _quick(spec: Spec) -> bool:
    """One form of each layout, contract and compiler; of version 2 of the marker each form once."""
    if spec.marker == 2:
        return spec.compiler == ("clang" if spec.bti else "gcc") and spec.bti == (spec.layout == "4,2")
    return spec.form == ("rela" if spec.compiler == "gcc" else "relr") and spec.bti == (spec.layout == "4,2")


def _factors(spec: Spec) -> tuple[object, ...]:
    return spec.layout, spec.bti, spec.compiler, spec.form, (spec.contract, spec.marker, spec.plain)


@pytest.fixture(autouse=True)
def _qemu() -> None:
    needs_common_tools("qemu-system-aarch64")


@pytest.mark.parametrize("spec", pairs(all_specs(), _factors, _quick), ids=str)
def test_every_form_unprocessed_processed_reversed(mini: Mini, spec: Spec) -> None:
    vmlinux = mini(spec)
    original = vmlinux.read_bytes()
    plan = vmlinux.with_name("plan.json")
    boot = run(vmlinux)
    assert boot.passed, boot.lines
    assert boot.values["writes"] == boot.values["sites"] == "15"

    command = ["patch", str(vmlinux), "--in-place", "--contract", spec.contract, "--no-reread"]
    assert main([*command, "--save-plan", str(plan)]) == 0
    processed = vmlinux.read_bytes()
    seen = reread(vmlinux, moved=spec.contract == "native")
    assert len(seen.first_slots) == 15
    build = run(vmlinux)
    assert build.passed, build.lines
    assert build.values["writes"] == "0"
    late = spec.contract == "native" and spec.marker == 2
    literals = "15" if spec.layout == "4,2" else "0"
    assert build.values["literals"] == ("0" if late else literals)
    assert build.values.get("literals_at_use", literals) == literals
    assert main(["verify", str(vmlinux)]) == 0

    assert main(command) == 0
    assert vmlinux.read_bytes() == processed  # a second run changes no byte
    assert main(["patch", str(vmlinux), "--in-place", "--reverse", str(plan)]) == 0
    assert vmlinux.read_bytes() == original
    if spec.contract == "native":
        vmlinux.write_bytes(processed)
        assert main(["patch", str(vmlinux), "--in-place", "--reverse"]) == 0
        assert vmlinux.read_bytes() == original
    assert sorted(p.name for p in vmlinux.parent.iterdir() if "journal" in p.name) == []


@pytest.mark.parametrize(
    "spec",
    pairs((s for s in all_specs() if s.form in ("rela", "relr") and s.compiler == "gcc"), _factors, _quick),
    ids=str,
)
def test_nop_nop_visibly_fails_its_lr_check(mini: Mini, spec: Spec) -> None:
    vmlinux = mini(spec)
    out = vmlinux.with_name("nop-nop")
    assert main(["variant", str(vmlinux), "--kind", "nop-nop", "-o", str(out)]) == 0
    boot = run(out)
    assert "before its first slot had saved LR" in boot.verdict, boot.lines
    assert boot.values["bad_x9"] == "1"


@pytest.mark.thorough
@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize("form", ["rela", "relr"])
def test_zero_records_stay_zero_and_it_runs(mini: Mini, layout: str, form: str) -> None:
    spec = Spec(layout=layout, zeros=True, form=form)  # type: ignore[arg-type]  # parametrize loses the literals
    vmlinux = mini(spec)
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert reread(vmlinux, moved=True).records.count(0) == 2
    assert run(vmlinux).passed


@pytest.mark.parametrize("layout", ["2", "4,2"])
def test_moved_records_kill_a_stock_kernel(mini: Mini, layout: str) -> None:
    spec = Spec(layout="4,2" if layout == "4,2" else "2", contract="stock")
    vmlinux = mini(spec)
    with edit(vmlinux) as elf:
        for slot in elf.live_slots():
            elf.set_record(slot, elf.first_slot(slot, call_ops=layout == "4,2") + 4)
    assert run(vmlinux).verdict == "FAIL ftrace bug"


def test_one_forgotten_site_is_seen(mini: Mini) -> None:
    vmlinux = mini(Spec())
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    with edit(vmlinux) as elf:
        elf.set_word(elf.value("work_leaf"), NOP)
    assert "before its first slot had saved LR" in run(vmlinux).verdict


def test_its_sources_are_small() -> None:
    lines = sum(len(p.read_text().splitlines()) for p in HERE.iterdir() if p.suffix in (".c", ".S", ".h"))
    # Sixty of them break the native contract in nine ways; 220 park a task; 70 are version 2; 90 rewrite what runs;
    # 90 map a kernel, and let its memory be read.
    assert lines < 1400


# Tasks parked between their two slots, on purpose: what they meet there when the other one has been written.
SWINGS = 2_000
PARKED = [
    Spec(parked=SWINGS), Spec(parked=SWINGS, layout="4,2", bti=True),
    Spec(parked=SWINGS, layout="4,2", compiler="clang", form="relr", contract="stock"),
]  # fmt: skip


def parked_swings(boot: MiniRun) -> tuple[str, ...]:
    """How often it was swung while parked, how often it was parked, and how often the BL was executed."""
    return tuple(boot.values[name] for name in ("parked_swings", "preemptions", "traced"))


@pytest.mark.parametrize("spec", PARKED, ids=str)
def test_mov_written_live_loses_the_return_address(mini: Mini, spec: Spec) -> None:
    """MOV, then BL are written live. Between calls nothing is noticed; the first parked task loses its way back."""
    vmlinux = mini(spec)
    out = vmlinux.with_name("nop-nop")
    assert main(["variant", str(vmlinux), "--kind", "nop-nop", "-o", str(out)]) == 0
    boot = run(out)
    assert boot.values["writes"] == "0"
    begun, parked, lost, count, verdict = boot.lines[2:]
    assert begun == "slots_written=2 preempted=0: 1000 swings"
    assert parked == f"slots_written=2 preempted=1: {SWINGS} swings"
    assert lost.startswith("bad x9=0xdead at=")  # what the caller had in it: no first slot was executed as MOV
    assert count == "calls=1001 bad_x9=1"  # a thousand good ones, each of a swing between calls
    assert verdict == "FAIL a second slot was called before its first slot had saved LR"


@pytest.mark.parametrize("spec", one_quick(*PARKED), ids=str)
def test_with_the_mov_in_place_it_returns(mini: Mini, spec: Spec) -> None:
    vmlinux = mini(spec)
    for command in (None, ["patch", str(vmlinux), "--in-place", "--contract", spec.contract, "--no-reread"]):
        assert command is None or main(command) == 0
        boot = run(vmlinux)
        assert boot.passed, boot.lines
        assert f"slots_written=1 preempted=1: {SWINGS} swings" in boot.lines
        assert boot.values["writes"] == ("16" if command is None else "0")
        assert parked_swings(boot) == (str(SWINGS), str(2 * SWINGS), str(SWINGS + 1000))
        assert boot.values["bad_x9"] == "0"
