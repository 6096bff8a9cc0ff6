"""Assembles single instructions with keystone, which is not ours."""

from __future__ import annotations

import keystone

ENGINE = keystone.Ks(keystone.KS_ARCH_ARM64, keystone.KS_MODE_LITTLE_ENDIAN)


def assemble(text: str, pc: int = 0) -> int:
    code, count = ENGINE.asm(text, pc)
    assert count == 1
    return int.from_bytes(bytes(code), "little")
