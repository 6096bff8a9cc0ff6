"""An ops that is being unregistered: it left the list, and its sites still name it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from prologue.live.audit.ftrace_state import FtraceState
from prologue.live.memory.state import KernelState, LiveSymbol, LoadedModule
from prologue.live.structs.layouts import by_release
from prologue.live.structs.variables import Variables

LIST, END, LOCK, REMOVED = (0xFFFF800080000000 + 0x100 * k for k in range(4))
FIRST, LEAVING = 0xFFFF000000001000, 0xFFFF000000002000
SLIDE, TEXT, CALLER = 0x10000, 0x5000, 0x6000
OWNER = 0xFFFF000001234561  # a task, and a flag


class MadeVariables(Variables):
    """Words by address; variables by name."""

    def __init__(self, *, held: bool, removed: int, partial: bool) -> None:
        self.layouts = by_release((6, 12), realtime=False)
        self.partial = partial
        self._places = {"ftrace_ops_list": LIST, "ftrace_list_end": END, "ftrace_lock": LOCK, "removed_ops": REMOVED}
        self._words = {LIST: FIRST, FIRST + 8: END, LOCK: OWNER if held else 1, REMOVED: removed, LEAVING: TEXT + SLIDE}

    def place(self, name: str) -> int | None:
        return self._places.get(name)

    def read(self, vaddr: int, size: int) -> bytes | None:
        return self._words[vaddr].to_bytes(8, "little")[:size] if vaddr in self._words else None


def made(
    *, held: bool, removed: int, unstable: bool = False, partial: bool = False, state: KernelState | None = None
) -> FtraceState:
    section = object()
    image = SimpleNamespace(text_sections=(section,), section_at=lambda vaddr: section if vaddr == TEXT else None)
    # LDR X17, [X11, #16]: where an ops of this kernel has its direct call.
    code = {CALLER: 0xF9400971.to_bytes(4, "little")}
    image.read_at = lambda vaddr, size: code[vaddr]
    symbols = SimpleNamespace(find=lambda name: SimpleNamespace(vaddr=CALLER, size=4))
    kernel: Any = SimpleNamespace(image=image, slide=SLIDE, symbols=symbols)
    variables = MadeVariables(held=held, removed=removed, partial=partial)
    return FtraceState(kernel, variables, state, text_unstable=unstable)


@pytest.mark.parametrize(
    ("held", "removed", "expected"),
    [
        (True, LEAVING, {FIRST, LEAVING}),
        (True, 0, {FIRST}),
        (False, LEAVING, {FIRST}),  # ftrace clears it before it lets the lock go
    ],
)
def test_an_ops_that_leaves_is_known_while_the_lock_is_held(held: bool, removed: int, expected: set[int]) -> None:
    ops = made(held=held, removed=removed).ops
    assert ops.places == expected
    assert ops.complete


def test_before_it_is_called_removed_its_function_speaks_for_it() -> None:
    assert made(held=True, removed=0).may_be_leaving(LEAVING)
    assert not made(held=True, removed=0).may_be_leaving(FIRST)  # nothing can be read there
    assert not made(held=False, removed=0).may_be_leaving(LEAVING)


@pytest.mark.parametrize(("direct", "expected"), [(TEXT + SLIDE, True), (0x802000, False)])
def test_where_an_ops_sends_calls_has_to_be_code(direct: int, expected: bool) -> None:
    """A function of the kernel in a made-up ops does not vouch for its direct call."""
    known = KernelState(
        release="6.12", boot_id="", modules=(), symbols=(LiveSymbol(TEXT + SLIDE, "vfs_read", ""),), kprobes=()
    )
    state = made(held=True, removed=0, state=known)
    cast("Any", state)._variables._words[LEAVING + 16] = direct
    assert state.may_be_leaving(LEAVING) is expected


def test_text_that_does_not_come_to_rest_is_as_good_as_a_lock_that_is_held() -> None:
    assert made(held=False, removed=0, unstable=True).may_be_leaving(LEAVING)


def test_memory_of_another_moment_says_nothing_of_an_ops_that_left() -> None:
    """A capture of Debian's 6.12 under load: the page of a BPF program's ops had another thing when it was copied."""
    state = made(held=True, removed=0, unstable=True)
    cast("Any", state)._variables._words[LEAVING] = 0x802000
    assert state.may_be_leaving(LEAVING)
    stopped = made(held=True, removed=0)
    cast("Any", stopped)._variables._words[LEAVING] = 0x802000
    assert not stopped.may_be_leaving(LEAVING)


def test_code_is_what_the_kernel_names() -> None:
    """Its own text, modules, and what BPF put there; of a source that does not say so, everything may be."""
    module = LoadedModule(
        "direct",
        0x3000,
        0x700000,
        {".text": 0x700000, ".text.more": 0x910000, ".data": 0x920000, ".init.text": 0x930000},
    )
    symbols = (
        LiveSymbol(0x800040, "bpf_trampoline_1", "bpf"),
        LiveSymbol(TEXT + SLIDE, "vfs_read", ""),
        LiveSymbol(0x920010, "own_data", "direct"),
    )
    known = KernelState(release="6.12", boot_id="", modules=(module,), symbols=symbols, kprobes=())
    state = made(held=False, removed=0, state=known)
    for vaddr in (TEXT + SLIDE, 0x700000, 0x702FFC, 0x800040, 0x800140, 0x910010):
        assert state.is_code(vaddr), hex(vaddr)
    for vaddr in (TEXT, 0x6FFFFC, 0x703000, 0x80003C, 0x802000, 0x920010, 0x930000):
        assert not state.is_code(vaddr), hex(vaddr)
    assert made(held=False, removed=0).is_code(0x802000)


def test_a_capture_has_not_every_ops() -> None:
    assert made(held=True, removed=0, partial=True).may_be_leaving(FIRST)
    assert not made(held=False, removed=0, partial=True).may_be_leaving(FIRST)
