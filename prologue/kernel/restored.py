"""Symbols that were stripped from a vmlinux, taken from the table that the kernel carries for itself (kallsyms).

Every address in that table is the value of a symbol of the vmlinux that it was made from. Rules need functions: which
begin where a record says, which do not return, which are of EL2. So a vmlinux of which some were dropped (``strip -N``,
``objcopy -x``) is judged as it was linked, and the report says so.
"""

from __future__ import annotations

import numpy as np

from prologue.arrays import I64, among
from prologue.elf.restored import LostSymbols, RestoredSymbols
from prologue.errors import InputError
from prologue.kernel.kallsyms import Kallsyms
from prologue.kernel.kernel import Kernel


def restore_symbols(kernel: Kernel, *, by_name: bool = False) -> LostSymbols | None:
    """Give the kernel back the symbols that its file lacks; None if none are gone, or if its kallsyms are not readable.

    Comparing addresses is quick, and overlooks one of several names of an address. ``by_name`` compares all names.
    """
    try:
        kallsyms = Kallsyms(kernel)
        gone = np.flatnonzero(~among(kallsyms.addresses, kernel.symbols.named_values))
        if by_name:
            gone = _nameless(kernel, kallsyms)
        if not len(gone):
            return None
        names = kallsyms.names
        if not _reads_like_kernel(kernel, kallsyms):
            return None
    except InputError:  # built without, or of a form that is not known
        return None
    starts, stops = kallsyms.spans(kallsyms.addresses[gone])
    lacking = [names[k] for k in gone.tolist()]
    kernel.symbols = RestoredSymbols(kernel.image, lacking, starts, stops)
    return LostSymbols(len(lacking), lacking[0])


def _reads_like_kernel(kernel: Kernel, kallsyms: Kallsyms) -> bool:
    """Return whether addresses were read as the kernel does: without kallsyms_relative_base their form differs."""
    start = kernel.symbols.find("_stext")
    return start is not None and start.vaddr in kallsyms.by_name.get("_stext", ())


def _nameless(kernel: Kernel, kallsyms: Kallsyms) -> I64:
    """Return rows of kallsyms that no symbol of that address names; compilers' suffixes may have been cut off."""
    symbols = kernel.symbols
    have: dict[int, list[str]] = {}
    for row, vaddr in enumerate(symbols.values.tolist()):
        have.setdefault(vaddr, []).append(symbols.name_of(row))
    pairs = zip(kallsyms.names, kallsyms.addresses.tolist(), strict=True)
    return np.array(
        [
            k
            for k, (name, vaddr) in enumerate(pairs)
            if not any(known == name or known.startswith(f"{name}.") for known in have.get(vaddr, ()))
        ],
        np.int64,
    )
