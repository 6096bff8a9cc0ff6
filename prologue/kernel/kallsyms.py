"""The kernel's own symbol table: which symbol an address belongs to, in the kernel's opinion.

The tables and their encoding are those of scripts/kallsyms.c and kernel/kallsyms.c (6.1-7.2): sorted addresses as
32-bit offsets, and names made of tokens, each after its length of one or two bytes; a name's first character is its
type.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np

from prologue.arrays import I64, U64, sorted_unique
from prologue.errors import InputError
from prologue.kernel.binary import Binary

TOKENS: Final = 256


def symbol_addresses(offsets: bytes, start: int, base: int | None) -> U64:
    """Decode addresses of a table at ``start``: before 7.0 offsets from ``base``, then from each entry's own place."""
    distances = np.frombuffer(offsets, "<u4")
    if base is not None:
        relative: U64 = distances.astype(np.uint64) + np.uint64(base)
        return relative
    places = np.uint64(start) + np.arange(len(distances), dtype=np.uint64) * np.uint64(4)
    absolute: U64 = places + distances.view(np.int32).astype(np.int64).view(np.uint64)
    return absolute


def unpack_names(packed: bytes, count: int, token_index: bytes, token_table: bytes) -> Iterator[bytes]:
    """Yield type and name of every symbol, in table order.

    Raises:
        ValueError, IndexError: the tables are damaged, or of another form.

    """
    starts = np.frombuffer(token_index, "<u2").tolist()
    tokens = [token_table[start : token_table.index(b"\0", start)] for start in starts]
    at = 0
    for _ in range(count):
        size, at = packed[at], at + 1
        if size & 0x80:  # ULEB128 of two bytes, since 6.1
            size, at = size & 0x7F | packed[at] << 7, at + 1
        if at + size > len(packed):
            raise ValueError("names are cut off")
        yield b"".join([tokens[byte] for byte in packed[at : at + size]])
        at += size


class Kallsyms:
    """The symbols in the order of the table.

    Raises:
        InputError: the kernel has no such table, or one of another form.

    """

    def __init__(self, binary: Binary) -> None:
        self._binary = binary
        count = self._read(self._symbol("kallsyms_num_syms"), 4)
        self._count = int.from_bytes(count, "little")
        start, base = self._symbol("kallsyms_offsets"), binary.symbols.find("kallsyms_relative_base")
        value = None if base is None else int(binary.absolute64(np.array([base.vaddr], np.uint64))[0])
        self.addresses = symbol_addresses(self._read(start, 4 * self._count), start, value)
        if not self._count or (self.addresses[1:] < self.addresses[:-1]).any():
            raise InputError("its kallsyms are of an unknown form: not sorted by address", path=binary.path)

    def _symbol(self, name: str) -> int:
        symbol = self._binary.symbols.find(name)
        if symbol is None:
            raise InputError(f"{name} is missing: this needs a kernel with CONFIG_KALLSYMS", path=self._binary.path)
        return symbol.vaddr

    def _read(self, vaddr: int, size: int) -> bytes:
        data = self._binary.image.read_at(vaddr, size)
        if data is None:
            raise InputError(f"kallsyms at {vaddr:#x} lie outside of the file: damaged", path=self._binary.path)
        return data

    @cached_property
    def starts(self) -> U64:
        """The addresses, each once."""
        return sorted_unique(self.addresses)

    def spans(self, vaddrs: U64) -> tuple[U64, U64]:
        """Return the start of the symbol that each address belongs to, and of the next; shape of ``vaddrs``.

        The last symbol ends where it starts, an address below the first one belongs to the first: neither is text.
        """
        index = np.maximum(np.searchsorted(self.starts, vaddrs, side="right") - 1, 0)
        return self.starts[index], self.starts[np.minimum(index + 1, len(self.starts) - 1)]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every symbol's name, in table order."""
        index = self._read(self._symbol("kallsyms_token_index"), 2 * TOKENS)
        tables = index, self._rest("kallsyms_token_table")
        try:
            names = unpack_names(self._rest("kallsyms_names"), self._count, *tables)
            return tuple(name[1:].decode("ascii") for name in names)
        except (IndexError, ValueError) as error:
            raise InputError("its kallsyms names are of an unknown form", path=self._binary.path) from error

    def _rest(self, name: str) -> bytes:
        """Read all bytes from a symbol on: the length of these tables is written nowhere."""
        start = self._symbol(name)
        section = self._binary.image.section_at(start)
        return self._read(start, section.addr + section.size - start if section is not None else 1)

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """Addresses of each name, ascending; the kernel's look-up by name takes the first."""
        result: dict[str, list[int]] = {}
        for name, vaddr in zip(self.names, self.addresses.tolist(), strict=True):
            result.setdefault(name, []).append(vaddr)
        return result

    @cached_property
    def first_rows(self) -> I64:
        """For each of ``starts``, the row of the first symbol there, whose name the kernel prints."""
        rows: I64 = np.searchsorted(self.addresses, self.starts)
        return rows
