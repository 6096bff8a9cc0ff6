"""The unwind tables by which dynamic SCS finds PACIASP and AUTIASP, to put pushes and pops of its stack there.

The kernel reads ``.eh_frame`` at boot, and a module's ``.init.eh_frame`` when it loads it
(arch/arm64/kernel/pi/patch-scs.c and module.c, 6.12 and 7.2). Both sections exist only with CONFIG_UNWIND_TABLES.
Format: Linux Standard Base 4.0, "Exception Frames", and DWARF 4, "Call Frame Information".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, sorted_unique
from prologue.elf.sections import Section
from prologue.kernel.binary import Binary

_SDATA4, _SDATA8 = 0x1B, 0x1C  # DW_EH_PE_pcrel with the size of the two fields
_TOGGLE: Final = 0x2D  # DW_CFA_AARCH64_negate_ra_state
# Operands of each opcode below 0x40 that the kernel knows: bytes, and numbers in LEB128. 0x80-0xbf have one number.
_BYTES: Final = {0x02: 1, 0x03: 2, 0x04: 4}  # DW_CFA_advance_loc1, 2 and 4
_NUMBERS: Final = {0x05: 2, 0x06: 1, 0x08: 1, 0x0C: 2, 0x0D: 1, 0x0E: 1, 0x13: 1}
_NOTHING: Final = (0x00, 0x0A, 0x0B, _TOGGLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frames:
    """Frame description entries; arrays of shape (n,)."""

    location: I64  # offset in the section of the field that says where the function is
    wide: npt.NDArray[np.bool_]  # that field has 8 bytes
    alignment: I64  # bytes of one step
    code: I64  # offset of the first opcode
    end: I64  # offset after the last one


def pac_words(binary: Binary) -> U64:
    """Return the addresses of instructions that sign or authenticate LR, by the unwind tables; ascending, each once.

    Like the kernel, it takes the instruction before each place where the state of LR changes. Entries with opcodes that
    the kernel does not know end there.
    """
    section = binary.image.section(".init.eh_frame")  # of modules, in which the kernel looks at no other one
    if section is None and not binary.relocatable:
        section = binary.image.section(".eh_frame")
    if section is None or not section.has_bytes:
        return np.zeros(0, np.uint64)
    data: npt.NDArray[np.uint8] = binary.text.view(section, np.uint8)
    frames = _frames(bytes(data))
    fields = np.uint64(section.addr) + frames.location.astype(np.uint64)
    starts = _starts(binary, section, frames, fields)
    return sorted_unique(_toggles(data, frames, starts) - np.uint64(4))


def _starts(binary: Binary, section: Section, frames: _Frames, fields: U64) -> U64:
    """Return the addresses of the functions: distances from the fields that hold them."""
    if binary.relocatable:
        return binary.relative32(fields)  # whatever its size, a relocation fills it
    starts = binary.relative32(fields)
    wide = fields[frames.wide]
    offsets = np.int64(section.offset) + frames.location[frames.wide]
    starts[frames.wide] = wide + binary.image.words_at(offsets, 8)
    return starts


def _frames(data: bytes) -> _Frames:
    """Read the section's entries, up to the first that makes no sense, as the kernel does."""
    frames: list[tuple[int, bool, int, int, int]] = []
    at, wide, alignment = 0, False, 0
    while at + 8 <= len(data):
        size, about = struct.unpack_from("<II", data, at)
        end = at + 4 + size
        if size < 4 or end > len(data):
            break
        if about == 0:
            # Version, the string "zR", then one byte each: alignment of code and of data, register, length, form.
            if (
                size < 13
                or data[at + 9 : at + 12] != b"zR\0"
                or data[at + 15] != 1
                or data[at + 16] not in (_SDATA4, _SDATA8)
            ):
                break
            alignment, wide = data[at + 12], data[at + 16] == _SDATA8
        else:
            code = at + (24 if wide else 16)  # then the length of augmentation data, and these
            if code < end:
                frames.append((at + 8, wide, alignment, code + 1 + data[code], end))
        at = end
    columns = np.array(frames, np.int64).reshape(-1, 5).T
    return _Frames(
        location=columns[0], wide=columns[1].astype(np.bool_), alignment=columns[2], code=columns[3], end=columns[4]
    )


def _toggles(data: npt.NDArray[np.uint8], frames: _Frames, starts: U64) -> U64:
    """Find the addresses at which the state of LR changes; every entry goes one opcode further in each step."""
    place, at, end, alignment = starts.copy(), frames.code.copy(), frames.end, frames.alignment.astype(np.uint64)
    padded = np.concatenate([data, np.zeros(16, np.uint8)])
    numbers, known = np.zeros(256, np.int64), np.zeros(256, np.bool_)
    numbers[list(_NUMBERS)] = list(_NUMBERS.values())
    numbers[0x80:0xC0] = 1
    known[[*_NUMBERS, *_BYTES, *_NOTHING]] = True
    known[0x40:] = True
    toggles = [np.zeros(0, np.uint64)]
    running = np.flatnonzero((starts != 0) & (at < end))
    while len(running):
        opcode = padded[at[running]]
        at[running] += 1
        near = opcode >> 6 == 1
        place[running[near]] += (opcode[near] & 0x3F).astype(np.uint64) * alignment[running[near]]
        for code, size in _BYTES.items():
            far = running[opcode == code]
            distance = sum(padded[at[far] + k].astype(np.uint64) << np.uint64(8 * k) for k in range(size))
            place[far] += distance * alignment[far]
            at[far] += size
        for count in (1, 2):
            _skip_number(padded, at, running[numbers[opcode] >= count], end)
        toggles.append(place[running[opcode == _TOGGLE]])
        running = running[known[opcode] & (at[running] < end[running])]
    return np.concatenate(toggles)


def _skip_number(data: npt.NDArray[np.uint8], at: I64, rows: I64, end: I64) -> None:
    """Go past one LEB128 number: its bytes but the last have bit 7 set."""
    while len(rows):
        more = data[at[rows]] >= 0x80
        at[rows] += 1
        rows = rows[more]
        rows = rows[at[rows] < end[rows]]
