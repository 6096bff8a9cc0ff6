"""The flat Image in a boot file, from files made here: flat, compressed, zboot, signed, and damaged."""

from __future__ import annotations

import bz2
import lzma
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from prologue.elf.compressed import compress
from prologue.elf.identify import Compression
from prologue.elf.payload import flat_image, header_mutable_ranges, is_flat, unsigned_extent
from prologue.errors import InputError

PE = 64
OPTIONAL = PE + 24
CHECKSUM, ENTRY = OPTIONAL + 64, OPTIONAL + 112 + 32
SIZE = 0x3000


def image(*, efi: bool = True, size: int = SIZE, image_size: int = 0x5000) -> bytes:
    """A flat Image as in arch/arm64/kernel/head.S: two PE sections, of which .data has a BSS after the file's end."""
    flat = bytearray(k * 7 % 251 for k in range(size))
    flat[:64] = struct.pack("<2s6xQQQ24x4sI", b"MZ", 0, image_size, 10, b"ARM\x64", PE if efi else 0)
    if efi:
        header = struct.pack("<4sHHIIIHH", b"PE\0\0", 0xAA64, 2, 0, 0, 0, 112 + 6 * 8, 0x206)
        optional = struct.pack("<H106xI48x", 0x20B, 6)
        text = struct.pack("<8sIIII16x", b".text", 0x1000, 0x1000, 0x1000, 0x1000)
        data = struct.pack("<8sIIII16x", b".data", 0x3000, 0x2000, size - 0x2000, 0x2000)
        whole = header + optional + text + data
        flat[PE : PE + len(whole)] = whole
    return bytes(flat)


def signed(flat: bytes, certificates: bytes = b"\x08\0\0\0\0\x02\x02\0" * 4) -> bytes:
    """What sbsign does: checksum, directory entry, certificates at a multiple of 8."""
    result = bytearray(flat + bytes(-len(flat) % 8))
    struct.pack_into("<I", result, CHECKSUM, 0x01A0B194)
    struct.pack_into("<II", result, ENTRY, len(result), len(certificates))
    return bytes(result) + certificates


def zboot(payload: bytes, kind: bytes, appended: bytes = b"") -> bytes:
    """As zboot-header.S: the size leaves out what the build appends to all but gzip."""
    header = struct.pack("<2s2x4sII8x32s4xI", b"MZ", b"zimg", 0x1000, len(payload), kind, 64)
    return header.ljust(0x1000, b"\0") + payload + appended + b"stub" * 100


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "vmlinuz"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("efi", [True, False])
def test_a_flat_image_is_itself(tmp_path: Path, efi: bool) -> None:
    flat = image(efi=efi)
    assert flat_image(write(tmp_path, flat)) == flat
    assert is_flat(flat)
    assert unsigned_extent(flat) == len(flat)


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_a_compressed_image_is_unpacked(tmp_path: Path, kind: Compression) -> None:
    assert flat_image(write(tmp_path, compress(image(), kind))) == image()


DEVICE_TREE = b"\xd0\x0d\xfe\xed" + struct.pack(">I", 72) + bytes(32) + b"\xd0\x0d\xfe\xed" + bytes(28)


def uimage(payload: bytes) -> bytes:
    return b"\x27\x05\x19\x56" + bytes(8) + struct.pack(">I", len(payload)) + bytes(48) + payload


@pytest.mark.parametrize(
    "wrap",
    [
        bz2.compress,
        lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
        lambda data: compress(data, "gzip") + DEVICE_TREE,
        lambda data: compress(data, "gzip") + DEVICE_TREE * 3,
        lambda data: compress(data + DEVICE_TREE, "zstd"),
        lambda data: data + DEVICE_TREE,
        uimage,
        lambda data: uimage(compress(data, "gzip")),
        lambda data: uimage(compress(data, "gzip") + DEVICE_TREE),
    ],
)
def test_what_boot_loaders_are_given_is_read(tmp_path: Path, wrap: Callable[[bytes], bytes]) -> None:
    assert flat_image(write(tmp_path, wrap(image()))) == image()


def arm64_xz(data: bytes) -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 25}]
    return lzma.compress(data, check=lzma.CHECK_CRC32, filters=filters)


@pytest.mark.parametrize(
    ("kind", "pack"),
    [
        (b"gzip", lambda data: compress(data, "gzip")),
        (b"xzkern", arm64_xz),
        (b"zstd22", zstandard.ZstdCompressor(level=19).compress),
        (b"zstd", lambda data: compress(data, "zstd")),
        (b"lzma", lambda data: lzma.compress(data, lzma.FORMAT_ALONE)),
    ],
)
def test_zboot_is_unpacked(tmp_path: Path, kind: bytes, pack: Callable[[bytes], bytes]) -> None:
    padded = image().ljust(0x5000, b"\0")  # copy_and_pad
    appended = b"" if kind == b"gzip" else struct.pack("<I", len(padded))
    assert flat_image(write(tmp_path, zboot(pack(padded), kind, appended))) == padded


def test_signing_changes_just_what_we_say(tmp_path: Path) -> None:
    plain, after = image(), signed(image())
    assert flat_image(write(tmp_path, after)) == after
    end = unsigned_extent(after)
    assert end == len(plain)
    ranges = header_mutable_ranges(after)
    assert ranges == header_mutable_ranges(plain) == ((CHECKSUM, CHECKSUM + 4), (ENTRY, ENTRY + 8))
    changed = {k for k in range(end) if plain[k] != after[k]}
    assert changed
    assert all(any(start <= k < stop for start, stop in ranges) for k in changed)


