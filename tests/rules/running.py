"""The fixtures of group PL5: running kernels, their memory, and recorded writes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

from prologue.errors import UNDECIDED
from prologue.insn import a64
from prologue.live.memory.capture import Piece, write_capture
from prologue.live.memory.state import KernelState
from prologue.live.pokes.recording import Flag, Function, Trailer
from tests.live.hooks.hooked import make, saved
from tests.live.pokes.made import recording_of, write_recording
from tests.mini_kernel.build import Spec
from tests.rules.fixture import AUDIT, B_LABEL_TARGET, Arguments, Fixture, Maker, as_running, process
from tests.support.built import Mini
from tests.support.cores import NO_PADDR, SLIDE, core, image_of, vmcoreinfo
from tests.support.elf_edit import NOP, ElfEdit

JUDGE: Final = ("writes", "judge")
RET: Final = 0xD65F03C0
UNSIGNED: Final = 1 << 13  # TAINT_UNSIGNED_MODULE
DATA: Final = 0xFFFF_8000_0900_0000

# A jump label that is switched while two CPUs run.
PLACE: Final = 0xFFFF800080010000
STORE: Final = 0xFFFF800080020000
CALLERS: Final = (0xFFFF800080021010, 0xFFFF800080022010, 0xFFFF800080023010)
WHOLE: Final = 0x62321  # DC, DSB, IC IVAU, DSB, ISB
FUNCTIONS: Final = tuple(
    Function(start=start, end=start + 0x100, name=name)
    for start, name in (
        (PLACE, "vfs_read"), (STORE, "copy_to_kernel_nofault"), (CALLERS[0] & ~0xFFF, "__aarch64_insn_write"),
        (CALLERS[1] & ~0xFFF, "aarch64_insn_patch_text_nosync"),
        (CALLERS[2] & ~0xFFF, "arch_jump_label_transform_queue"),
    )
)  # fmt: skip
HOOKING: Final = tuple(f._replace(name="hook_it") if f.start == CALLERS[2] & ~0xFFF else f for f in FUNCTIONS)
SWITCHED: Final[dict[str, Any]] = {
    "time": 1000, "address": PLACE, "pc": STORE, "callers": CALLERS, "running": 3, "synced": 1, "maintenance": WHOLE,
    "old": a64.NOP, "new": 0x14000002, "flags": Flag.RAN_BEFORE,
}  # fmt: skip


def _running(symbol: str = "", word: int | None = None, *, target: str = "", labels: bool = False) -> Maker:
    """A processed kernel and its memory: with a word of a function, or a BL in its second slot; as it is without."""

    def maker(mini: Mini) -> Arguments:
        path = process(mini(Spec(form="relr", labels=labels)))
        elf = ElfEdit(path)
        if not target:
            return as_running(path, {} if word is None else {elf.value(symbol): word})
        second = elf.value(symbol) + 4
        return as_running(path, {second: 0x94000000 | (elf.value(target) - second) // 4 & 0x3FFFFFF})

    return maker


def _captured(*names: str) -> Maker:
    """A capture whose taker saw a word of these functions change again and again."""

    def maker(mini: Mini) -> Arguments:
        path = process(mini(Spec(form="relr")))
        start, image = image_of(path)
        unstable = tuple(ElfEdit(path).value(name) + 4 for name in names)
        source = path.with_name("capture")
        state = KernelState(release="6.1.0-mini", boot_id="", modules=(), symbols=(), kprobes=())
        write_capture(source, "a board", state, vmcoreinfo(slide=0)[2], [Piece(start, 0, bytes(image), unstable)])
        return [path, source]

    return maker


def _of_another_boot(mini: Mini) -> Arguments:
    """Memory whose kernel is not where its note says."""
    path = process(mini(Spec(form="relr")))
    start, image = image_of(path)
    source = path.with_name("core")
    source.write_bytes(core([(start + SLIDE, NO_PADDR, bytes(image))], [vmcoreinfo(SLIDE - 0x1000)]))
    return [path, source]


def recorded(*, functions: tuple[Function, ...] = FUNCTIONS, **changed: object) -> Maker:
    """The file of a recording with that one write, and some of its fields changed."""

    def maker(mini: Mini) -> Arguments:
        path = Path(mini(Spec())).with_name("recorded.writes")
        write_recording(path, recording_of(SWITCHED | changed, trailer=Trailer(functions=functions)))
        return [path]

    return maker


def _hooked(changes: dict[str, int | str], executable: tuple[str, ...] = ("module_text",)) -> Maker:
    """A kernel with listeners, of which some 64-bit values are others, and memory in which these pages are text."""

    def maker(mini: Mini) -> Arguments:
        vmlinux = make(Path(tempfile.mkdtemp(dir=mini(Spec()).parent)))
        return [vmlinux, saved(vmlinux, changes, executable)]

    return maker


FIXTURES = {
    "PL501": Fixture(_running("work_leaf", NOP), _running(), symbol="work_leaf", command=AUDIT),
    "PL502": Fixture(
        _running("work_leaf", target="work_add"),
        _running("work_leaf", target="ftrace_caller"),
        symbol="work_leaf",
        command=AUDIT,
    ),
    "PL503": Fixture(_running("_stext", RET), _running(), symbol="_stext", command=AUDIT),
    "PL504": Fixture(_captured("work_leaf"), _captured(), symbol="work_leaf", command=AUDIT, status=UNDECIDED),
    "PL505": Fixture(_of_another_boot, _running(), symbol="_stext", command=AUDIT, status=2),
    "PL506": Fixture(recorded(maintenance=0x6221), recorded(), symbol="vfs_read", command=JUDGE),  # no IC IVAU
    "PL507": Fixture(recorded(functions=HOOKING), recorded(), symbol="vfs_read", command=JUDGE),
    "PL508": Fixture(
        _running("label_user", B_LABEL_TARGET, labels=True),
        _running("label_user", NOP, labels=True),
        symbol="label_user",
        command=AUDIT,
    ),
    "PL509": Fixture(_hooked({"hook": DATA}), _hooked({}), symbol="vfs_read", command=AUDIT),
    # Its text is executable no more, so that there is nothing else to report.
    "PL510": Fixture(
        _hooked({"modules": "modules", "modules+8": "modules"}, ()),
        _hooked({}, ()),
        symbol="module_text",
        command=AUDIT,
    ),
    "PL511": Fixture(_hooked({}, ("module_text", "orphan_text")), _hooked({}), symbol="orphan_text", command=AUDIT),
    # What is read-only after init may be another function of the kernel's.
    "PL512": Fixture(
        _hooked({"operations+8": DATA}), _hooked({"chosen": 0xFFFF_8000_0800_1000}), symbol="operations", command=AUDIT
    ),
    "PL513": Fixture(
        recorded(new=a64.MOV_X9_X30, flags=0), recorded(flags=0), symbol="vfs_read", command=JUDGE
    ),  # before any CPU has executed it
    "PL514": Fixture(_hooked({"hook+16": 1 << 12}), _hooked({}), symbol="vfs_read", command=AUDIT),
    # An ftrace_ops that calls a listed module.
    "PL515": Fixture(
        _hooked({"hook": "module_text", "loaded+632": UNSIGNED}),
        _hooked({"hook": "module_text", "loaded+632": 0}),
        symbol="vfs_read",
        command=AUDIT,
    ),
}
