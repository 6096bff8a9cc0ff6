"""Assembles with keystone, which is not ours."""

from __future__ import annotations

import re

import keystone

from prologue.insn import a64

ENGINE = keystone.Ks(keystone.KS_ARCH_ARM64, keystone.KS_MODE_LITTLE_ENDIAN)


def assemble(text: str, pc: int = 0) -> int:
    code, count = ENGINE.asm(text, pc)
    assert count == 1
    return int.from_bytes(bytes(code), "little")


def assemble_at(place: int, text: str, **addresses: int) -> list[int]:
    """Assemble lines for a place: ``+32`` is so far behind the first one, and what has a name may be so far from it.

    Before a line that is such a place, NOPs fill what is missing.
    """

    def address(name: str) -> int:
        base, sign, distance = re.fullmatch(r"(\w*)([+-]?)(\d*)", name).groups()  # type: ignore[union-attr]
        return (addresses[base] if base else place) + int(f"{sign}{distance or 0}")

    words: list[int] = []
    for line in text.split("; "):
        at = place + 4 * len(words)
        if line.startswith("+"):
            words += [a64.NOP] * ((address(line) - at) // 4)
        elif branch := re.fullmatch(r"(b|bl) (\+\d+)", line):
            words.append(a64.encode_b(at, address(branch[2]), link=branch[1] == "bl"))
        elif page := re.fullmatch(r"adrp x(\d+), (\S+)", line):
            pages = (address(page[2]) >> 12) - (at >> 12)
            words.append(0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | int(page[1]))
        elif quad := re.fullmatch(r"\.quad (\S+)", line):
            words += [address(quad[1]) & 0xFFFFFFFF, address(quad[1]) >> 32]
        else:
            words.append(assemble(re.sub(r":lo12:([\w+-]+)", lambda low: f"#{address(low[1]) & 0xFFF}", line)))
    return words
