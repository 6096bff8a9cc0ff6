"""Machines whose kernel is made up."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from prologue.live.memory import kcore
from tests.live.memory.made import (
    AREA,
    END,
    HEADS,
    HEAP,
    IMAGE,
    MODULES,
    OPS,
    PAGE,
    RECORDS,
    RECORDS_PAGE,
    SAID,
    SLIDE,
    page,
)
from tests.support.cores import NO_PADDR, core, vmcoreinfo


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kcore: the image, and the area for modules."""
    path = tmp_path / "kcore"
    image = page("h") + page("A") + page("B") + page("r") + page("i") + page("z")
    path.write_bytes(core([(IMAGE, 0x40200000, image), (MODULES, NO_PADDR, AREA)], [vmcoreinfo(SLIDE, IMAGE + PAGE)]))
    monkeypatch.setattr(kcore, "KCORE", str(path))
    monkeypatch.setattr(kcore, "SCRIPT", SAID)
    monkeypatch.setattr("prologue.live.memory.sources.KCORE", str(path))
    return path


@pytest.fixture
def traced(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with an ops, a page of three records, and no kprobe."""
    monkeypatch.setattr(kcore, "SCRIPT", SAID.replace("==== sections", HEADS))
    heap = bytearray(page("?") * 2)
    heap[0x108:0x110] = END.to_bytes(8, "little")
    heap[0x800:0x818] = struct.pack("<QQQ", 0, RECORDS, 3)
    heap[PAGE : PAGE + 48] = struct.pack("<QQ", IMAGE + PAGE, 0) * 3
    image = page("h") + page("A") + page("B") + page("r") + page("i")
    image += struct.pack("<QQ", OPS, RECORDS_PAGE).ljust(PAGE, b"\0")
    segments = [(IMAGE, 0x40200000, image), (MODULES, NO_PADDR, AREA), (HEAP, 0x43000000, bytes(heap))]
    machine.write_bytes(core(segments, [vmcoreinfo(SLIDE, IMAGE + PAGE)]))
    return machine
