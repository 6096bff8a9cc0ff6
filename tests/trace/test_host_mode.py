"""The level of a host's kernel, from as little of a trace as decides it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from prologue.live.system.programs import linked_program
from prologue.trace.path.kernel_images import find_host_level
from prologue.trace.ranges import NO_TASK, NO_VMID, Batch, new_ranges
from tests.trace.made import KERNEL


@pytest.mark.parametrize(
    ("levels", "likely", "level", "read"),
    [
        ((1, 1, 1), 1, 1, 1),  # perf asked for CONTEXTIDR_EL1
        ((2, 1, 1), 1, 2, 1),  # it was told to, on a VHE host
        ((1, 1, 2), None, 2, 3),  # a guest first
        ((1, 1, 1), None, None, 3),
    ],
)
def test_the_level(tmp_path: Path, levels: tuple[int, ...], likely: int | None, level: int | None, read: int) -> None:
    host, taken = linked_program(KERNEL.write(tmp_path / "vmlinux"), 0), list[int]()

    def batches() -> Iterator[Batch]:
        for each in levels:
            taken.append(each)
            ranges = new_ranges(1)
            ranges["start"], ranges["end"] = KERNEL.at("vfs_read"), KERNEL.at("vfs_read+8")
            ranges["level"], ranges["vmid"] = each, NO_VMID
            yield Batch(ranges[:0], [NO_TASK], [""])  # as a recording that begins with a note yields
            yield Batch(ranges, [NO_TASK], [""])

    found, rest = find_host_level(batches(), host, unnumbered=False, likely=likely)
    assert (found, len(taken)) == (level, read)
    assert [int(batch.ranges["level"][0]) for batch in rest if len(batch.ranges)] == list(levels)
