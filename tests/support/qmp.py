"""QEMU's monitor: one command, one answer."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any, Final

from qemu.qmp import ExecuteError, QMPClient

_PATIENCE: Final = 60  # seconds for a CPU to be in the kernel


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
    """Memory by virtual address, through the page tables that the first CPU uses; those of a user hide the kernel."""
    signed = vaddr - (1 << 64) if vaddr >> 63 else vaddr  # QEMU reads it so
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            execute(socket, "memsave", val=signed, size=size, filename=str(scratch), cpu_index=0)
            break
        except ExecuteError as error:
            if "Invalid addr" not in str(error) or time.monotonic() > end:
                raise
    data = scratch.read_bytes()
    scratch.unlink()
    return data
