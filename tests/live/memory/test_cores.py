"""Sources that are files: what can be read, and one clear error for what cannot."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.capture import Capture, Piece, write_capture
from prologue.live.memory.core import core_of
from prologue.live.memory.ranges import Range, UnmappedError
from prologue.live.memory.reading import read_until_stable
from prologue.live.memory.sources import open_kcore, open_memory
from prologue.live.memory.state import KernelState, LiveSymbol, LoadedModule
from tests.support.cores import BUILD_ID, NO_PADDR, SLIDE, core, vmcoreinfo
from tests.support.needs import needs_wheel

TEXT = 0xFFFF800008001000 + SLIDE
CORE = core([(TEXT, NO_PADDR, bytes(range(256)) * 32)], [("CORE", 1, b"x" * 9), vmcoreinfo()])


def saved(directory: Path, content: bytes, name: str = "core") -> str:
    path = directory / name
    path.write_bytes(content)
    return str(path)


def test_a_core_is_read_by_address(tmp_path: Path) -> None:
    memory = open_memory(saved(tmp_path, CORE))
    assert memory.info.release == "6.1.0-mini"
    assert (memory.info.build_id, memory.info.slide, memory.info.anchors) == (BUILD_ID, SLIDE, {"_stext": TEXT})
    assert memory.read(TEXT + 3, 4) == b"\3\4\5\6"
    assert memory.read_many([Range(TEXT, 1), Range(TEXT + 256, 2)]) == [b"\0", b"\0\1"]
    for vaddr, size in ((TEXT - 1, 4), (TEXT + 256 * 32 - 3, 4), (TEXT, 1 << 20), (0, 1)):
        with pytest.raises(UnmappedError, match=f"no memory at {vaddr:#x}"):
            memory.read(vaddr, size)
    with pytest.raises(InputError, match="take a capture"):
        memory.state()


def test_the_smallest_segment_counts(tmp_path: Path) -> None:
    """The kernel's image also lies in kcore's segment for vmalloc."""
    memory = open_memory(saved(tmp_path, core([(TEXT - 64, NO_PADDR, b"v" * 256), (TEXT, 0x40000000, b"t" * 64)])))
    assert memory.read(TEXT, 64) == b"t" * 64
    assert memory.read(TEXT, 65) == b"v" * 65


@pytest.mark.parametrize(("first", "second"), [(2208, 576), (576, 2208)], ids=["shorter", "longer"])
def test_memory_that_follows_notes_of_another_size(tmp_path: Path, first: int, second: int) -> None:
    """As QEMU dumps two CPUs whose SVE vectors have different lengths: the headers have the first one's twice."""

    def dump(*sizes: int) -> bytes:
        notes = [("LINUX", 0x405, b"v" * size) for size in sizes]
        return core([(0, 0x40000000, bytes(range(256)) * 32)], notes)

    start = 64 + 2 * 56
    wrong = dump(first, first)[:start] + dump(first, second)[start:]
    with pytest.raises(InputError, match=r"SVE vectors of different lengths.*sve=off"):
        core_of("dump", wrong, len(wrong))
    for content in (dump(first, first), dump(first, second)):
        assert len(core_of("dump", content, len(content)).notes) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello\n" * 99, "a text file, not ELF; expected a core"),
        (CORE[:300], "truncated"),
        (CORE[:-1], "truncated"),
        (CORE[:100], "truncated"),
        (core([], machine=62), "an ELF file for x86-64"),
        (CORE[:16] + b"\2" + CORE[17:], "an arm64 ELF file; expected a core"),
        (CORE[:54] + b"\0" + CORE[55:], "program headers of 0 bytes"),
        (b"\x28\xb5\x2f\xfd" + b"\0" * 99, "the compressed data that begin at 0x0 do not end"),
        (core([(TEXT, NO_PADDR, b"x")], [("VMCOREINFO", 0, b"KERNELOFFSET=zz\n")]), "damaged VMCOREINFO"),
        (core([(TEXT, NO_PADDR, b"x")], [("PROLOGUE", 1, b"{}")]), "damaged capture"),
        (core([(TEXT, NO_PADDR, b"x")], [("PROLOGUE", 1, b'{"schema": "prologue.capture/9"}')]), "of schema"),
    ],
)
def test_what_is_no_memory_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    is_refused(tmp_path, content, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"KDUMP   " + b"\0" * 99, "of the dump: truncated"),
        (core([(0x40000000, 0x40000000, b"\0" * 4096)]), "no VMCOREINFO in this dump"),
        (
            core([(0x40000000, 0x40000000, b"\0" * 4096)], [vmcoreinfo()]),
            "VMCOREINFO does not contain valid swapper_pg_",
        ),
    ],
)
def test_what_drgn_cannot_read_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    needs_wheel("drgn")
    is_refused(tmp_path, content, message)


def is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        _ = open_memory(saved(tmp_path, content)).info
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "core"))


def test_damaged_notes_end_the_list(tmp_path: Path) -> None:
    data = bytearray(CORE)
    at = data.index(b"VMCOREINFO") - 12
    struct.pack_into("<I", data, at + 4, 1 << 30)
    assert open_memory(saved(tmp_path, bytes(data))).info.slide is None


def test_missing_pages_are_zeros_and_said_so(tmp_path: Path) -> None:
    page = b"\1" * 4096
    segments = [(TEXT, NO_PADDR, page), (TEXT + 0x2000, NO_PADDR, page + b"\0" * 4096 + page)]
    memory = open_memory(saved(tmp_path, core(segments)))
    (found,) = read_until_stable(memory, [Range(TEXT + 8, 0x4FF0)])
    assert found.present.tolist() == ([True] * 1024 + [False] * 1024 + [True] * 3072)[2:-2]
    assert found.data == (page + b"\0" * 4096 + page + b"\0" * 4096 + page)[8:-8]
    assert found.unstable == ()


