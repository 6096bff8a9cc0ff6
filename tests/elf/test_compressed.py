"""Compression against the command line tools, and what is not one whole compressed file."""

from __future__ import annotations

import lzma
import subprocess
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from prologue.elf import compressed
from prologue.elf.compressed import compress, compression, decompress
from prologue.elf.identify import Compression
from prologue.errors import InputError
from tests.support.needs import needs_tools

KINDS: tuple[Compression, ...] = ("gzip", "xz", "zstd")
# More than one step of input, in every format.
DATA = b"".join((k * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "little") for k in range(2000)) + bytes(9000)
TOOLS: dict[Compression, list[str]] = {
    "gzip": ["gzip", "-n"],
    "xz": ["xz", "--check=crc32", "--lzma2=dict=1MiB"],
    "zstd": ["zstd", "-q"],
}


def run(command: list[str], data: bytes) -> bytes:
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind: Compression) -> None:
    for data in (b"", b"x", DATA):
        packed = compress(data, kind)
        assert compression(packed[:8]) == kind
        assert decompress(packed, "f") == data
        assert packed == compress(data, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tools_take_ours_and_we_theirs(kind: Compression) -> None:
    tool = TOOLS[kind]
    needs_tools(tool[0])
    assert run([tool[0], "-dc"], compress(DATA, kind)) == DATA
    assert decompress(run([*tool, "-c"], DATA), "f") == DATA


def test_gzip_has_no_name_and_no_time() -> None:
    assert compress(DATA, "gzip")[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\x03"


def test_xz_is_what_the_kernel_takes() -> None:
    packed = compress(DATA, "xz")
    assert packed[6:8] == b"\0\x01"  # CRC32
    # Block header at 12: its size, flags, LZMA2 (0x21) with one byte of properties: 16 is 1 MiB.
    assert packed[14:17] == b"\x21\x01\x10"


def test_zstd_has_checksum_and_size() -> None:
    frame = zstandard.get_frame_parameters(compress(DATA, "zstd"))
    assert frame.has_checksum
    assert frame.content_size == len(DATA)


@pytest.mark.parametrize("kind", KINDS)
def test_streams_one_behind_the_other_are_one_file(kind: Compression) -> None:
    assert decompress(compress(DATA, kind) + compress(b"", kind) + compress(b"end", kind), "f") == DATA + b"end"


def test_padding_that_the_tools_ignore() -> None:
    assert decompress(compress(DATA, "gzip") + bytes(513), "f") == DATA
    assert decompress(compress(b"", "xz") + bytes(8), "f") == b""
    frame = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert decompress(compress(DATA, "zstd") + frame + compress(b"x", "zstd"), "f") == DATA + b"x"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("garbage", [b"x", b"\0\0\0x", b"\x1f\x8a\0\0\0\0\0\0", b"~Module signature appended~\n"])
def test_garbage_behind_the_data_is_an_error(kind: Compression, garbage: bytes) -> None:
    with pytest.raises(InputError, match=r"f: .* bytes that are not"):
        decompress(compress(DATA, kind) + garbage, "f")


def test_padding_of_the_wrong_size_is_an_error() -> None:
    for packed in (compress(DATA, "xz") + bytes(5), compress(DATA, "zstd") + bytes(4)):
        with pytest.raises(InputError, match="bytes that are not"):
            decompress(packed, "f")


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_anywhere_is_an_error(kind: Compression) -> None:
    packed = compress(DATA[:4000], kind)
    for size in [*range(8, 60), *range(60, len(packed), 97), *range(len(packed) - 16, len(packed))]:
        with pytest.raises(InputError):
            decompress(packed[:size], "f")
    with pytest.raises(InputError, match="truncated"):
        decompress(packed[:-1], "f")
    with pytest.raises(InputError, match=r"begin at 0x[1-9a-f][0-9a-f]*.*truncated"):
        decompress(packed * 2 + packed[:-1], "f")


@pytest.mark.thorough
@given(st.sampled_from(KINDS), st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_damage_is_an_input_error_or_harmless(kind: Compression, flips: list[tuple[int, int]]) -> None:
    packed = bytearray(compress(DATA[:3000], kind))
    for at, mask in flips:
        packed[at % len(packed)] ^= mask
    try:
        result = decompress(bytes(packed), "f")
    except InputError:
        return
    # Some bits of a header mean nothing to the data; every bit of the data is under a checksum.
    assert result == DATA[:3000]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_an_error(kind: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_OUTPUT", 1 << 20)
    assert len(decompress(compress(bytes(1 << 20), kind), "f")) == 1 << 20
    with pytest.raises(InputError, match="more than 1 MiB"):
        decompress(compress(bytes((1 << 20) + 1), kind), "f")
    with pytest.raises(InputError, match="more than 1 MiB"):
        decompress(compress(bytes(1 << 19), kind) * 3, "f")


def test_a_dictionary_of_gigabytes_is_not_allocated() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    packed = bytearray(lzma.compress(b"x", check=lzma.CHECK_CRC32, filters=filters))
    packed[16] = 39  # 3 GiB
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    with pytest.raises(InputError, match=r"damaged.*[Mm]emory"):
        decompress(bytes(packed), "f")
    # A zstd frame header without a content size whose window is 1 << (10 + 21), 2 GiB.
    with pytest.raises(InputError, match=r"damaged.*memory"):
        decompress(b"\x28\xb5\x2f\xfd\0" + bytes([21 << 3]) + b"\x01\0\0", "f")


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02\x01\x01", b"BZh9", b"\x1f", b"\xfd7zXZ", b"\x28\xb5\x2f"])
def test_other_files_have_no_compression(data: bytes) -> None:
    assert compression(data) is None
    with pytest.raises(InputError, match="is not compressed with gzip, xz or zstd"):
        decompress(data, Path("f"))


def test_old_lzma() -> None:
    packed = lzma.compress(DATA, lzma.FORMAT_ALONE)
    assert decompress(packed, "f", "lzma") == DATA
    for damaged in (packed[:-1], packed + b"x", packed[:100], b"", b"\xff" + packed[1:]):
        with pytest.raises(InputError, match=r"truncated|damaged"):
            decompress(damaged, "f", "lzma")
