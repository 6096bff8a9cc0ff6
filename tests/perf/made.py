"""Text pokes made by hand: of arm64, and of x86 as its kernel makes them."""

from __future__ import annotations

import struct
from typing import Final

from prologue.perf.poke import PokeRecording, TextPoke

NOP: Final = struct.pack("<I", 0xD503201F)
BL: Final = struct.pack("<I", 0x94000005)
ARM64: Final = PokeRecording(
    path="made",
    pokes=(
        TextPoke(0xFFFF800080010004, NOP, BL, 123_456_789_000, 1, 78, 78),
        TextPoke(0xFFFF800080010010, b"\1" * 8, b"\2" * 8, 123_456_790_000, 0, 77, 77),
        TextPoke(0xFFFF80007A000000, b"", NOP * 5 + BL, 123_456_791_000, 0, 77, 77),
        TextPoke(0xFFFF80007A000000, NOP * 5 + BL, b"", 123_456_792_000, 0, 77, 77),
    ),
    machine="aarch64",
    release="6.12.107+deb13-cloud-arm64",
    build_id="0123456789abcdef0123456789abcdef01234567",
    cpus=2,
)
# A jump label: the 5 bytes of NOP become JMP; and a page of kprobes that gets an instruction.
X86: Final = PokeRecording(
    path="made",
    pokes=(
        TextPoke(0xFFFFFFFF88AB8890, bytes.fromhex("0f1f440000"), bytes.fromhex("e903000000"), 5_000, 6, 9, 9),
        TextPoke(0xFFFFFFFFC027A000, b"", bytes.fromhex("554889e5cc00"), 6_000, 6, 9, 9),
    ),
    machine="x86_64",
    release="6.12.0",
    cpus=8,
)
