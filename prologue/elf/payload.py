"""The flat arm64 Image inside a boot file: as it is, compressed, or in an EFI zboot file.

Secure boot signs a flat Image as the PE file that it also is: certificates are appended after the flat data, and
two fields in the PE header change, its checksum and its entry for the certificates (Microsoft's "PE Format",
"Optional Header"; UEFI specification, "Secure Boot and Driver Signing"). Everything else stays as ``objcopy`` left it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from prologue.elf.compressed import MAX_OUTPUT, compression, decompress
from prologue.elf.files import open_regular
from prologue.elf.identify import identify
from prologue.errors import InputError

# struct arm64_image_header (arch/arm64/include/asm/image.h, 6.12): magic, offset of the PE header.
_MAGIC: Final = 56
_PE_OFFSET: Final = 60
_HEADER_SIZE: Final = 64

# Magic of a flattened device tree; its size follows, big-endian (Devicetree Specification, "Header").
_DEVICE_TREE: Final = b"\xd0\x0d\xfe\xed"
_NESTED: Final = 64  # so many magics may stand inside of the last device tree
_UIMAGE_HEADER: Final = 64  # "legacy" format of U-Boot: big-endian, the payload's size at 12

# The type that drivers/firmware/efi/libstub/Makefile.zboot writes, and the compression: in 6.1 the name of the build's
# rule (xzkern, zstd22; lzma, lz4 and lzo, too), in 6.12 only gzip and zstd.
_ZBOOT: Final = {"gzip": "gzip", "xzkern": "xz", "zstd22": "zstd", "zstd": "zstd", "lzma": "lzma"}

# What takes the Image out of files that we have no reader for.
_TAKEN_OUT_BY: Final = {
    "lz4": "lz4 -d",
    "lzo": "lzop -d",
    "fit": "dumpimage -T flat_dt -p 0 -o Image",
    "android-boot": "unpack_bootimg --boot_img",
}


def flat_image(path: Path) -> bytes:
    """Read the flat arm64 Image in a boot file.

    A signed flat Image comes with its certificates: see ``unsigned_extent``. One from a zboot file may have zeros
    after it, up to the size that it takes in memory (``Makefile.zboot``, "copy_and_pad", 6.12; not in 6.1).

    Raises:
        InputError: not readable, holds no arm64 Image, is compressed in a way that we do not know, or is damaged; a
            flat Image that ends too early is for whoever compares it with its vmlinux.

    """
    data = _without_device_trees(_of_uimage(_read(path), path))
    if is_flat(data):
        return data
    kind = identify(data[:4096], len(data))
    name = kind.kind.removeprefix("compressed-")
    if kind.kind == "zboot":
        flat = _zboot(data, path)
    elif name != kind.kind or name in ("lzma", "bzip2"):
        flat = _without_device_trees(decompress(data, path, name))
    elif command := _TAKEN_OUT_BY.get(kind.kind):
        raise InputError(f"is {kind.description}: take the Image out of it first (`{command} {path}`)", path=path)
    else:
        raise InputError(f"is not an arm64 boot file ({kind.description}): give Image, Image.gz or vmlinuz", path=path)
    if not is_flat(flat):
        inner = identify(flat[:4096], len(flat)).description
        raise InputError(f"does not unpack to a flat arm64 Image ({inner})", path=path)
    return flat


def is_flat(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` (at least 64 bytes) is a flat arm64 Image."""
    return len(head) >= _HEADER_SIZE and head[_MAGIC : _MAGIC + 4] == b"ARM\x64"


def unsigned_extent(flat: bytes, path: object = None) -> int:
    """Return the offset of the certificates that signing appended; the size of the whole if it is not signed.

    They begin at a multiple of 8: up to 7 zeros of padding may lie before them, after the flat data. (Data that the
    linker script rounds up to 512 bytes, as ``vmlinux.lds.S`` does with ``PECOFF_FILE_ALIGNMENT``, need none.)

    Raises:
        InputError: no flat Image, or the PE header points outside of it.

    """
    where = _certificate_entry(flat, path)
    if where is None:
        return len(flat)
    start, size = _u32(flat, where), _u32(flat, where + 4)
    if not size:
        return len(flat)
    # Certificates must be the last thing in the file, so that a signature covers all that lies before them.
    if start < _HEADER_SIZE or start + size != len(flat):
        raise InputError(
            f"the PE header has certificates at {start:#x}-{start + size:#x}, the file ends at {len(flat):#x}: "
            "truncated or damaged",
            path=path,
        )
    return start


