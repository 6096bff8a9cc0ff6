"""PL504: a capture whose taker saw a word of text change again and again."""

from __future__ import annotations

from prologue.errors import UNDECIDED
from prologue.live.memory.capture import Piece, write_capture
from prologue.live.memory.state import KernelState
from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, Arguments, Fixture, process
from tests.support.built import Mini
from tests.support.cores import image_of, vmcoreinfo
from tests.support.elf_edit import ElfEdit


def captured(mini: Mini, *names: str) -> Arguments:
    path = process(mini(Spec(form="relr")))
    start, image = image_of(path)
    unstable = tuple(ElfEdit(path).value(name) + 4 for name in names)
    source = path.with_name("capture")
    state = KernelState(release="6.1.0-mini", boot_id="", modules=(), symbols=(), kprobes=())
    write_capture(source, "a board", state, vmcoreinfo(slide=0)[2], [Piece(start, 0, bytes(image), unstable)])
    return [path, source]


def broken(mini: Mini) -> Arguments:
    return captured(mini, "work_leaf")


def healthy(mini: Mini) -> Arguments:
    return captured(mini)


FIXTURE = Fixture(broken, healthy, symbol="work_leaf", command=AUDIT, status=UNDECIDED)
