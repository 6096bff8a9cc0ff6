"""The kernel's own symbol table: which symbol an address belongs to, in the kernel's opinion.

The tables and their encoding are those of scripts/kallsyms.c and kernel/kallsyms.c (6.1-7.2): sorted addresses as
32-bit offsets, and names made of tokens, each after its length of one or two bytes; a name's first character is its
type.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from prologue.arrays import I64, U64, sorted_unique
from prologue.errors import InputError
from prologue.kernel.binary import Binary


class Kallsyms:
    """The symbols in the order of the table.

    Raises:
        InputError: the kernel has no such table, or one of another form.

    """

    def __init__(self, binary: Binary) -> None:
        self._binary = binary
        count = self._read(self._symbol("kallsyms_num_syms"), 4)
        self._count = int.from_bytes(count, "little")
        self.addresses = self._addresses()
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

    def _addresses(self) -> U64:
        """Decode addresses: 6.1 and 6.12 have offsets from kallsyms_relative_base, 7.2 signed ones from each place."""
        start = self._symbol("kallsyms_offsets")
        offsets = np.frombuffer(self._read(start, 4 * self._count), "<u4")
        base = self._binary.symbols.find("kallsyms_relative_base")
        if base is not None:
            start_of_text = int(self._binary.absolute64(np.array([base.vaddr], np.uint64))[0])
            relative: U64 = offsets.astype(np.uint64) + np.uint64(start_of_text)
            return relative
        places = np.uint64(start) + np.arange(self._count, dtype=np.uint64) * np.uint64(4)
        absolute: U64 = places + offsets.view(np.int32).astype(np.int64).view(np.uint64)
        return absolute

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
        packed = self._rest("kallsyms_names")
        result, at = [], 0
        try:
            tokens = self._tokens()
            for _ in range(self._count):
                length, at = packed[at], at + 1
                if length & 0x80:  # ULEB128 of two bytes, since 6.1
                    length, at = (length & 0x7F) | packed[at] << 7, at + 1
                result.append(b"".join([tokens[byte] for byte in packed[at : at + length]])[1:].decode("ascii"))
                at += length
        except (IndexError, ValueError) as error:
            raise InputError("its kallsyms names are of an unknown form", path=self._binary.path) from error
        return tuple(result)

    def _tokens(self) -> list[bytes]:
        index = np.frombuffer(self._read(self._symbol("kallsyms_token_index"), 512), "<u2").tolist()
        table = self._rest("kallsyms_token_table")
        return [table[at : table.index(b"\0", at)] for at in index]

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
