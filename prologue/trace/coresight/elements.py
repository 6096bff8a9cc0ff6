"""The elements that OpenCSD makes of a trace (``ocsd_generic_trace_elem``): rows of ``ELEMENT``.

Source: ``trc_gen_elem_types.h``, ``ocsd_if_types.h``, versions 1.3.3 and 1.5.5. From 1.4.0 on an element is longer,
with all that is read here at the same place.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import U64

ELEMENT: Final = np.dtype(
    {
        "names": [
            "kind", "isa", "start", "end", "security", "level", "context", "vmid", "valid", "timestamp", "cycles",
            "last_kind", "last_subkind", "flags", "value",
        ],
        "formats": [
            "<u4", "<u4", "<u8", "<u8", "<u4", "<i4", "<u4", "<u4", "<u4", "<u8", "<u4",
            "<u4", "<u4", "<u4", "<u4",
        ],
        "offsets": [0, 4, 8, 16, 24, 28, 32, 36, 40, 48, 56, 60, 64, 68, 72],
        "itemsize": 80,
    }
)  # fmt: skip
"""``ocsd_generic_trace_elem`` without the pointer at its end. ``value`` is the union's, whose member ``kind`` says."""
TICKS: Final = slice(48, 56)  # of a timestamp, in bytes


class ElementKind(IntEnum):
    """``ocsd_gen_trc_elem_t``."""

    UNKNOWN = 0
    NO_SYNC = 1
    TRACE_ON = 2
    EO_TRACE = 3
    PE_CONTEXT = 4
    INSTR_RANGE = 5
    I_RANGE_NOPATH = 6
    ADDR_NACC = 7
    ADDR_UNKNOWN = 8
    EXCEPTION = 9
    EXCEPTION_RET = 10
    TIMESTAMP = 11
    CYCLE_COUNT = 12
    MEMTRANS = 16


EMPTIES_STACKS: Final = (ElementKind.NO_SYNC, ElementKind.TRACE_ON, ElementKind.EO_TRACE)
"""After these the return stacks of decoder and trace unit are empty."""
UNKNOWN_CODE: Final = (ElementKind.UNKNOWN, ElementKind.I_RANGE_NOPATH, ElementKind.ADDR_NACC, ElementKind.ADDR_UNKNOWN)

OVERFLOW: Final = 1  # trace_on_reason_t
CREATED, RESET, BAD_IMAGE = 1, 2, 6  # unsync_info_t; BAD_IMAGE from 1.5.4 on, before, 6 was another reason
ROLLED_BACK: Final = 3  # trace_memtrans_t
A32, T32, A64, THUMBEE = range(4)  # ocsd_isa
NONSECURE: Final = 1  # ocsd_sec_level
HAS_CONTEXT, HAS_VMID, HAS_LEVEL = 2, 4, 8  # bits of valid
BRANCH, INDIRECT = 1, 2  # ocsd_instr_type
LINK, ERET = 1, 3  # ocsd_instr_subtype
EXECUTED: Final = 1  # bit of flags


class Elements(NamedTuple):
    """Elements of the trace: rows of ``ELEMENT``, and of each the trace ID and, if asked for, the packet's offset."""

    rows: npt.NDArray[Any]
    ids: npt.NDArray[np.uint8]
    indexes: U64
