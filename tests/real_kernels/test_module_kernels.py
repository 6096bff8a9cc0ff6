"""Which kernel a module belongs to, and whether it lost its signature: Debian's modules, signed, with CRCs."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from prologue.kernel.load import find_modules, open_binary
from prologue.kernel.module import Module
from tests.support.needs import needs_kernel, needs_modules
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.thorough]


@pytest.fixture(scope="module")
def vmlinux() -> Path:
    return needs_kernel("trixie").vmlinux


@pytest.fixture(scope="module")
def signed() -> bytes:
    """The bytes of a module that depends on two others."""
    directory = needs_modules(needs_kernel("trixie"))
    packed = next(path for path in find_modules(directory) if path.name.startswith("nf_tables.ko"))
    module = open_binary(packed)
    assert isinstance(module, Module)
    return module.image.read(0, module.image.size)


def cut(signed: bytes) -> bytes:
    marker = len(b"~Module signature appended~\n")
    size = int.from_bytes(signed[-marker - 4 : -marker], "big")
    return signed[: -marker - 12 - size]


def test_a_signature_that_was_cut_off(vmlinux: Path, signed: bytes, tmp_path: Path, tool: Tool) -> None:
    before, after = tmp_path / "before.ko", tmp_path / "after.ko"
    before.write_bytes(signed)
    after.write_bytes(cut(signed))
    said = tool("verify", after, "--against", before, "--vmlinux", vmlinux, status=1).out
    assert f"differs from {before} in its signature, which it lost" in said
    assert "1 module without a signature, which" in said
    assert "; 1 not signed; compared with the file from before)" in said
    assert "not signed" not in tool("verify", before, "--vmlinux", vmlinux).out


def test_a_module_of_another_release_of_the_abi(vmlinux: Path, signed: bytes, tmp_path: Path, tool: Tool) -> None:
    content = bytearray(cut(signed).replace(b"vermagic=6.12.", b"vermagic=6.11."))
    kmod = tmp_path / "kmod.ko"
    kmod.write_bytes(content)
    assert re.search(r"CRCs of \d{3} symbols agree", tool("verify", kmod, "--vmlinux", vmlinux).out)
    name = b"queued_write_lock_slowpath"
    row = content.index(struct.pack("56s", name)) - 8
    content[row] ^= 1
    kmod.write_bytes(content)
    wrong = (
        rf"1 of \d+ CRCs of symbols differ from {re.escape(str(vmlinux))}'s: {name.decode()}: that is not its kernel"
    )
    assert re.search(wrong, tool("verify", kmod, "--vmlinux", vmlinux, status=2).err)
