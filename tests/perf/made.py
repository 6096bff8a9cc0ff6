"""Text pokes made by hand: of arm64, and of x86 as its kernel makes them."""

from __future__ import annotations

import struct
from typing import Final

from prologue.live.pokes.perf_data import PokeRecording, TextPoke

NOP: Final = struct.pack("<I", 0xD503201F)
BL: Final = struct.pack("<I", 0x94000005)
ARM64: Final = PokeRecording(
    path="made",
    pokes=(
        TextPoke(address=0xFFFF800080010004, old=NOP, new=BL, time=123_456_789_000, cpu=1, pid=78, tid=78),
        TextPoke(address=0xFFFF800080010010, old=b"\1" * 8, new=b"\2" * 8, time=123_456_790_000, cpu=0, pid=77, tid=77),
        TextPoke(address=0xFFFF80007A000000, old=b"", new=NOP * 5 + BL, time=123_456_791_000, cpu=0, pid=77, tid=77),
        TextPoke(address=0xFFFF80007A000000, old=NOP * 5 + BL, new=b"", time=123_456_792_000, cpu=0, pid=77, tid=77),
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
        TextPoke(
            address=0xFFFFFFFF88AB8890,
            old=bytes.fromhex("0f1f440000"),
            new=bytes.fromhex("e903000000"),
            time=5_000,
            cpu=6,
            pid=9,
            tid=9,
        ),
        TextPoke(
            address=0xFFFFFFFFC027A000, old=b"", new=bytes.fromhex("554889e5cc00"), time=6_000, cpu=6, pid=9, tid=9
        ),
    ),
    machine="x86_64",
    release="6.12.0",
    cpus=8,
)
