"""Pages of a mapped file are dropped on machines with each size of page."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from prologue.elf.image import ElfImage
from prologue.examples.listing import KernelListing
from tests.mini_kernel.listing import LISTING

dropped: list[tuple[int, int]] = []


class Pages(mmap.mmap):
    """Refuses, as the kernel does, what does not begin with a page."""

    def madvise(self, option: int, start: int = 0, length: int | None = None) -> None:
        assert option == mmap.MADV_DONTNEED
        assert start % mmap.PAGESIZE == 0
        dropped.append((start, start + (length or 0)))


@pytest.mark.parametrize("page", [4096, 16384, 65536])
def test_pages_are_dropped_whole(page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(KernelListing(LISTING.read_text()).vmlinux() + bytes(200_000))
    monkeypatch.setattr(mmap, "PAGESIZE", page)
    monkeypatch.setattr(mmap, "mmap", Pages)
    image = ElfImage(path)
    dropped.clear()
    image.drop_pages(70_000, 5_000)
    image.drop_pages(70_000, 1 << 20)
    first = 70_000 - 70_000 % page
    assert dropped == [(first, 75_000), (first, path.stat().st_size)]
