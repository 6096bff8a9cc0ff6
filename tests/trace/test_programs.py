"""A kernel with modules, which arm64 loads below it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from prologue.elf.image import ElfImage
from prologue.kernel.kernel import Kernel
from prologue.live.memory.sources import open_memory
from prologue.live.memory.state import LoadedModule
from prologue.live.pokes.recording import Recording, Trailer
from prologue.live.system.placed_module import PlacedModule
from prologue.live.system.programs import Program, TextPiece, _module_pieces, linked_program
from prologue.live.system.running_module import RunningModule
from prologue.trace.path.assign import Kernels
from prologue.trace.path.history import read_history
from prologue.trace.readers.sources import open_trace
from prologue.trace.views.stats import first_slots
from tests.live.pokes.made import ORIGIN, rows_of, write_recording
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.cores import NO_PADDR, core, image_of, vmcoreinfo
from tests.support.cores import SLIDE as CORE_SLIDE
from tests.support.debian.kbuild import CROSS
from tests.support.needs import needs_tools
from tests.trace.made import KERNEL, MadeKernel, perf_text
from tests.trace.test_history import BRANCH, NOP, write

SLIDE = 0x200000
MODULE = MadeKernel({"module_init": ["nop", "ret"]}, 0xFFFF800000100000)


def with_module(vmlinux: Path, slide: int, directory: Path) -> Program:
    kernel = linked_program(vmlinux, slide)
    (piece,) = linked_program(MODULE.write(directory / "module"), 0).pieces
    owner = piece.owner._replace(label="module")
    program = Program(kernel.name, kernel.kernel, [*kernel.pieces, TextPiece(piece.addr, piece.words, owner)])
    assert program.pieces[0].owner is owner
    return program


def test_the_writes_are_of_the_kernel(tmp_path: Path) -> None:
    kernels = Kernels(host=with_module(KERNEL.write(tmp_path / "vmlinux"), SLIDE, tmp_path))
    (tmp_path / "trace").write_text(perf_text([("read_zero+0x18", "vfs_read")]))
    place = KERNEL.at("read_zero+0x8") + SLIDE
    origin = replace(ORIGIN, clock="ns", build_id="")
    recording = Recording("", origin, Trailer(slide=SLIDE), rows_of(write(10**9, BRANCH, NOP, place)))
    writes = write_recording(tmp_path / "writes", recording)
    with open_trace(str(tmp_path / "trace")) as trace:
        history = read_history(writes, kernels.host, 10_000_000, says_exceptions=trace.kind != "perf")
    assert history.count == 1


@pytest.mark.parametrize("slide", [0, SLIDE])
def test_the_first_slots_are_those_of_the_kernel(tmp_path: Path, mini: Mini, slide: int) -> None:
    vmlinux = mini(Spec())
    alone = first_slots(linked_program(vmlinux, slide))
    found = first_slots(with_module(vmlinux, slide, tmp_path))
    assert alone is not None
    assert found is not None
    assert len(alone)
    assert found.tolist() == alone.tolist()


def test_init_text_of_modules_hides_nothing(mini: Mini, tmp_path: Path) -> None:
    """It is free when it has run: the text of the next module may be at its addresses."""
    needs_tools(f"{CROSS}gcc")
    source, ko = tmp_path / "m.c", tmp_path / "m.ko"
    source.write_text('int f(void) { return 1; }\n__attribute__((section(".init.text"))) int g(void) { return 2; }\n')
    subprocess.run([f"{CROSS}gcc", "-c", source, "-o", ko], check=True)
    image, vmlinux = ElfImage(ko), mini(Spec())
    (text,) = (image.data(section) for section in image.text_sections if section.name == ".text")
    loaded = LoadedModule("m", 0x1000, 0x100000, {".text": 0x100000, ".init.text": 0x180000})
    placed = PlacedModule(loaded, image, {}, for_debuggers=True)
    start, kernel = image_of(vmlinux)
    source.with_name("core").write_bytes(
        core([(start + CORE_SLIDE, NO_PADDR, bytes(kernel)), (0x100000, NO_PADDR, text)], [vmcoreinfo()])
    )
    module = RunningModule(placed, open_memory(str(source.with_name("core"))), Kernel(vmlinux))
    assert [piece.addr for piece in _module_pieces(module)] == [0x100000]
