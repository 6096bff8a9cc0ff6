"""An overlay of a vmlinux that the tests make of memory."""

from __future__ import annotations

from pathlib import Path

from tests.support.tool import Printed, Tool


def overlay(
    tool: Tool, vmlinux: Path, content: bytes, *options: object, status: int | None = 0
) -> tuple[Printed, Path]:
    """What the command says of these bytes as the memory, and where it puts the overlay."""
    source, out = vmlinux.with_name("core"), vmlinux.with_name("out")
    source.write_bytes(content)
    return tool("live", "overlay", vmlinux, source, "-o", out, *options, status=status), out
