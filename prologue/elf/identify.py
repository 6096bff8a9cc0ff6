"""Recognises a file by its first bytes: so that an error can name it."""

from __future__ import annotations

import struct
from typing import Final, Literal, NamedTuple

EM_AARCH64 = 183
_MACHINES = {
    3: "i386",
    8: "mips",
    20: "powerpc",
    21: "powerpc64",
    22: "s390",
    40: "arm",
    62: "x86-64",
    243: "riscv",
}
_ELF_TYPES = {1: "ET_REL", 2: "ET_EXEC", 3: "ET_DYN", 4: "ET_CORE"}
Compression = Literal["gzip", "xz", "zstd"]
COMPRESSED: Final[tuple[tuple[bytes, Compression], ...]] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
# What boot loaders and arch/arm64/boot/Makefile (6.12) make besides: no vmlinux and no module comes so.
_OTHERS: Final = (
    (b"BZh", "bzip2", "a file compressed with bzip2"),
    (b"\x02\x21\x4c\x18", "lz4", "a file compressed with lz4"),
    (b"\x04\x22\x4d\x18", "lz4", "a file compressed with lz4"),
    (b"\x89LZO", "lzo", "a file compressed with lzo"),
    (b"\xd0\x0d\xfe\xed", "fit", "a FIT image or device tree"),
    (b"\x27\x05\x19\x56", "uimage", "a U-Boot image (uImage)"),
    (b"ANDROID!", "android-boot", "an Android boot image"),
)
# Debuggers' kernels come in packages.
_PACKAGES: Final = (
    (b"!<arch>\ndebian-binary", "deb", "a Debian package", ": unpack it first (dpkg-deb -x)"),
    (b"\xed\xab\xee\xdb", "rpm", "an RPM package", ": unpack it first (rpm2cpio)"),
)
_GIVE: Final = ": give the vmlinux that it was made from"

# Kinds of boot files: scan names them, and verify --image reads them or says what does.
BOOT_FILES: Final = frozenset({"image", "zboot", "pe", *(kind for _, kind, _ in _OTHERS), "lzma"})


class FileKind(NamedTuple):
    """``kind`` is stable and goes into JSON; ``description`` and ``advice`` are for people."""

    kind: str
    description: str
    advice: str = ""

    @property
    def is_arm64_elf(self) -> bool:
        """True if the file is an AArch64 vmlinux-like or module file (core files are not)."""
        return self.kind in ("elf", "module")


def identify(head: bytes, size: int) -> FileKind:
    """Name the kind of file that begins with ``head`` and is ``size`` bytes long."""
    if head[:4] == b"\x7fELF":
        return _identify_elf(head)
    if head[56:60] == b"ARM\x64":
        return FileKind("image", "a flat arm64 Image", _GIVE)
    if head[0x202:0x206] == b"HdrS":  # Documentation/arch/x86/boot.rst
        return FileKind("other-arch", "an x86 boot file (bzImage); prologue is for arm64 kernels")
    if head[:2] == b"MZ" and head[4:8] == b"zimg":
        return FileKind("zboot", "an EFI zboot image", _GIVE)
    for magic, name in COMPRESSED:
        if head.startswith(magic):
            return FileKind(f"compressed-{name}", f"a file compressed with {name}", ": unpack it first")
    for magic, kind, description in _OTHERS:
        if head.startswith(magic):
            return FileKind(kind, description, _GIVE)
    for magic, kind, description, advice in _PACKAGES:
        if head.startswith(magic):
            return FileKind(kind, description, advice)
    if _is_lzma(head):
        return FileKind("lzma", "a file compressed with lzma", _GIVE)
    if head[:2] == b"MZ":
        return FileKind("pe", "a PE/COFF file", _GIVE)
    if size < 64 and b"\x7fELF".startswith(head[:4]):
        return FileKind("truncated", f"truncated: {size} bytes are less than an ELF header")
    if all(byte in b"\t\n\r\f" or 32 <= byte < 127 for byte in head):
        return FileKind("text", "a text file, not ELF")
    return FileKind("unknown", "not ELF")


def _is_lzma(head: bytes) -> bool:
    """Recognise the old ``lzma`` header, which has no magic: properties, a dictionary of 2^n or 3 * 2^n, a size."""
    if len(head) < 13 or head[0] >= 9 * 5 * 5:
        return False
    dictionary, size = struct.unpack_from("<IQ", head, 1)
    high = 1 << max(dictionary.bit_length() - 1, 0)
    return dictionary >= 1 << 12 and dictionary - high in (0, high >> 1) and (size == (1 << 64) - 1 or size < 1 << 40)


def _identify_elf(head: bytes) -> FileKind:
    if len(head) < 64:
        return FileKind("truncated", f"truncated: {len(head)} bytes are less than an ELF header")
    if head[4] not in (1, 2) or head[5] not in (1, 2):
        return FileKind("damaged", f"damaged ELF header: class {head[4]}, data encoding {head[5]}")
    order = "<" if head[5] == 1 else ">"
    elf_type, machine = struct.unpack_from(f"{order}HH", head, 16)
    name = _MACHINES.get(machine, f"machine {machine}")
    if head[4] == 1:
        return FileKind("elf32", f"a 32-bit ELF file ({name}); prologue is for 64-bit arm64 kernels")
    if machine != EM_AARCH64:
        return FileKind("other-arch", f"an ELF file for {name}; prologue is for arm64 kernels")
    if order == ">":
        return FileKind("big-endian", "a big-endian arm64 ELF file; prologue knows little-endian kernels only")
    if _ELF_TYPES.get(elf_type) == "ET_CORE":
        return FileKind("core", "a core file", ": give the vmlinux")
    if _ELF_TYPES.get(elf_type) == "ET_REL":
        return FileKind("module", "an arm64 relocatable file (a kernel module)")
    if elf_type in (2, 3):
        return FileKind("elf", "an arm64 ELF file")
    return FileKind("damaged", f"damaged ELF header: type {elf_type}")
