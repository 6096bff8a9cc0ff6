"""/proc/kcore: the memory of the kernel that runs, of this machine or of another one that ssh logs in to.

Shell commands there read its pages: for a POSIX shell with dd, and for busybox.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from prologue.errors import InputError
from prologue.live.memory.core import CoreFile, CoreMemory
from prologue.live.memory.ranges import PAGE, Range
from prologue.live.memory.session import RemoteShell
from prologue.live.memory.state import END, SCRIPT, KernelState, parse_state

KCORE: Final = "/proc/kcore"
# Bytes that dd hands on at once: what a pipe holds. In pages, a small sshd takes longer to send them.
_BLOCK: Final = 1 << 16
# What dd says at its end goes away; if it fails, that is said again. (POSIX has no status=none.)
GET: Final = f"""exec 3>&1
get() {{
	said=$(dd if={KCORE} bs="$1" skip="$2" count="$3" 2>&1 >&3) && return
	echo "$said" | head -n 1 >&2
	exit 1
}}
"""


def _get_commands(first: int, count: int) -> str:
    """Make lines for ``GET`` that print these pages and no others: dd skips whole blocks only."""
    pages_per_block = _BLOCK // PAGE
    begin, end = -(-first // pages_per_block), (first + count) // pages_per_block
    if begin >= end:
        return f"get {PAGE} {first} {count}\n"
    parts = (
        (PAGE, first, begin * pages_per_block - first),
        (_BLOCK, begin, end - begin),
        (PAGE, end * pages_per_block, first + count - end * pages_per_block),
    )
    return "".join(f"get {size} {skip} {blocks}\n" for size, skip, blocks in parts if blocks)


_CMDLINE: Final = "/proc/cmdline"
_PROTECTED: Final = "kvm-arm.mode=protected"
# Before the first byte of kcore is read. What it prints is why the shell ended.
_GUARD: Final = f"""if grep -q {_PROTECTED} {_CMDLINE} 2>/dev/null; then
	echo {_PROTECTED} >&2
	exit 1
fi
"""
_LOCKDOWN: Final = "/sys/kernel/security/lockdown"
_HEAD: Final = 1 << 16  # bytes; the headers and notes have some 12 KiB
_AT_ONCE: Final = 300  # readings: all commands are sent before an answer is read, and must fit into a pipe


class AskedMemory(CoreMemory):
    """A running kernel, which is asked for its state once until that is forgotten."""

    live = True

    _state: KernelState | None = None

    def state(self, vmlinux: Path | None = None) -> KernelState:
        """Return modules and symbols."""
        self._state = self._state or self._ask()
        return self._state

    def _ask(self) -> KernelState:
        raise NotImplementedError

    def forget_state(self) -> None:
        """Ask again when the state is wanted next."""
        self._state = None


class Kcore(AskedMemory):
    """The running kernel of this machine.

    Raises:
        InputError: it may not be read, or this is no arm64 machine.

    """

    def __init__(self) -> None:
        _require_readable(_read_line(_CMDLINE), KCORE)
        try:
            self._fd = os.open(KCORE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputError(why_not(error, os.geteuid(), _read_line(_LOCKDOWN)), path=KCORE) from error
        super().__init__(CoreFile(KCORE, self._pread, None))

    def _pread(self, offset: int, size: int) -> bytes:
        parts, got = [], 0
        try:
            while got < size and (part := os.pread(self._fd, size - got, offset + got)):
                parts.append(part)
                got += len(part)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=KCORE) from error
        return b"".join(parts)

    def _ask(self) -> KernelState:
        done = subprocess.run(["/bin/sh"], input=SCRIPT.encode(), capture_output=True, check=False)
        return parse_state(done.stdout.decode(errors="replace"), "/proc")


class RemoteKcore(AskedMemory):
    """The running kernel of a machine that ssh logs in to without a password; needs a POSIX shell and dd there.

    Args:
        host: what ssh takes, such as ``root@board``.
        ssh_options: words for ssh, before its host.
        patience: seconds that it may be silent.

    Raises:
        InputError: it does not answer, its kcore may not be read, or it is no arm64 machine.

    """

    def __init__(self, host: str, ssh_options: Sequence[str] = (), patience: int | None = None) -> None:
        if not host or host.startswith("-"):
            raise InputError("is not a host: expected what ssh takes, as in ssh:root@board", path=f"ssh:{host}")
        self.name = f"ssh:{host}"
        hint = f"log in as root, and see whether {_LOCKDOWN} says none there"
        self._shell = RemoteShell(self.name, host, ssh_options, hint, patience)
        super().__init__(CoreFile(self.name, self._dd, None))

    def _dd(self, offset: int, size: int) -> bytes:
        if offset + size <= _HEAD:  # the headers are read in pieces
            return self._head[offset : offset + size]
        return self._dd_all([Range(offset, size)])[0]

    @cached_property
    def _head(self) -> bytes:
        try:
            return self._shell.ask(_GUARD + GET + _get_commands(0, _HEAD // PAGE), _HEAD)
        except InputError as error:
            _require_readable(error.message.replace(":", " "), self.name)
            raise

    def _dd_all(self, pieces: Sequence[Range]) -> list[bytes]:
        """Read pieces of the file, by offset."""
        pages = [(piece.vaddr // PAGE, -(-piece.end // PAGE) - piece.vaddr // PAGE) for piece in pieces]
        output, result, at = bytearray(), [], 0
        for start in range(0, len(pages), _AT_ONCE):
            part = pages[start : start + _AT_ONCE]
            commands = "".join(_get_commands(first, count) for first, count in part)
            output += self._shell.ask(GET + commands, sum(count for _, count in part) * PAGE)
        for piece, (_, count) in zip(pieces, pages, strict=True):
            start = at + piece.vaddr % PAGE
            result.append(bytes(output[start : start + piece.size]))
            at += count * PAGE
        return result

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        """Read several ranges with one request."""
        places = [(self.core.place_of(*piece), piece.size) for piece in ranges]
        return self._dd_all([Range(offset, size) for offset, size in places])

    def _ask(self) -> KernelState:
        return parse_state(self._shell.ask_until(SCRIPT, END).decode(errors="replace"), self.name)


def _require_readable(command_line: str, name: str) -> None:
    """Refuse a host whose hypervisor keeps memory from it: 6.12 panics when /proc/kcore reads that (HYP panic).

    ``handle_host_mem_abort`` (arch/arm64/kvm/hyp/nvhe/mem_protect.c); the text and data of nVHE are such memory.
    """
    if _PROTECTED in command_line.split():
        message = f"runs with {_PROTECTED}: a host that reads its hypervisor's memory by {KCORE} may panic; take a dump"
        raise InputError(f"{message} instead, from outside of it", path=name)


def _read_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def why_not(error: OSError, uid: int, lockdown: str) -> str:
    """Say why kcore cannot be opened: ``open_kcore`` (``fs/proc/kcore.c``, 6.1-6.12) gives EPERM for two reasons."""
    if isinstance(error, FileNotFoundError):
        return "is not there: this kernel has no CONFIG_PROC_KCORE; take a dump instead"
    if "[confidentiality]" in lockdown:
        return "cannot be read: the kernel is locked down (lockdown=confidentiality); take a dump instead"
    if isinstance(error, PermissionError):
        missing = "run as root" if uid else "this root lacks CAP_SYS_RAWIO (a container?)"
        return f"cannot be read: {error.strerror}: {missing}"
    return f"cannot be read: {error.strerror}"
