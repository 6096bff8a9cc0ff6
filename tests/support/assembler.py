"""Assembles with keystone, which is not ours. It has no wheel for arm64: what its tests assemble is kept as words.

``python -m tests.support.assembler LINE...`` keeps more lines, and ``tests/test_assembler.py`` asks keystone for all.
"""

from __future__ import annotations

import re
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from prologue.insn import a64
from tests.support.needs import held_to_demo, needs_wheel

if TYPE_CHECKING:
    import keystone

KEPT: Final = Path(__file__).with_name("assembled.txt")


def assemble(text: str) -> int:
    """Return the word that keystone makes of a line: the kept one, if it is kept."""
    words = kept()
    if text not in words and held_to_demo:
        pytest.fail(
            f"{text!r} is not in {KEPT.name}, so an arm64 machine cannot run this test:"
            f" python -m tests.support.assembler {shlex.quote(text)} (or assemble_now, if chance makes the line)"
        )
    return words[text] if text in words else assemble_now(text)


def assemble_now(text: str) -> int:
    """Return the word that keystone makes of a line; skips the test where keystone is not to be had."""
    code, count = _engine().asm(text)
    assert count == 1
    return int.from_bytes(bytes(code), "little")


@cache
def kept() -> dict[str, int]:
    """Return the word of each line that is kept."""
    lines = (line.split(" ", 1) for line in KEPT.read_text(encoding="utf-8").splitlines())
    return {text: int(word, 16) for word, text in lines}


@cache
def _engine() -> keystone.Ks:
    needs_wheel("keystone")
    import keystone

    return keystone.Ks(keystone.KS_ARCH_ARM64, keystone.KS_MODE_LITTLE_ENDIAN)


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


if __name__ == "__main__":
    found = {**kept(), **{line: assemble_now(line) for line in sys.argv[1:]}}
    KEPT.write_text("".join(f"{found[line]:08x} {line}\n" for line in sorted(found)), encoding="utf-8")
