"""Changes of kernel text as perf records them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPoke:
    """A ``PERF_RECORD_TEXT_POKE``: the bytes at ``address`` before and after.

    Either may be empty: a trampoline that appears has no old bytes, one that goes away no new ones
    (``include/uapi/linux/perf_event.h``, 6.12). ``time`` is in ns of perf's clock.
    """

    address: int
    old: bytes
    new: bytes
    time: int = 0
    cpu: int = -1  # -1: not known
    pid: int = -1
    tid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PokeRecording:
    """Text pokes in the order of time, and facts of the machine; empty strings are not known."""

    path: str
    pokes: tuple[TextPoke, ...] = field(repr=False)
    machine: str = ""  # as uname -m
    release: str = ""
    build_id: str = ""
    cpus: int = 0
    lost: int = 0  # records, of any kind, that perf says it lost
    guests: int = 0  # pokes of virtual machines' kernels, which are left out
