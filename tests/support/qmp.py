"""QEMU's monitor: one command, one answer."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from qemu.qmp import QMPClient


def execute(socket: Path, command: str, **arguments: Any) -> Any:
    """Connect, run the command, and return what it returns."""
    logging.getLogger("qemu.qmp").setLevel(logging.ERROR)
    return asyncio.run(_execute(str(socket), command, arguments))


async def _execute(socket: str, command: str, arguments: dict[str, Any]) -> Any:
    client = QMPClient("test")
    await client.connect(socket)
    try:
        return await client.execute(command, {name.replace("_", "-"): value for name, value in arguments.items()})
    finally:
        await client.disconnect()


def dump(socket: Path, out: Path) -> Path:
    """All memory of the machine, as an ELF core with physical addresses."""
    execute(socket, "dump-guest-memory", paging=False, protocol=f"file:{out}")
    return out


def memory(socket: Path, vaddr: int, size: int, scratch: Path) -> bytes:
    """Memory by virtual address, through the page tables of the first CPU."""
    signed = vaddr - (1 << 64) if vaddr >> 63 else vaddr  # QEMU reads it so
    execute(socket, "memsave", val=signed, size=size, filename=str(scratch), cpu_index=0)
    data = scratch.read_bytes()
    scratch.unlink()
    return data
