"""The plugin's rows get the addresses and the flags that it does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prologue.kernel.kernel import Kernel
from prologue.live.pokes.recording import Flag
from prologue.live.pokes.writers import NameTable
from prologue_bench.exact.places import image_base
from prologue_bench.exact.seen import AddressNames, ModuleSymbol, PluginReport, Region, completed
from tests.live.pokes.made import rows_of
from tests.mini_kernel.build import Spec
from tests.support.built import Mini

LOAD, SLIDE = 0x40200000, 0x2A0000


def seen_of(kernel: Kernel) -> PluginReport:
    return PluginReport(
        load=LOAD, base=image_base(kernel), size=1 << 24, slide=SLIDE, ctr=None, rows=0, cpus=2, instructions=7,
        unseen=0, unseen_at=0, executed_elsewhere=0, tables=True, regions=(),
        symbols=(), registers=True, unaddressed=0,
    )  # fmt: skip


def test_rows_are_completed(mini: Mini) -> None:
    kernel = Kernel(mini(Spec(layout="4,2")))
    seen, sites = seen_of(kernel), kernel.sites
    assert sites is not None
    entry, place = int(sites.entry[0]), kernel.symbols.find("work_leaf")
    assert place is not None
    physical = place.vaddr - seen.base + LOAD
    raw = rows_of(
        {"paddr": entry - seen.base + LOAD, "pc": physical + 8, "callers": (physical + 4, place.vaddr + SLIDE)},
        {"paddr": entry - 8 - seen.base + LOAD, "pc": place.vaddr + SLIDE, "callers": (0, physical)},
        {"paddr": 0x4FFF0000, "address": 0xFFFF800011110000, "pc": 0xFFFF800011110010},
    )
    names = AddressNames(kernel, seen)
    rows = completed(raw, seen, names)
    assert rows["address"].tolist() == [entry + SLIDE, entry - 8 + SLIDE, 0xFFFF800011110000]
    # Code at physical addresses has the virtual ones; a caller that is the writer itself, or not known, is left out.
    here = place.vaddr + SLIDE
    assert rows["pc"].tolist() == [here + 8, here, 0xFFFF800011110010]
    assert rows["callers"][:, 0].tolist() == [here, here, 0]
    assert rows["callers"][:, 1].tolist() == [0, 0, 0]
    assert ((rows["flags"] & Flag.LITERAL) != 0).tolist() == [False, True, False]
    assert raw["address"].tolist()[0] == 0
    assert "work_leaf" in [function.name for function in names.used()]


def test_what_was_not_seen_is_said(mini: Mini) -> None:
    seen = seen_of(Kernel(mini(Spec())))
    assert seen.losses() == ()
    bad = replace(seen, unseen=3, unseen_at=0x1000, tables=False, executed_elsewhere=2)
    assert [loss.amount for loss in bad.losses()] == [3, None]
    assert any("2 pages were executed" in note for note in bad.notes())
    assert any("no registers" in note for note in replace(seen, registers=False).notes())
    assert any("5 DC or IC whose address" in note for note in replace(seen, unaddressed=5).notes())
    regions = (
        Region(vaddr=0x1000, size=4096, since=1, until=2, name="loop"),
        Region(vaddr=0x3000, size=8192, since=1, until=2, name=""),
    )
    notes = " ".join(replace(seen, regions=regions).notes())
    assert "1 module had text" in notes
    assert "8,192 bytes of executable memory" in notes


def test_names_are_of_run_time_addresses(mini: Mini) -> None:
    kernel = Kernel(mini(Spec()))
    names, place = AddressNames(kernel, seen_of(kernel)), kernel.symbols.find("work_leaf")
    assert place is not None
    names.learn(np.array([place.vaddr + SLIDE + 4, place.vaddr, 1], np.uint64))
    assert names.name(place.vaddr + SLIDE + 4) == "work_leaf"
    assert names.start(place.vaddr + SLIDE + 4) == place.vaddr + SLIDE
    assert names.name(1) == ""


def test_functions_of_modules_have_their_names(mini: Mini) -> None:
    """Two modules, one after the other in the same memory; a symbol behind the text is not executed there."""
    kernel, text = Kernel(mini(Spec())), 0xFFFF800011110000
    regions = (
        Region(vaddr=text, size=4096, since=1, until=50, name="loop"),
        Region(vaddr=text, size=4096, since=50, until=100, name="brd"),
    )
    symbols = (
        ModuleSymbol(0, text + 0x10, 0x20, "lo_open"), ModuleSymbol(0, text + 0x30, 0, "lo_stub"),
        ModuleSymbol(0, text + 0x1000, 8, "lo_init"), ModuleSymbol(1, text + 0x10, 0x40, "brd_open"),
    )  # fmt: skip
    seen = replace(seen_of(kernel), regions=regions, symbols=symbols)
    names = AddressNames(kernel, seen)
    rows = completed(rows_of({"pc": text + 0x14, "callers": (text + 0x1C, text + 0x30)}), seen, names)
    assert rows["callers"][0, :2].tolist() == [text + 0x30, 0]  # the writer itself is no caller
    table = NameTable(names.used())
    found = [table.text(vaddr, 7) for vaddr in (text + 0x14, text + 0x30, text + 0x40, text + 0x1000)]
    assert found == ["lo_open+0x4 [loop]", "lo_stub [loop]", "text+0x40 [loop]", hex(text + 0x1000)]
    assert table.text(text + 0x14, 60) == "brd_open+0x4 [brd]"