def test_an_odd_image_is_padded_before_the_certificates() -> None:
    flat = image(size=SIZE + 3)
    assert unsigned_extent(signed(flat)) == SIZE + 8


def test_without_efi_nothing_is_mutable() -> None:
    assert header_mutable_ranges(image(efi=False)) == ()


def test_without_a_directory_entry_only_the_checksum_is_mutable() -> None:
    flat = bytearray(image())
    struct.pack_into("<I", flat, OPTIONAL + 108, 4)
    assert header_mutable_ranges(bytes(flat)) == ((CHECKSUM, CHECKSUM + 4),)
    assert unsigned_extent(bytes(flat)) == len(flat)


def patched(at: int, fmt: str, *values: int | bytes) -> bytes:
    flat = bytearray(signed(image()))
    struct.pack_into(fmt, flat, at, *values)
    return bytes(flat)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (signed(image())[:-1], "certificates at 0x3000-0x3020, the file ends at 0x301f"),
        (signed(image()) + b"x", "certificates at"),
        (patched(ENTRY, "<II", 0, SIZE + 32), "certificates at"),
        (patched(ENTRY, "<I", 0xFFFFFFFF), "certificates at"),
        (patched(60, "<I", 60), "no PE header at 0x3c"),
        (patched(60, "<I", 0xFFFFFFF0), "no PE header at"),
        (patched(PE, "<4s", b"PE\0x"), "no PE header at 0x40"),
        (patched(OPTIONAL, "<H", 0x10B), "not in the 64-bit form"),
        (patched(PE + 20, "<H", 112), "too short for its 6 directory entries"),
        (b"", "is empty"),
        (b"MZ", "not an arm64 boot file"),
        (b"MZ\0\0zimg", "less than an EFI zboot header"),
        (b"\x7fELF" + b"\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, 183) + bytes(44), "an arm64 ELF file"),
        (bz2.compress(image())[:-1], "truncated"),
        (lzma.compress(image(), lzma.FORMAT_ALONE) + b"x", "bytes after the end of the lzma data"),
        (b"\x02\x21\x4c\x18" + bytes(90), r"compressed with lz4: take the Image out of it first \(`lz4 -d "),
        (b"\x04\x22\x4d\x18" + bytes(90), "compressed with lz4"),
        (b"\x89LZO\0" + bytes(90), "compressed with lzo"),
        (DEVICE_TREE, "a FIT image or device tree: take the Image out of it first"),
        (b"ANDROID!" + bytes(90), "an Android boot image: "),
        (uimage(image())[:-1], "the U-Boot header has a payload of"),
        (compress(image(), "gzip") + DEVICE_TREE + b"x", "bytes that are not gzip after its data"),
        (b"hello", "a text file"),
        (compress(b"hello", "gzip"), r"does not unpack to a flat arm64 Image \(a text file"),
        (compress(b"", "gzip"), "not unpack to a flat arm64 Image"),
        (compress(image(), "xz")[:-1], "truncated"),
        (zboot(b"x" * 100, b"lz4"), "compressed with 'lz4'; known: gzip, "),
        (zboot(b"x" * 100, b"\xff\n"), r"compressed with '\\\\xff\\n'"),
        (zboot(b"x" * 100, b"gzip"), "payload at 0x1000 of the EFI zboot file is not gzip"),
        (zboot(compress(image(), "xz"), b"zstd"), "is not zstd"),
        (zboot(compress(image(), "gzip")[:-1], b"gzip"), "truncated"),
        (zboot(compress(image(), "gzip") + b"x", b"gzip"), "bytes that are not gzip"),
        (zboot(b"", b"gzip"), "payload at 0x1000-0x1000"),
        (zboot(compress(image(), "gzip"), b"gzip")[:0x1010], "the file ends at 0x1010: truncated"),
        (zboot(compress(zboot(b"", b"gzip"), "gzip"), b"gzip"), r"\(an EFI zboot image\)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "data",
)
def test_what_is_no_boot_file_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        unsigned_extent(flat_image(write(tmp_path, data)))


@pytest.mark.parametrize("what", [unsigned_extent, header_mutable_ranges])
def test_only_flat_images_have_a_header(what: Callable[[bytes], object]) -> None:
    for data in (b"", bytes(64), image()[:63]):
        with pytest.raises(InputError, match="is not a flat arm64 Image"):
            what(data)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, message in (
        (tmp_path / "none", "cannot be opened"),
        (tmp_path, "not a regular"),
        (tmp_path / "fifo", "not a reg"),
    ):
        with pytest.raises(InputError, match=message):
            flat_image(path)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(InputError, match="not a boot file"):
        flat_image(tmp_path / "huge")


SEEDS = (signed(image()), zboot(compress(image(), "gzip"), b"gzip"), zboot(compress(image(), "xz"), b"xzkern"))


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    st.one_of(st.none(), st.integers(0, SIZE)),
)
@pytest.mark.thorough
@settings(max_examples=400, deadline=None)
def test_damage_is_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, seed: bytes, edits: list[tuple[int, int]], cut: int | None
) -> None:
    data = bytearray(seed)
    for at, value in edits:
        data[at] = value
    path = write(tmp_path_factory.getbasetemp(), bytes(data[:cut]))
    with suppress(InputError):
        flat = flat_image(path)
        assert unsigned_extent(flat) <= len(flat)
        assert all(start < stop <= len(flat) for start, stop in header_mutable_ranges(flat))