@pytest.mark.parametrize("end", [4, 1028, 2048, 4092])
def test_a_page_of_which_a_part_is_there(tmp_path: Path, end: int) -> None:
    """A core may end anywhere: what it has of the page is read, and the rest is not zeros that were read."""
    segments = [(TEXT, NO_PADDR, b"\1" * end), (TEXT + 0x2000 - end, NO_PADDR, b"\2" * end)]
    (found,) = read_until_stable(open_memory(saved(tmp_path, core(segments))), [Range(TEXT, 0x2000)])
    missing = (0x2000 - 2 * end) // 4
    assert found.present.tolist() == [True] * (end // 4) + [False] * missing + [True] * (end // 4)
    assert found.data == b"\1" * end + bytes(4 * missing) + b"\2" * end


class Changing:
    """Memory one word of which differs at every reading, and another one at the first two."""

    live = True

    def __init__(self) -> None:
        self.readings = 0

    def read_many(self, ranges: list[Range]) -> list[bytes]:
        self.readings += 1
        words = [7, 0 if self.readings < 2 else 1, self.readings]
        return [struct.pack("<3I", *words) if piece.vaddr == TEXT else b"same" for piece in ranges]


def test_words_that_go_on_changing_are_named() -> None:
    memory = Changing()
    first, second = read_until_stable(memory, [Range(TEXT, 12), Range(0, 4)])  # type: ignore[arg-type]  # all that it calls
    assert memory.readings == 5
    assert first.unstable == (TEXT + 8,)
    assert struct.unpack("<3I", first.data) == (7, 1, 5)
    assert (second.data, second.unstable) == (b"same", ())


STATE = KernelState(
    release="6.1.0-mini",
    boot_id="dac90a52-e854-4eec-9b34-56dd3986e3fe",
    modules=(LoadedModule("mini", 8192, TEXT + 0x10000, {".text": TEXT + 0x10000, ".data": TEXT + 0x11000}),),
    symbols=(LiveSymbol(TEXT, "_stext", ""), LiveSymbol(TEXT + 0x10008, "mini_init", "mini")),
    kprobes=(f"{TEXT:x}  k  vfs_read+0x10",),
)


@pytest.mark.parametrize("name", ["capture", "capture.zst"])
def test_a_capture_is_read_back(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    pieces = [Piece(TEXT, 0x40000000, b"t" * 4096, (TEXT + 4,)), Piece(TEXT + 0x10000, NO_PADDR, b"m" * 4096, ())]
    size = write_capture(out, "ssh:board", STATE, vmcoreinfo()[2], pieces)
    assert size == out.stat().st_size
    assert out.stat().st_mode & 0o777 == 0o600
    memory = open_memory(str(out))
    assert isinstance(memory, Capture)
    assert (memory.info.build_id, memory.info.slide) == (BUILD_ID, SLIDE)
    assert (memory.state(), memory.unstable, memory.live) == (STATE, (TEXT + 4,), False)
    assert memory.read(TEXT + 0x10000, 4096) == b"m" * 4096
    with pytest.raises(UnmappedError):
        memory.read(TEXT + 4096, 1)


def perf_data(directory: Path, kallsyms: str) -> Path:
    """What perf record --kcore leaves."""
    inner = directory / "perf.data" / "kcore_dir"
    inner.mkdir(parents=True)
    (inner / "kcore").write_bytes(core([(TEXT, 0, b"t" * 4096)]))
    (inner / "kallsyms").write_text(kallsyms)
    (inner / "modules").write_text(f"mini 8192 0 - Live 0x{TEXT + 0x10000:x}\n")
    return inner


def test_perf_data(tmp_path: Path) -> None:
    lines = f"{TEXT:016x} T _stext\n{TEXT + 8:016x} t other\n{TEXT + 0x10008:016x} t mini_init\t[mini]\n"
    inner = perf_data(tmp_path, lines)
    for name in (inner, inner.parent):
        memory = open_memory(str(name))
        assert (memory.info.slide, memory.info.anchors) == (None, {"_stext": TEXT})
        assert memory.read(TEXT, 4) == b"tttt"
        (module,) = memory.state().modules
        assert module == LoadedModule("mini", 8192, TEXT + 0x10000, {})
        assert memory.state().symbols == (
            LiveSymbol(TEXT, "_stext", ""), LiveSymbol(TEXT + 0x10008, "mini_init", "mini"),
        )  # fmt: skip
    (inner / "modules").unlink()
    with pytest.raises(InputError, match="modules: cannot be read"):
        open_memory(str(inner))
    with pytest.raises(InputError, match="perf record --kcore"):
        open_memory(str(tmp_path))


def test_perf_data_without_addresses(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="kptr_restrict"):
        open_memory(str(perf_data(tmp_path, f"{0:016x} T _stext\n")))


def test_only_a_running_kernel_is_captured(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a running kernel: expected /proc/kcore or ssh:HOST"):
        open_kcore(saved(tmp_path, CORE))


@pytest.mark.parametrize("opened", [open_kcore, open_memory])
def test_a_host_without_its_ssh_is_asked_for(opened: Callable[[str], Memory]) -> None:
    with pytest.raises(InputError, match="ssh:root@board"):
        opened("root@board")
