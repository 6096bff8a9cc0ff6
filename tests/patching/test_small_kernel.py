"""The demo's small kernel, processed and undone: every word by its name. No compiler is needed.

As listed it is a static link; with a RELR table, the relocations of its records are taken out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import pytest

from prologue.elf.image import ElfImage
from prologue.elf.sections import SHF_ALLOC
from prologue.elf.symbols import Symbols
from prologue.examples.listing import KernelListing, ListedSection
from prologue.patching import apply
from prologue.patching.patch import PatchRequest, patch_file
from prologue.patching.words import write_words
from tests.mini_kernel.listing import LISTING
from tests.support.relocated import by_the_book

Form = Literal["static", "RELR"]
NOPS: Final = ("d503201f", "d503201f")
MOV: Final = ("aa1e03e9", "d503201f")
UNSORTED: Final = ("quad work_local\n    quad work_add\n", "quad work_add\n    quad work_local\n")  # a linker does not


class SmallKernel:
    """The kernel's file, and which functions it can trace."""

    def __init__(self, form: Form, path: Path) -> None:
        listing = KernelListing(LISTING.read_text().replace(*UNSORTED))
        self.start, self.stop = (listing.symbols[f"__{end}_mcount_loc"].vaddr for end in ("start", "stop"))
        if form == "RELR":
            self._add_relr(listing)
        path.write_bytes(listing.vmlinux())
        self.path = path
        self.records = sorted(self.quads(path, self.start, self.stop))
        names = {symbol.vaddr: name for name, symbol in listing.symbols.items() if symbol.kind}
        self.functions = {vaddr: names[vaddr] for vaddr in self.records}

    def _add_relr(self, listing: KernelListing) -> None:
        """Relocate the word before the records, all of these, and the two words after them."""
        count = (self.stop - self.start) // 8
        self.others = [self.start - 8, self.stop, self.stop + 8]
        words = struct.pack("<2Q", self.others[0], ((1 << count + 2) - 1) << 1 | 1)
        end = max(section.end for section in listing.sections)
        listing.sections.append(
            ListedSection(name=".relr.dyn", flags=SHF_ALLOC, vaddr=-end % 4096 + end, data=bytearray(words))
        )
        for name, vaddr in (("__relr_start", -end % 4096 + end), ("__relr_end", -end % 4096 + end + len(words))):
            listing.symbols[name].section, listing.symbols[name].vaddr = len(listing.sections), vaddr

    @staticmethod
    def quads(path: Path, start: int, stop: int) -> list[int]:
        data = ElfImage(path).read_at(start, stop - start)
        assert data is not None
        return list(struct.unpack(f"<{len(data) // 8}Q", data))

    def slots(self, path: Path) -> dict[str, tuple[str, str]]:
        """The two words at the start of each function that can be traced."""
        image, result = ElfImage(path), {}
        for vaddr, name in self.functions.items():
            data = image.read_at(vaddr, 8)
            assert data is not None
            first, second = struct.unpack("<2I", data)
            result[name] = (f"{first:08x}", f"{second:08x}")
        return result

    def processed_records(self, path: Path) -> list[str]:
        """What a processed kernel's table says, as places."""
        pairs = (divmod(quad, 1 << 32)[::-1] for quad in self.quads(path, self.start, self.stop))
        text = Symbols(ElfImage(path)).require("_text").vaddr
        vaddrs = [text + offset for pair in pairs for offset in pair][: len(self.records)]
        return [f"{self.functions.get(vaddr - 4, hex(vaddr - 4))}+4" for vaddr in vaddrs]

    def relocated(self, path: Path) -> list[str]:
        """The places that the RELR table has, read one word and one bit after the other."""
        image = ElfImage(path)
        section = image.section(".relr.dyn")
        assert section is not None
        return [hex(place) for place in by_the_book(image.view(section, "<u8").tolist())]


@pytest.fixture(params=["static", "RELR"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> SmallKernel:
    return SmallKernel(request.param, tmp_path / "vmlinux")


def places_that_differ(ours: Path, theirs: Path) -> list[str]:
    """Where two files of one size have different words: symbols, or offsets in the file."""
    image, (mine, other) = ElfImage(ours), (path.read_bytes() for path in (ours, theirs))
    assert len(mine) == len(other)
    offsets = [at for at in range(0, len(mine), 4) if mine[at : at + 4] != other[at : at + 4]]
    inside = ((at, s) for at in offsets for s in image.sections if s.has_bytes and s.offset <= at < s.offset + s.size)
    locate = Symbols(image).locate
    return [str(locate(section.addr + at - section.offset)) for at, section in inside]


def test_every_function_gets_its_mov(kernel: SmallKernel, tmp_path: Path) -> None:
    assert kernel.slots(kernel.path) == dict.fromkeys(kernel.functions.values(), NOPS)
    patch_file(PatchRequest(output=tmp_path / "processed"), kernel.path)
    assert kernel.slots(tmp_path / "processed") == dict.fromkeys(kernel.functions.values(), MOV)


def test_every_record_is_its_second_slot(kernel: SmallKernel, tmp_path: Path) -> None:
    patch_file(PatchRequest(output=tmp_path / "processed"), kernel.path)
    assert kernel.processed_records(tmp_path / "processed") == [f"{name}+4" for name in kernel.functions.values()]


def test_relocations_of_records_alone_are_taken_out(tmp_path: Path) -> None:
    kernel = SmallKernel("RELR", tmp_path / "vmlinux")
    slots = [hex(vaddr) for vaddr in range(kernel.start, kernel.stop, 8)]
    others = [hex(vaddr) for vaddr in kernel.others]
    assert kernel.relocated(kernel.path) == [others[0], *slots, *others[1:]]
    patch_file(PatchRequest(output=tmp_path / "processed"), kernel.path)
    assert kernel.relocated(tmp_path / "processed") == others


def test_reversing_gives_back_the_file(kernel: SmallKernel, tmp_path: Path) -> None:
    processed, again = tmp_path / "processed", tmp_path / "again"
    patch_file(PatchRequest(output=processed), kernel.path)
    patch_file(PatchRequest(reverse=True, output=again), processed)
    assert places_that_differ(again, kernel.path) == []


class KilledError(Exception):
    """The run ends here, as by SIGKILL."""


Write = Callable[..., None]


def killed_at(call: int) -> Write:
    """Write no more words from that call on."""
    calls = iter(range(call))

    def write(*arguments: object) -> None:
        if next(calls, None) is None:
            raise KilledError
        write_words(*arguments)  # type: ignore[arg-type]

    return write


@pytest.mark.parametrize("call", range(1, 4), ids=["before the sites", "after the sites", "after the records"])
@pytest.mark.parametrize("undone", [False, True], ids=["finished", "undone"])
def test_a_killed_run_is_ended_by_its_journal(
    kernel: SmallKernel, tmp_path: Path, call: int, undone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked, processed = tmp_path / "linked", tmp_path / "processed"
    linked.write_bytes(kernel.path.read_bytes())
    patch_file(PatchRequest(output=processed), linked)
    with monkeypatch.context() as killing:
        killing.setattr(apply, "write_words", killed_at(call))
        with pytest.raises(KilledError):
            patch_file(PatchRequest(), kernel.path)
    patch_file(PatchRequest(reverse=undone), kernel.path)
    assert places_that_differ(kernel.path, linked if undone else processed) == []
