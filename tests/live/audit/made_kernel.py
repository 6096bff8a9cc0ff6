"""A small running kernel of any release: alternatives as 5.10 and as 6.1 have them, and runtime constants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prologue.live.memory.capture import Piece, write_capture
from prologue.live.memory.state import KernelState
from tests.mini_kernel.build import run_command
from tests.support.cores import image_of, running, vmcoreinfo
from tests.support.elf_edit import ElfEdit
from tests.support.tool import Printed, Tool

TEXT = 0xFFFF_8000_0800_1000  # where tests' VMCOREINFO has _stext
NOP, MOVZ, MOVK = 0xD503201F, 0xD2800000, 0xF2800000
POINTER = 0xFFFF_0000_0C12_3456

_KERNEL = """
	.text
	.globl	_stext, _etext
_stext:
TEXT
_etext:
	.section .rodata, "a"
linux_banner: .asciz "Linux version RELEASE (made for a test)"
	.size	linux_banner, . - linux_banner
REST
"""
_TEXT = r"""
	.type	plain, %function
plain:	mov	x0, #1
	mov	x0, #2
	ret
	.type	kvm_patch_vector_branch, %function
kvm_patch_vector_branch: ret
	.type	made_up_callback, %function
made_up_callback: ret
vector:	stp	x0, x1, [sp, #-16]!
	b	. + 4
	nop
	nop
	nop
made:	mov	x3, #0
	.type	first, %function
first:	movz	x0, #0xcdef
	movk	x0, #0x89ab, lsl #16
	movk	x0, #0x4567, lsl #32
	movk	x0, #0x0123, lsl #48
	ret
	.type	second, %function
second:	movz	x1, #0xcdef
	movk	x1, #0x89ab, lsl #16
	movk	x1, #0x4567, lsl #32
	movk	x1, #0x0123, lsl #48
	ret
	.type	third, %function
third:	movz	x2, #0xcdef
	movk	x2, #0x89ab, lsl #16
	movk	x2, #0x4567, lsl #32
	movk	x2, #0x0123, lsl #48
	ret
	.rept	64
	nop
	.endr
"""
_REST = r"""
	.section .altinstructions, "a"
	.word	vector - ., kvm_patch_vector_branch - .
	.hword	CALLBACK
	.byte	20, 0
	.word	made - ., made_up_callback - .
	.hword	CALLBACK
	.byte	4, 0
	.section "runtime_ptr_gone", "a"
PLACES
	.data
	.balign	8
applied_alternatives: .quad 2
	.size	applied_alternatives, 8
all_alternatives_applied: .word 1
	.size	all_alternatives_applied, 4
"""


def make(directory: Path, release: str, *, places: int = 3, marked: bool = False, apart: str = "") -> Path:
    """Assemble and link it; ``marked`` callbacks are those of 6.1, others those of 5.10.

    The first two words of what is ``apart`` (a symbol) end a page.
    """
    names = ("first", "second", "third")[:places]
    before = f"\n\t.balign 4096\n\t.rept 1022\n\tnop\n\t.endr\n{apart}:"
    text = _TEXT.replace(f"\n{apart}:", before) if apart else _TEXT
    rest = _REST.replace("CALLBACK", "0x8001" if marked else "62")
    return link(directory, text, rest.replace("PLACES", "\n".join(f"\t.word {name} - ." for name in names)), release)


def link(directory: Path, text: str, rest: str = "", release: str = "5.10.223") -> Path:
    """Assemble a kernel of this text and link it where the tests' VMCOREINFO has it; ``rest`` follows its banner."""
    source, made, out = (directory / name for name in ("running.S", "running.o", "vmlinux"))
    source.write_text(_KERNEL.replace("TEXT", text).replace("REST", rest).replace("RELEASE", release))
    run_command(["aarch64-linux-gnu-gcc", "-c", str(source), "-o", str(made)])
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-e", "_stext", "-o", str(out), str(made)])
    return out


def moves(register: int, value: int) -> list[int]:
    """MOVZ and three MOVKs."""
    parts = [(value >> 16 * k & 0xFFFF) << 5 | register for k in range(4)]
    return [MOVZ | parts[0], *(MOVK | k << 21 | parts[k] for k in (1, 2, 3))]


def constants(vmlinux: Path, values: Mapping[str, int]) -> dict[int, int]:
    """Words of a constant at its places, by function."""
    elf = ElfEdit(vmlinux)
    return {
        elf.value(name) + 4 * k: word
        for name, value in values.items()
        for k, word in enumerate(moves(("first", "second", "third").index(name), value))
    }


def audit(tool: Tool, vmlinux: Path, changes: Mapping[int, int], *options: str, status: int | None = 0) -> Printed:
    """An audit of the kernel with these words changed, by link-time address."""
    core = vmlinux.with_name("core")
    core.write_bytes(running(vmlinux, changes))
    return tool("live", "audit", vmlinux, core, *options, status=status)


def captured(
    vmlinux: Path, changes: Mapping[int, int] = {}, *, name: str = "capture", kprobes: tuple[str, ...] = (),
    boot: str = "one", unstable: tuple[int, ...] = (),
) -> Path:  # fmt: skip
    """A capture of it with these words changed, taken where it is linked."""
    start, image = image_of(vmlinux)
    for vaddr, word in changes.items():
        image[vaddr - start : vaddr - start + 4] = word.to_bytes(4, "little")
    out = vmlinux.with_name(name)
    state = KernelState(release="6.1.0-mini", boot_id=boot, modules=(), symbols=(), kprobes=kprobes)
    write_capture(out, "a board", state, vmcoreinfo(slide=0)[2], [Piece(start, 0, bytes(image), unstable)])
    return out
