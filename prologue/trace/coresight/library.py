"""OpenCSD's library (``libopencsd_c_api``) through ctypes: the part of its C interface that a decoder needs.

Source: ``opencsd_c_api.h``, ``ocsd_if_types.h``, versions 1.3.3 and 1.5.5.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import (
    CDLL,
    POINTER,
    PYFUNCTYPE,
    PyDLL,
    Structure,
    c_char_p,
    c_int,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Final

import numpy as np

from prologue.errors import InputError
from prologue.perf.coresight import TraceProtocol, TraceUnit

LibraryVersion = tuple[int, int, int]
NAME: Final = "libopencsd_c_api.so.1"
PACKAGE: Final = "libopencsd1"  # of Debian, from 12 on
_OLDEST, _FIRST_UNKNOWN = (1, 3, 0), (2, 0, 0)

# ocsd_datapath_op_t, ocsd_datapath_resp_t, ocsd_dcd_tree_src_t, deformatter flags
DATA, END, FLUSH, RESET = range(4)
FIRST_WAIT, FIRST_FATAL = 3, 6
FRAMED, SINGLE = 0, 1
FRAME_SYNC, ALIGNED = 1, 4
_NOWHERE: Final = 0xFFFF_FFFF_FFFF_FFF0  # an address where nothing is executed
_ANY_SPACE: Final = 0xFF  # of ocsd_mem_space_acc_t, with Realm and Root
_ANY_SPACE_1_3: Final = 0x1F
_FULL_DECODER: Final = 2
_CHECKS: Final = 0x400 | 0x1000 | 0x20000
"""N_UNCOND_DIR_BR_CHK, CHK_RANGE_CONTINUE, AA64_OPCODE_CHK; perf turns them on, too."""
_CHECKS_SINCE: Final = (1, 5, 4)
_INFO: Final = 3  # OCSD_ERR_SEV_INFO
_CORTEX_A: Final = 3
V8, V8_3, AA64 = 0x800, 0x803, 0x864
_MINOR: Final = 4  # bit of TRCIDR1.TRCARCHMIN; from 4 on, the core is Armv8.3 or later at least

LAST_USER: Final = (1 << 52) - 1
"""The last address that user space can have (ARMv8.2-LVA)."""
OnMemory = PYFUNCTYPE(c_uint32, c_void_p, c_uint64, c_int, c_uint8, c_uint32, c_void_p)
OnElement = PYFUNCTYPE(c_int, c_void_p, c_uint64, c_uint8, c_void_p)
OnText = PYFUNCTYPE(None, c_void_p, c_char_p, c_int)


class _Etm4Config(Structure):
    _fields_ = tuple(
        (name, c_uint32)
        for name in (
            "idr0", "idr1", "idr2", "idr8", "idr9", "idr10", "idr11", "idr12", "idr13", "configr", "traceidr",
            "architecture", "profile",
        )
    )  # fmt: skip


class _EteConfig(Structure):
    _fields_ = tuple(
        (name, c_uint32)
        for name in ("idr0", "idr1", "idr2", "idr8", "devarch", "configr", "traceidr", "architecture", "profile")
    )


class _DecodeStats(Structure):  # ocsd_decode_stats_t, 1.3.3 to 1.5.5
    _fields_ = (
        ("version", c_uint32),
        ("revision", c_uint16),
        ("total", c_uint64),
        ("unsynced", c_uint64),
        ("bad_headers", c_uint32),
        ("bad_sequences", c_uint32),
        ("demux", c_uint64 * 5),
    )


def require_library() -> LibraryVersion:
    """Return the version of the library that is installed.

    Raises:
        InputError: there is none, or one whose interface is not known.

    """
    try:
        library = CDLL(NAME)
        library.ocsd_get_version.restype = c_uint32
    except (OSError, AttributeError) as error:
        raise InputError(
            f"is not here, and it decodes CoreSight: install OpenCSD's library (Debian: apt install {PACKAGE})",
            path=NAME,
        ) from error
    number = library.ocsd_get_version()
    version = (number >> 16, number >> 8 & 0xFF, number & 0xFF)
    if not _OLDEST <= version < _FIRST_UNKNOWN:
        known = ".".join(map(str, _OLDEST[:2]))
        installed = ".".join(map(str, version))
        raise InputError(f"is of version {installed}: known are {known} and later 1.x", path=NAME)
    return version


def load_library() -> Any:
    """Load the library so that its callbacks need not take Python's lock: a process has one thread for it."""
    library = PyDLL(NAME)
    for name, result, arguments in (
        ("ocsd_create_dcd_tree", c_void_p, (c_int, c_uint32)),
        ("ocsd_destroy_dcd_tree", None, (c_void_p,)),
        ("ocsd_dt_process_data", c_int, (c_void_p, c_int, c_uint64, c_uint32, c_void_p, c_void_p)),
        ("ocsd_dt_set_gen_elem_outfn", c_int, (c_void_p, OnElement, c_void_p)),
        ("ocsd_dt_create_decoder", c_int, (c_void_p, c_char_p, c_int, c_void_p, c_void_p)),
        ("ocsd_dt_add_buffer_mem_acc", c_int, (c_void_p, c_uint64, c_int, c_void_p, c_uint32)),
        ("ocsd_dt_add_callback_trcid_mem_acc", c_int, (c_void_p, c_uint64, c_uint64, c_int, OnMemory, c_void_p)),
        ("ocsd_dt_remove_mem_acc", c_int, (c_void_p, c_uint64, c_int)),
        ("ocsd_dt_get_decode_stats", c_int, (c_void_p, c_uint8, c_void_p)),
        ("ocsd_dt_reset_decode_stats", c_int, (c_void_p, c_uint8)),
        ("ocsd_def_errlog_init", c_int, (c_int, c_int)),
        ("ocsd_def_errlog_config_output", c_int, (c_int, c_char_p)),
        ("ocsd_def_errlog_set_strprint_cb", c_int, (c_void_p, c_void_p, OnText)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.ocsd_def_errlog_init(_INFO, 1)
    library.ocsd_def_errlog_config_output(0, None)
    return library


class DecodeTree:
    """Decoders of one stream of bytes."""

    def __init__(
        self, library: Any, version: LibraryVersion, *, framed: bool, flags: int, callbacks: tuple[Any, Any]
    ) -> None:
        """Create a tree without decoders; ``callbacks`` are for elements and for messages.

        Raises:
            OSError: the library refuses.

        """
        self._c, self._version = library, version
        self._callbacks = callbacks  # kept as long as the tree calls them
        self._memory: list[Any] = []
        self._sources: list[int] = []
        self._used = c_uint32()
        self._handle = self._c.ocsd_create_dcd_tree(FRAMED if framed else SINGLE, flags)
        if not self._handle:
            raise OSError("the library makes no decoder tree")
        done = self._c.ocsd_def_errlog_set_strprint_cb(self._handle, None, callbacks[1])
        _require(done, "takes no callback for messages")

    def close(self) -> None:
        """Release the tree and its decoders."""
        self._c.ocsd_destroy_dcd_tree(self._handle)

    def add_decoder(self, unit: TraceUnit, architecture: int | None, *, checks: bool) -> None:
        """Decode packets of that trace unit. ``architecture`` is the core's, if more is known than the unit says.

        Raises:
            OSError: the library refuses.

        """
        config: Structure
        if unit.protocol is TraceProtocol.ETE:
            config = _EteConfig(
                unit.idr0, unit.idr1, unit.idr2, unit.idr8, unit.devarch, unit.configr, unit.traceidr,
                AA64 if architecture is None else architecture, _CORTEX_A,
            )  # fmt: skip
        else:
            later = unit.idr1 >> _MINOR & 0xF >= 4
            config = _Etm4Config(
                unit.idr0, unit.idr1, unit.idr2, unit.idr8, 0, 0, 0, 0, 0, unit.configr, unit.traceidr,
                (AA64 if later else V8) if architecture is None else architecture, _CORTEX_A,
            )  # fmt: skip
        flags = _FULL_DECODER | (_CHECKS if checks and self._version >= _CHECKS_SINCE else 0)
        name, number = unit.protocol.value.encode(), c_uint8()
        done = self._c.ocsd_dt_create_decoder(self._handle, name, flags, ctypes.byref(config), ctypes.byref(number))
        _require(done, f"makes no decoder for the trace unit of CPU {unit.cpu}")
        self._sources.append(number.value)
        # The library gives the callback to the decoders that the tree has by now.
        done = self._c.ocsd_dt_set_gen_elem_outfn(self._handle, self._callbacks[0], None)
        _require(done, "takes no callback for elements")

    def counts(self) -> Iterator[tuple[int, int, int]]:
        """Yield each trace ID, the bytes that its decoder got since ``reset_counts``, and those before an A-Sync.

        The last row is of ID 0: the bytes of IDs without a decoder.
        """
        stats = POINTER(_DecodeStats)()
        for source in self._sources:
            done = self._c.ocsd_dt_get_decode_stats(self._handle, source, ctypes.byref(stats))
            _require(done, "does not count the bytes of trace")
            yield source, stats.contents.total, stats.contents.unsynced
        yield 0, stats.contents.demux[1] if self._sources else 0, 0

    def reset_counts(self) -> None:
        """Count the bytes of trace from here on."""
        for source in self._sources:
            self._c.ocsd_dt_reset_decode_stats(self._handle, source)

    def add_memory(self, vaddr: int, data: Any, space: int | None) -> None:
        """Let decoders read ``data``, a writable or read-only buffer, at an address.

        Raises:
            OSError: the library refuses, as it does if another buffer is there.

        """
        array = np.frombuffer(data, np.uint8)
        self._memory.append(array)
        if space is None:
            space = self._any_space
        done = self._c.ocsd_dt_add_buffer_mem_acc(self._handle, vaddr, space, array.ctypes.data, array.size)
        _require(done, f"takes no memory at {vaddr:#x}")

    def add_callback_memory(self, first: int, last: int, space: int, on_memory: Any) -> None:
        """Let decoders ask for the memory from an address to another one (inclusive) when they need it.

        Raises:
            OSError: the library refuses.

        """
        done = self._c.ocsd_dt_add_callback_trcid_mem_acc(self._handle, first, last, space, on_memory, None)
        _require(done, "takes no callback for memory")

    def read_directly(self) -> None:
        """Let decoders read memory where it is, if this version can be told so (1.5.5 can): buffers need no copies.

        The library copies 2 KB at once, which a trace that goes everywhere has done for each of its ranges.
        """
        switch = getattr(self._c, "ocsd_dt_set_mem_acc_cacheing", None)
        if switch is not None:
            _require(switch(c_void_p(self._handle), 0, c_uint16(0), 0), "keeps copies of memory")

    def text_changed(self) -> None:
        """Let decoders read memory again: the library keeps copies, which it drops if it has to remove memory.

        ``TrcMemAccMapper::RemoveAccessorByAddress`` (trc_mem_acc_mapper.cpp, 1.3.3 and 1.5.5).
        """
        nothing = np.zeros(4, np.uint8)
        self._c.ocsd_dt_add_buffer_mem_acc(self._handle, _NOWHERE, self._any_space, nothing.ctypes.data, 4)
        done = self._c.ocsd_dt_remove_mem_acc(self._handle, _NOWHERE, self._any_space)
        _require(done, "keeps memory that it was to forget")

    @property
    def _any_space(self) -> int:
        return _ANY_SPACE_1_3 if self._version < (1, 4, 0) else _ANY_SPACE

    def process(self, operation: int, index: int = 0, address: int = 0, size: int = 0) -> tuple[int, int]:
        """Pass on an operation, or ``size`` bytes of trace at ``address``; return the response and the bytes used."""
        response = self._c.ocsd_dt_process_data(
            self._handle, operation, index, size, address or None, ctypes.byref(self._used)
        )
        return response, self._used.value


def _require(error: int, refusal: str) -> None:
    if error:
        raise OSError(f"the library {refusal} (error {error})")
