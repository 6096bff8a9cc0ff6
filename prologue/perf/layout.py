"""The layout of perf.data: numbers and structures that reading and writing share.

Sources (6.12): ``tools/perf/Documentation/perf.data-file-format.txt``, ``include/uapi/linux/perf_event.h``, and for the
records of perf itself ``tools/lib/perf/include/perf/event.h``. All is little-endian here, as arm64 and x86 write it.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct
from typing import Final

MAGIC: Final = b"PERFILE2"
OTHER_ENDIAN: Final = MAGIC[::-1]
VERSION_1: Final = b"PERFFILE"

FILE_HEADER: Final = Struct("<8sQQQQQQQQ4Q")
"""Magic, its own size, size of an attribute; offset and size of attributes, data, event types; bits of features."""
PIPE_HEADER_SIZE: Final = 16  # magic and size: the rest comes as records
SECTION: Final = Struct("<QQ")  # offset and size
RECORD: Final = Struct("<IHH")  # type, misc, size with this header
AUX: Final = Struct("<QQQ")  # offset in the AUX buffer's stream, size, flags
AUXTRACE: Final = Struct("<QQQIii")  # size of the data that follow, offset, reference, index of the buffer, tid, cpu
TEXT_POKE: Final = Struct("<QHH")  # address, length of the old bytes and of the new ones; then these bytes
ATTRIBUTE: Final = Struct(
    "<IIQQQQQ"
)  # struct perf_event_attr: type, size, config, period, sample type, read format, flags
SMALLEST_ATTRIBUTE: Final = 64  # PERF_ATTR_SIZE_VER0


class OtherDataError(ValueError):
    """A file that is not damaged, and has data of another kind than is read."""


class RecordKind(IntEnum):
    """Types of records."""

    MMAP = 1
    LOST = 2
    COMM = 3
    FORK = 7
    MMAP2 = 10
    AUX = 11
    ITRACE_START = 12
    TEXT_POKE = 20
    AUX_OUTPUT_HW_ID = 21
    ATTRIBUTE = 64
    TRACING_DATA = 66
    BUILD_ID = 67
    AUXTRACE_INFO = 70
    AUXTRACE = 71
    TIME_CONV = 79
    FEATURE = 80
    COMPRESSED = 81
    COMPRESSED2 = 83


class AuxFlag(IntFlag):
    """Flags of AUX records (``include/uapi/linux/perf_event.h``, 7.2)."""

    TRUNCATED = 1
    OVERWRITE = 2
    PARTIAL = 4
    COLLISION = 8
    RAW = 0x100  # of CoreSight: one trace source, without frames


class Feature(IntEnum):
    """Sections after the data, in this order; each is there if its bit is set."""

    BUILD_ID = 2
    RELEASE = 4
    MACHINE = 6
    CPUS = 7
    EVENTS = 12
    AUXTRACE = 18


class Sample(IntFlag):
    """Bits of ``sample_type``; all except IP add a field to the end of each record (``struct sample_id``)."""

    IP = 1 << 0
    TID = 1 << 1
    TIME = 1 << 2
    ID = 1 << 6
    CPU = 1 << 7
    STREAM_ID = 1 << 9
    IDENTIFIER = 1 << 16


SAMPLE_ID_ALL: Final = 1 << 18  # of an attribute's flags: every record ends with a sample_id
EXCLUDE_USER: Final = 1 << 4
WANTS_TEXT_POKE: Final = 1 << 33
SOFTWARE, DUMMY = 1, 9  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY

# Bits of a record's misc.
CPU_MODE: Final = 7
HOST_KERNEL, HOST_USER = 1, 2
COMM_EXEC: Final = 1 << 13  # of COMM: the name of a program that was executed
FORK_EXEC: Final = 1 << 13  # of FORK: perf made it of a task that was there: what the parent has says nothing of it
MMAP_DATA: Final = 1 << 13  # of MMAP: not executable
MMAP_BUILD_ID: Final = 1 << 14  # of MMAP2: it has a build-id in place of device and inode
PROT_READ, PROT_EXEC = 1, 4
MMAP2: Final = Struct("<iiQQQ24sII")  # pid, tid, start, size, offset; device, inode or build-id; protection, flags
KERNEL_NAME: Final = "[kernel.kallsyms]"  # the kernel among build-ids, and with a symbol's name after it among maps
