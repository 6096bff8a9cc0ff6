"""Kernels whose prologues, records or marker were damaged: ``verify`` refuses each of them, and each boots.

The kernel finds all but one before it writes the first BL: a record that was left out with its count shows nothing at
boot, and that function cannot be traced. Where the kernel's table holds addresses (6.1), its relocations write it, and
only the kinds that need no table are made.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from prologue.insn.a64 import NOP
from prologue.kernel.kernel import Kernel
from tests.kernels.files import Form

Writes = list[tuple[int, bytes]]  # vaddr, what is written there
_COUNT_AT: Final = 16  # the marker's ``sites``
_BAD: Final = struct.pack("<I", 0xD503245F)  # BTI C: nothing that a second slot may hold


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind; ``message`` is what the kernel says when something is traced, or at boot; empty if it sees nothing.

    ``second_slots`` is how many of them it overwrites itself: an audit reports these, too.
    """

    name: str
    make: Callable[[Kernel], Writes]
    message: str
    of_table: bool = False  # of offsets
    second_slots: int = 0


def _slots(kernel: Kernel) -> tuple[list[int], list[int]]:
    assert kernel.sites is not None
    return kernel.sites.first.tolist(), kernel.sites.second.tolist()


def _no_mov(kernel: Kernel) -> Writes:
    return [(first, struct.pack("<I", NOP)) for first in _slots(kernel)[0]]


def _one_mov(kernel: Kernel) -> Writes:
    first, _ = _slots(kernel)
    return [(sorted(first)[len(first) // 2], struct.pack("<I", NOP))]


def _second_slot(kernel: Kernel) -> Writes:
    _, second = _slots(kernel)
    return [(sorted(second)[len(second) // 2], _BAD)]


def _count(change: Callable[[Kernel, int], int]) -> Callable[[Kernel], Writes]:
    def make(kernel: Kernel) -> Writes:
        assert kernel.marker is not None
        sites = change(kernel, kernel.marker.sites)
        return [(kernel.marker.vaddr + _COUNT_AT, struct.pack("<Q", sites))]

    return make


def _more_than_slots(kernel: Kernel, _: int) -> int:
    assert kernel.bounds is not None
    return (kernel.bounds.stop - kernel.bounds.start) // 8 + 1


def _offsets(change: Callable[[list[int]], object]) -> Callable[[Kernel], Writes]:
    """Change the table of offsets in place."""

    def make(kernel: Kernel) -> Writes:
        assert kernel.bounds is not None
        assert kernel.marker is not None
        raw = kernel.image.read_at(kernel.bounds.start, 4 * kernel.marker.sites)
        assert raw is not None
        offsets = np.frombuffer(raw, "<u4").tolist()
        change(offsets)
        return [(kernel.bounds.start, np.array(offsets, "<u4").tobytes())]

    return make


def _swap(offsets: list[int]) -> None:
    middle = len(offsets) // 2
    offsets[middle : middle + 2] = offsets[middle + 1], offsets[middle]


def _repeat(offsets: list[int]) -> None:
    offsets[len(offsets) // 2] = offsets[len(offsets) // 2 - 1]


def _outside(offsets: list[int]) -> None:
    offsets[-1] = 0x7FFFFFF4


def _first_slot(offsets: list[int]) -> None:
    offsets[len(offsets) // 2] -= 4


def _nothing(offsets: list[int]) -> None:
    offsets[:] = [0] * len(offsets)


DAMAGES: Final = (
    Damage("no MOV", _no_mov, "no MOV X9, LR before"),
    Damage("one MOV missing", _one_mov, "no MOV X9, LR before"),
    Damage("no NOP", _second_slot, "no NOP at", second_slots=1),
    Damage("count too small", _count(lambda _, sites: sites - 1), ""),
    Damage("count too large", _count(_more_than_slots), "too many build-time prologues"),
    Damage("two records swapped", _offsets(_swap), "records are not in order", of_table=True),
    Damage("a record twice", _offsets(_repeat), "records are not in order", of_table=True),
    Damage("a record outside text", _offsets(_outside), "no text at", of_table=True),
    Damage("a record of a first slot", _offsets(_first_slot), "no MOV X9, LR before", of_table=True),
    Damage("table not written", _offsets(_nothing), "no text at", of_table=True),
)


def damages_of(form: Form) -> tuple[Damage, ...]:
    """The kinds that there are for this kernel."""
    marker = Kernel(form.vmlinux).marker
    assert marker is not None
    return tuple(damage for damage in DAMAGES if marker.offsets or not damage.of_table)


def damaged(form: Form, damage: Damage, directory: Path) -> Form:
    """Copy the processed vmlinux, and damage the copy."""
    directory.mkdir()
    kernel = Kernel(form.vmlinux)
    writes = damage.make(kernel)
    offsets = kernel.image.offsets(np.array([vaddr for vaddr, _ in writes], np.uint64)).tolist()
    vmlinux = Path(shutil.copy(form.vmlinux, directory))
    with vmlinux.open("r+b") as stream:
        for offset, (_, content) in zip(offsets, writes, strict=True):
            stream.seek(offset)
            stream.write(content)
    return replace(form, directory=directory, vmlinux=vmlinux, modules=())
