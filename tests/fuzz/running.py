"""Inputs that say something of a running kernel: its memory, recorded writes to its text, instruction traces."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final
from zlib import compress, crc32, decompress

from prologue.live.memory.capture import NOTE, write_capture
from prologue.live.memory.state import KernelState
from prologue.live.pokes.perf_data import write_perf_data
from prologue.trace.readers.recording import RecordingHeader
from tests.fuzz.edits import Edit, Target, edit_elf, edit_json, edit_numbers, edit_text
from tests.live.pokes.made import ORIGIN, recording_of, write_recording
from tests.perf.made import ARM64
from tests.support.cores import RAM, SLIDE, core, image_of, machine, running, vmcoreinfo
from tests.support.cs_etm import write
from tests.support.cs_recording import trace
from tests.support.kdump import kdump
from tests.trace.made import BASE, KERNEL, MadeKernel, perf_text, recording

RECORDED: Final = Path(__file__).parents[1] / "live" / "pokes" / "debian-6.12.txt"
_KDUMP_BLOCK: Final = 4096


def running_inputs(directory: Path) -> tuple[Target, ...]:
    """Every kind; ``vmlinux`` stands in the directory already, a traced kernel is added as ``traced``."""
    vmlinux = directory / "vmlinux"
    KERNEL.write(directory / "traced")
    memory = ("live overlay vmlinux x --at link -o out", "live audit vmlinux x", "live audit vmlinux x x")
    writes = ("writes judge x", "writes perf x -o out", "trace check trace --vmlinux traced --writes x")
    traces = (
        "trace check x --vmlinux traced",
        "trace disasm x --vmlinux traced -o out",
        "trace disasm x --vmlinux traced --format jsonl -o out",
        "trace stats x --vmlinux traced",
        "trace export x --vmlinux traced --format folded -o out",
    )
    rows = _recording(KERNEL)
    (directory / "trace").write_bytes(rows)
    return (
        Target(healthy=running(vmlinux, {}), change=edit_elf, commands=memory),
        Target(healthy=machine(vmlinux, {}), change=edit_numbers, commands=memory),
        Target(healthy=_kdump(vmlinux), change=edit_numbers, commands=memory),
        Target(healthy=_state(vmlinux, directory), change=_capture_of(vmlinux), commands=memory),
        Target(healthy=_writes(directory), change=_edit_writes, commands=writes),
        Target(healthy=_perf_data(directory), change=edit_numbers, commands=writes),
        Target(healthy=RECORDED.read_bytes(), change=edit_text, commands=writes[:2]),
        Target(healthy=_branches().encode(), change=edit_text, commands=traces),
        Target(healthy=_core_sight(directory), change=edit_numbers, commands=traces),
        Target(healthy=rows, change=edit_numbers, commands=(*traces, "trace etm x --vmlinux traced -o out")),
    )


def _kdump(vmlinux: Path) -> bytes:
    whole = machine(vmlinux, {})  # its one segment is its end
    memory = whole[-(len(whole) // _KDUMP_BLOCK * _KDUMP_BLOCK) :]
    note = memory[memory.rfind(b"OSRELEASE=") :].partition(b"\0")[0]
    return kdump(RAM, memory, _KDUMP_BLOCK, note=note)


def _state(vmlinux: Path, directory: Path) -> bytes:
    """The note of a capture, as JSON: the part that only prologue writes."""
    out = directory / "capture"
    kprobes = ("ffff800008002b70  k  work_leaf+0x0    ",)
    write_capture(
        out,
        "a board",
        KernelState(release="6.1.0-mini", boot_id="one", modules=(), symbols=(), kprobes=kprobes),
        vmcoreinfo()[2],
        (),
    )
    data = out.read_bytes()
    out.unlink()
    at = data.index(b"{", data.index(NOTE.encode()))
    return json.dumps(json.JSONDecoder().raw_decode(data[at:].decode())[0]).encode()


def _capture_of(vmlinux: Path) -> Callable[[bytes, list[Edit]], bytes]:
    """Damage a capture: its note, and the core around it."""
    start, image = image_of(vmlinux)
    text = [(start + SLIDE, 0, bytes(image))]

    def change(healthy: bytes, script: list[Edit]) -> bytes:
        inside = [edit for edit in script if not edit.action & 128]
        note = edit_json(healthy, inside)
        return edit_elf(core(text, [vmcoreinfo(), (NOTE, 1, note)]), [edit for edit in script if edit.action & 128])

    return change


def _writes(directory: Path) -> bytes:
    rows = ({"time": k, "address": BASE + 4 * (k % 8), "old": 0xD503201F, "new": 0x94000001 + k} for k in range(40))
    path = write_recording(directory / "writes", replace(recording_of(*rows), header=replace(ORIGIN, clock="ns")))
    data = path.read_bytes()
    path.unlink()
    return data


_BLOCK: Final = struct.Struct("<IIQ")  # kind, CRC-32, size
_MAGIC: Final = 8  # bytes


def _edit_writes(healthy: bytes, script: list[Edit]) -> bytes:
    """Damage a recording of writes inside its blocks, with checksums that fit, and outside of them."""
    data, at = bytearray(healthy[:_MAGIC]), _MAGIC
    number = 0
    while at < len(healthy):
        kind, _, size = _BLOCK.unpack_from(healthy, at)
        payload = healthy[at + _BLOCK.size : at + _BLOCK.size + size]
        some = [edit for edit in script if not edit.action & 128 and edit.action // 8 % 3 == number]
        if some:
            payload = edit_json(payload, some) if number != 1 else compress(edit_numbers(decompress(payload), some))
        data += _BLOCK.pack(kind, crc32(payload), len(payload)) + payload
        at += _BLOCK.size + size
        number += 1
    return edit_numbers(bytes(data), [edit for edit in script if edit.action & 128])


def _perf_data(directory: Path) -> bytes:
    path = directory / "perf.data"
    write_perf_data(path, ARM64)
    data = path.read_bytes()
    path.unlink()
    return data


_ROUND: Final = (
    ("vfs_read+12", "vfs_read+28"), ("vfs_read+28", 0), (0, "vfs_read"), ("vfs_read+16", "read_zero"),
    ("read_zero+24", "vfs_read+20"), ("vfs_read+24", "vfs_read+32"), ("vfs_read+36", 0),
)  # fmt: skip


def _branches() -> str:
    return perf_text(_ROUND * 3)


def _core_sight(directory: Path) -> bytes:
    path = write(directory / "perf.data", trace(3, comms={77: "cat"}))
    data = path.read_bytes()
    path.unlink()
    return data


def _recording(kernel: MadeKernel) -> bytes:
    read, zero = kernel.at("vfs_read"), kernel.at("read_zero")
    steps = ((read, 5), (zero, 5), (zero + 24, 1), (read + 20, 2), (read + 32, 2))
    return recording(
        (
            {"time": k, "start": start, "count": count, "cpu": k & 1, "level": 1}
            for k, (start, count) in enumerate(steps * 4)
        ),
        RecordingHeader(slide=0),
    )
