"""kdump-compressed dumps as makedumpfile writes them, and those that have to be written as ELF."""

from __future__ import annotations

import io
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from elftools.elf.elffile import ELFFile

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.live.memory.ranges import UnmappedError
from prologue.live.memory.sources import open_memory
from prologue_bench.host.child import die_with_parent
from tests.mini_kernel.build import Spec
from tests.support import cores, qmp
from tests.support.built import Mini
from tests.support.elf_edit import MOV, ElfEdit
from tests.support.kdump import kdump
from tests.support.needs import needs_common_tools
from tests.support.tool import Tool

START = 0x40200000  # in QEMU's machine, after the device tree; a multiple of 64 KiB


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    return mini(Spec(form="relr"))


@pytest.fixture
def memory(vmlinux: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Physical memory from ``START`` on of a machine that runs the kernel, with one MOV that is not in the file."""
    monkeypatch.setattr(cores, "RAM", START)
    content = cores.machine(vmlinux, {ElfEdit(vmlinux).value("work_leaf"): MOV})
    segments = cast("Any", ELFFile(io.BytesIO(content))).iter_segments()
    (segment,) = [s for s in segments if s["p_type"] == "PT_LOAD"]
    return bytes(segment.data())


def note_of(memory: bytes) -> bytes:
    return memory[memory.rfind(b"OSRELEASE=") :].partition(b"\0")[0]


def overlaid(vmlinux: Path, source: Path) -> bytes:
    out = vmlinux.with_name("out")
    assert main(["live", "overlay", str(vmlinux), str(source), "-o", str(out), "-q"]) == 0
    return out.read_bytes()


def expected(vmlinux: Path) -> bytes:
    elf = ElfEdit(vmlinux)
    elf.set_word(elf.value("work_leaf"), MOV)
    return bytes(elf.data)


@contextmanager
def stopped_machine(memory: bytes, directory: Path) -> Iterator[Path]:
    """QEMU with that memory, and no CPU that runs; its monitor."""
    raw, monitor = directory / "raw", directory / "qmp"
    raw.write_bytes(memory)
    command = [
        "qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a57", "-m", "16", "-S", "-nodefaults", "-display", "none",
        "-device", f"loader,file={raw},addr={START:#x},force-raw=on", "-qmp", f"unix:{monitor},server=on,wait=off",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)  # noqa: PLW1509 - one prctl
    try:
        end = time.monotonic() + 600
        while not monitor.exists():
            assert process.poll() is None and time.monotonic() < end, "QEMU does not start"  # noqa: PT018 - one reason
            time.sleep(0.05)
        yield monitor
    finally:
        process.kill()
        process.wait()


@pytest.mark.thorough
@pytest.mark.qemu
def test_dumps_of_qemu(vmlinux: Path, memory: bytes, tmp_path: Path) -> None:
    """``dump-guest-memory``, plain and with -z: that has blocks of 64 KiB in a flattened file."""
    needs_common_tools("qemu-system-aarch64")
    with stopped_machine(memory, tmp_path) as monitor:
        for kind in ("elf", "kdump-zlib"):
            qmp.execute(monitor, "dump-guest-memory", paging=False, protocol=f"file:{tmp_path / kind}", format=kind)
    assert overlaid(vmlinux, tmp_path / "elf") == expected(vmlinux)
    with pytest.raises(InputError, match="dump it as ELF"):
        open_memory(str(tmp_path / "kdump-zlib"))


@pytest.mark.parametrize("flags", [0, 1, 32])
def test_compressed_dumps(vmlinux: Path, memory: bytes, flags: int) -> None:
    source = vmlinux.with_name("dump")
    source.write_bytes(kdump(START, memory, 4096, note=note_of(memory), flags=flags))
    assert overlaid(vmlinux, source) == expected(vmlinux)
    kernel = open_memory(str(source))
    with pytest.raises(UnmappedError):
        kernel.read(kernel.info.anchors["_stext"] + (1 << 30), 4)


@pytest.mark.parametrize("block", [1 << 16, 4096], ids=["no pages", "no VMCOREINFO"])
def test_dumps_that_have_to_be_elf(memory: bytes, tmp_path: Path, block: int) -> None:
    source = tmp_path / "dump"
    source.write_bytes(kdump(START, memory, block, note=note_of(memory) if block != 4096 else b""))
    with pytest.raises(InputError, match=r"blocks of .* the kernel's pages: dump it as ELF"):
        open_memory(str(source))


@pytest.mark.thorough
@pytest.mark.parametrize("flags", [0, 1, 32])
def test_damaged_dumps(vmlinux: Path, memory: bytes, tmp_path: Path, flags: int) -> None:
    """Cut off, or with wrong bytes: one line and exit code 2, or an overlay where it does not matter; no SIGBUS."""
    whole = kdump(START, memory, 4096, note=note_of(memory), flags=flags)
    source, chance = tmp_path / "dump", random.Random(1)  # noqa: S311 - not a secret
    ends = []
    for k in range(60):
        damaged = bytearray(whole)
        if k % 3 == 0:
            del damaged[chance.randrange(1, len(damaged)) :]
        places = [
            chance.choice((chance.randrange(len(damaged)), chance.randrange(min(len(damaged), 600)))) for _ in range(k)
        ]
        for at in places:
            damaged[at] = chance.randrange(256)
        source.write_bytes(damaged)
        ends.append(main(["live", "overlay", str(vmlinux), str(source), "-o", str(tmp_path / "out"), "-q"]))
    assert set(ends) <= {0, 2}
    assert ends.count(2) > 20


def test_a_block_that_is_not_in_the_file(vmlinux: Path, memory: bytes, tmp_path: Path, tool: Tool) -> None:
    """Blocks of a page: libkdumpfile would read this one, and die of SIGBUS."""
    source = tmp_path / "dump"
    source.write_bytes(kdump(START, memory, 4096, note=note_of(memory), flags=0)[:-100])
    assert "1 of its" in (said := tool("live", "overlay", vmlinux, source, "-o", tmp_path / "out", status=2).err)
    assert "blocks are not in the file: truncated" in said


def test_a_dump_that_a_full_disk_ended(vmlinux: Path, memory: bytes, tmp_path: Path, tool: Tool) -> None:
    """makedumpfile says of blocks that it could not write that they are there, and not where: memory lacks them."""
    source, whole = tmp_path / "dump", bytearray(kdump(START, memory, 4096, note=note_of(memory), flags=1))
    text = ElfEdit(vmlinux).value("work_leaf") - cores.image_of(vmlinux)[0]
    bitmaps = int.from_bytes(whole[436:440], "little")
    at = (2 + bitmaps) * 4096 + 24 * (1 + text // 4096)  # the image begins after a page
    whole[at : at + 24] = bytes(24)
    source.write_bytes(whole)
    assert "has no memory for" in tool("live", "overlay", vmlinux, source, "-o", tmp_path / "out", "-q").err


def test_a_part_of_a_split_dump(memory: bytes, tmp_path: Path) -> None:
    """Its bitmaps are those of the whole dump, and of its blocks it has some."""
    source, whole = tmp_path / "dump", bytearray(kdump(START, memory, 4096, note=note_of(memory)))
    whole[4096 + 12] = 1
    source.write_bytes(whole)
    with pytest.raises(InputError, match="--reassemble"):
        open_memory(str(source))