def header_mutable_ranges(flat: bytes, path: object = None) -> tuple[tuple[int, int], ...]:
    """Return the ranges (start, end) in the header that signing changes, ascending; none without a PE header.

    Raises:
        InputError: no flat Image, or the PE header is damaged.

    """
    pe = _pe_header(flat, path)
    if pe is None:
        return ()
    checksum = pe + 24 + 64
    entry = _certificate_entry(flat, path)
    ranges = ((checksum, checksum + 4),)
    return ranges if entry is None else (*ranges, (entry, entry + 8))


def _read(path: Path) -> bytes:
    with open_regular(path) as (fd, size):
        if size > MAX_OUTPUT:
            raise InputError(f"has {size} bytes: not a boot file", path=path)
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read()


def _of_uimage(data: bytes, path: Path) -> bytes:
    """Return the payload of a U-Boot image, which is all of it except a header; other files as they are."""
    if identify(data[:4096], len(data)).kind != "uimage":
        return data
    size = int.from_bytes(data[12:16], "big")
    if len(data) < _UIMAGE_HEADER + size or not size:
        raise InputError(
            f"the U-Boot header has a payload of {size} bytes, the file {len(data)} in all: truncated or damaged",
            path=path,
        )
    return data[_UIMAGE_HEADER : _UIMAGE_HEADER + size]


def _without_device_trees(data: bytes) -> bytes:
    """Leave out device trees that were appended (``Image.gz-dtb``): each one says its size."""
    while (at := _last_device_tree(data)) > 0:
        data = data[:at]
    return data


def _last_device_tree(data: bytes) -> int:
    at = len(data)
    for _ in range(_NESTED):
        at = data.rfind(_DEVICE_TREE, 0, at)
        if at <= 0 or at + int.from_bytes(data[at + 4 : at + 8], "big") == len(data):
            break
    else:
        return -1
    return at


def _zboot(data: bytes, path: Path) -> bytes:
    """Unpack the payload that the header of a zboot file names (``zboot-header.S``, 6.1-6.12)."""
    if len(data) < _HEADER_SIZE:
        raise InputError(f"truncated: {len(data)} bytes are less than an EFI zboot header", path=path)
    start, size = _u32(data, 8), _u32(data, 12)
    if start < _HEADER_SIZE or start + size > len(data) or not size:
        raise InputError(
            f"the EFI zboot header has its payload at {start:#x}-{start + size:#x}, the file ends at {len(data):#x}: "
            "truncated or damaged",
            path=path,
        )
    name = data[24:56].split(b"\0")[0].decode("ascii", "backslashreplace")
    if name not in _ZBOOT:
        known = ", ".join(_ZBOOT)
        raise InputError(f"the payload of the EFI zboot file is compressed with {name!r}; known: {known}", path=path)
    kind = _ZBOOT[name]
    payload = data[start : start + size]
    if kind != "lzma" and compression(payload[:8]) != kind:
        raise InputError(f"the payload at {start:#x} of the EFI zboot file is not {kind}: damaged", path=path)
    return decompress(payload, path, kind)


def _pe_header(flat: bytes, path: object) -> int | None:
    """Find the PE header's offset; None in a kernel without CONFIG_EFI (``arch/arm64/kernel/efi-header.S``)."""
    if not is_flat(flat):
        raise InputError("is not a flat arm64 Image", path=path)
    pe = _u32(flat, _PE_OFFSET)
    if not pe:
        return None
    # Up to the number of the directory entries, for the 64-bit form, PE32+.
    if pe < _HEADER_SIZE or pe + 24 + 112 > len(flat) or flat[pe : pe + 4] != b"PE\0\0":
        raise InputError(f"no PE header at {pe:#x}, to which the Image header points: damaged", path=path)
    if flat[pe + 24 : pe + 26] != b"\x0b\x02":
        raise InputError(f"the PE header at {pe:#x} is not in the 64-bit form (PE32+): damaged", path=path)
    return pe


def _certificate_entry(flat: bytes, path: object) -> int | None:
    """Find the PE header's entry for the certificates: the fifth of the directory."""
    pe = _pe_header(flat, path)
    if pe is None:
        return None
    where = pe + 24 + 112 + 4 * 8
    count, size = _u32(flat, pe + 24 + 108), int.from_bytes(flat[pe + 20 : pe + 22], "little")
    if count < 5:
        return None
    if size < 112 + 5 * 8 or where + 8 > len(flat):
        raise InputError(f"the PE header at {pe:#x} is too short for its {count} directory entries: damaged", path=path)
    return where


def _u32(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 4], "little")
