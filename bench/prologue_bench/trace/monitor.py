"""QEMU's monitor: the machine's memory, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Final

from qemu.qmp import ConnectError, ExecuteError, QMPClient, QMPError
from qemu.qmp.qmp_client import GreetingError

from prologue.errors import InputError
from prologue.live.memory.core import open_core
from prologue_bench.errors import BenchError, GuestLostError

_TRIES: Final = 5  # more than a machine that ends has events


def finish(socket: Path, dump: Path) -> None:
    """End the machine, after its memory was written to ``dump`` (an ELF core with physical addresses).

    The plugin has stopped the CPUs: if a guest powers off while a command is under way, QEMU 7.2 waits for itself
    forever (monitor_cleanup).

    Raises:
        BenchError: QEMU cannot write the dump, or the dump cannot be read.
        GuestLostError: the machine ended before.

    """
    logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)
    asyncio.run(_finish(str(socket), dump))
    try:
        open_core(dump)
    except InputError as error:
        raise BenchError(error.message, path=dump) from error


async def _finish(socket: str, dump: Path) -> None:
    client = QMPClient("record")
    try:
        await _connect(client, socket)
        await client.execute("stop")
        arguments = {"paging": False, "protocol": f"file:{dump.absolute()}"}
        await client.execute("dump-guest-memory", arguments)
        with contextlib.suppress(QMPError, EOFError):  # it ends before it answers
            await client.execute("quit")
    except ExecuteError as error:
        raise BenchError(f"{dump}: QEMU cannot dump its memory: {error}") from error
    except (QMPError, OSError, EOFError) as error:
        raise GuestLostError(f"{dump}: the machine ended before its memory was dumped") from error
    finally:
        with contextlib.suppress(QMPError, OSError, EOFError):
            await client.disconnect()


async def _connect(client: QMPClient, socket: str) -> None:
    """Connect, again if QEMU 7.2 sent an event of the machine's end before the greeting."""
    for tries_left in reversed(range(_TRIES)):
        try:
            await client.connect(socket)
        except ConnectError as error:
            if not (tries_left and isinstance(error.exc, GreetingError)):
                raise
        else:
            return
