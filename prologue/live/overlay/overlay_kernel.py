"""A vmlinux with the text that runs; symbols, line tables, DWARF and build-id stay.

Addresses are those of the file, or those of the running kernel (``live/overlay/runtime``).
"""

from __future__ import annotations

from pathlib import Path

from prologue.live.overlay.overlay_text import OverlaidFile, section_text
from prologue.live.overlay.runtime import carry_out, find_moves
from prologue.live.system.running_system import RunningSystem
from prologue.outputs import new_file, require_other
from prologue.patching.copying import copied_meanwhile


def overlay_kernel(system: RunningSystem, out: Path, *, runtime: bool = False) -> OverlaidFile:
    """Write a copy of the vmlinux whose executable sections hold what memory has.

    Its addresses stay, or become those at which the kernel runs (``runtime``).

    Raises:
        InputError: no unstripped vmlinux, or memory of another kernel, or that cannot be read; or, for run-time
            addresses, its debug sections are compressed.
        OutputError: ``out`` is an input, a link or no regular file, or cannot be written.

    """
    image, vmlinux = system.image, system.image.path
    require_other(out, vmlinux, Path(system.memory.name))
    with new_file(out, like=vmlinux) as temporary, copied_meanwhile(vmlinux, temporary) as wait:
        slide = system.kernel.slide
        sections = tuple(section_text(image, live, slide) for live in system.kernel.live_text.live.values())
        taken = [range(section.offset, section.offset + len(section.data)) for section in sections if section.taken]
        moves = find_moves(image, slide, taken) if runtime and slide else None
        wait()
        with temporary.open("r+b") as stream:
            for section in sections:
                if section.changed:
                    stream.seek(section.offset)
                    stream.write(section.data)
            stream.flush()
            if moves is not None:
                carry_out(moves, stream.fileno())
    return OverlaidFile("kernel", out, sections)
