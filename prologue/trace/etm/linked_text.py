"""The text of a vmlinux at the addresses at which a recording has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id
from prologue.errors import InputError
from prologue.trace.etm.stream import ProgramText
from prologue.trace.ranges import TOP
from prologue.trace.readers.recording import RecordingHeader


def require_recorded(image: ElfImage, header: RecordingHeader) -> None:
    """Check that a vmlinux may be the kernel that was recorded.

    Raises:
        InputError: it has another build-id.

    """
    own = gnu_build_id(image)
    if not header.may_be_of(own):
        raise InputError(
            f"is another kernel: its build-id is {own or 'unknown'}, recorded {header.build_id.hex()}", path=image.path
        )


def linked_text(vmlinux: Path, header: RecordingHeader) -> ProgramText:
    """Read the text of a vmlinux, which ran ``header.slide`` bytes from where it is linked.

    Raises:
        InputError: the file is no vmlinux, or another kernel's.

    """
    image = ElfImage(vmlinux)
    require_recorded(image, header)
    sections = [(section.addr, image.read_at(section.addr, section.size)) for section in image.text_sections]
    return ProgramText(
        [
            (vaddr + (header.slide or 0) & TOP, np.frombuffer(data[: len(data) & ~3], "<u4"))
            for vaddr, data in sections
            if data
        ]
    )
