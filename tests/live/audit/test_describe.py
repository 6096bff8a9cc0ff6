"""What messages call an address outside of the file: whose code is there, and of code that nobody names the address."""

from __future__ import annotations

from prologue.kernel.kernel import Kernel
from prologue.live.audit.judge import Describer
from prologue.live.memory.state import KernelState, LiveSymbol, LoadedModule
from tests.mini_kernel.build import Spec
from tests.support.built import Mini

TEXT, PROGRAM = 0xFFFF800007000000, 0xFFFF800007100040


def test_code_that_nobody_names_has_no_name_of_what_is_before_it(mini: Mini) -> None:
    """As of a module that hides, and lies after one that does not."""
    symbols = (LiveSymbol(TEXT + 8, "brd_probe", "brd"), LiveSymbol(PROGRAM, "bpf_prog_1", "bpf"))
    modules = (LoadedModule("brd", 0x2000, TEXT, {".text": TEXT}),)
    state = KernelState(release="6.1.0-mini", boot_id="", modules=modules, symbols=symbols, kprobes=())
    name = Describer(Kernel(mini(Spec(form="relr"))), 0, state).name
    assert [name(TEXT + at) for at in (0, 8, 16)] == [f"{TEXT:#x} of brd", "brd_probe of brd", "brd_probe+0x8 of brd"]
    assert name(PROGRAM + 0x40) == "bpf_prog_1+0x40 of bpf"
    for nobodys in (TEXT - 4, TEXT + 0x2000, PROGRAM + 0x1000):
        assert name(nobodys) == f"{nobodys:#x} in memory, outside of vmlinux"
