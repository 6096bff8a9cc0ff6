"""A small ELF file with what ``prologue probe`` reads of a kernel: each function of it shows one of the rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbol, Symbols
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue.kernel.module import Module
from prologue.probe.judge import judge_module
from prologue.probe.probe_target import ProbeTarget, kernel_target
from tests.mini_kernel.build import run_command
from tests.support.needs import needs_tools

TEXT = 0xFFFF_8000_8001_0000
TOOLS = ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld")
# In the order of their addresses, as kallsyms list them.
SYMBOLS = (
    "_stext", "traced", "untraced", "atomic", "far", "traced.part.0", "early.part.0", "untraced.cold", "words", "twice",
    "twice", "listed", "listed.isra.0", "entry", "hidden", "__pfx_padded", "padded", "_etext", "early", "last",
)  # fmt: skip

_BODY = r"""
	.text
	.globl _stext, _etext
	.type	traced, %function
_stext:
traced:	nop			// first slot
	nop			// second slot
	paciasp
1:	ldr	x0, [x1]	// exception table
2:	nop			// jump label
3:	brk	#0x800		// WARN
	mrs	x0, tpidr_el1	// 4: alternative
	ret
untraced: add	x0, x0, #1
	ret
atomic:	nop
	nop
	ldxr	w0, [x1]
	add	w0, w0, #1
	stxr	w2, w0, [x1]
	cbnz	w2, atomic + 8
	ldar	w0, [x1]
	add	w0, w0, #2
	ret
far:	nop
	nop
	ldxr	w0, [x1]
	.rept	40
	add	w0, w0, #1
	.endr
	stxr	w2, w0, [x1]
	ret
traced.part.0: add	x0, x0, #1
	ret
early.part.0: add	x0, x0, #1
	ret
untraced.cold: add	x0, x0, #1
	ret
words:	nop
	nop
	b	words
	adrp	x0, words
	ldr	x0, words
	prfm	pldl1keep, words
	svc	#0
	msr	tpidr_el1, x0
	msr	daifset, #2
	mrs	x0, daif
	mrs	x0, nzcv
	eret
	yield
	hint	#34
	dmb	ish
	blr	x3
	.inst	0xd63f087f	// blraaz x3
	.inst	0x19010440	// cpyfp [x0]!, [x1]!, x2!
	.quad	0x1122334455667788	// data
	ret
twice:	nop
	nop
	ret
twice_2: nop
	nop
	ret
listed:	nop
	nop
	ret
listed.isra.0: nop
	nop
	ret
__entry_text_start:
entry:	nop
	nop
	ret
__entry_text_end:
hidden:	nop
	nop
	ret
__pfx_padded:
	nop
	nop
padded:	nop
	nop
	ret
_etext:
early:	nop			// not in the kernel's text
	nop
	ret
last:	ret
	.section .init.text, "ax"
starter: nop
	nop
	ret
	.section .altinstr_replacement, "a"
5:	mrs	x0, tpidr_el2
	.section .altinstructions, "a"
	.word	traced + 24 - ., 5b - .
	.hword	3
	.byte	4, 4
	.word	far + 8 - ., 6f - .	// LDXR becomes LDADD: an LSE atomic
	.hword	5
	.byte	4, 4
	.section .altinstr_replacement, "a"
6:	.inst	0xb8200020
	.section .rodata, "a"
linux_banner: .asciz "Linux version {release} (made for a test)"
	.size	linux_banner, . - linux_banner
	{message}
	.balign	8
	.globl __start_mcount_loc, __stop_mcount_loc
__start_mcount_loc:
	.quad	traced, atomic, far, words, twice, twice_2, listed, listed.isra.0, entry, hidden, padded, early
__stop_mcount_loc:
__start___ex_table:
	.word	traced + 12 - ., traced + 28 - .
	.hword	0, 0
__stop___ex_table:
	.balign	8
__start___jump_table:
	.word	traced + 16 - ., traced + 28 - .
	.quad	0
__stop___jump_table:
	.section __bug_table, "a"
__start___bug_table:
	.word	traced + 20 - .
	.hword	1, 0
__stop___bug_table:
	.section _kprobe_blacklist, "a"
	.balign	8
__start_kprobe_blacklist:
	.quad	listed
__stop_kprobe_blacklist:
	.data
register_kprobe: .quad 0
{fprobe}
"""
_MESSAGE = '.asciz "Could not probe notrace function %ps"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Differences of the file from a plain 6.12."""

    release: str = "6.12.107-made"
    place_relative: bool = False  # kallsyms as in 7.2
    on_notrace: bool = False  # CONFIG_KPROBE_EVENTS_ON_NOTRACE
    fprobe: bool = False  # has fprobe events, as 7.2
    without: str = ""  # a symbol that is renamed


def make(directory: Path, form: Form | None = None) -> Path:
    """Assemble and link it."""
    needs_tools(*TOOLS)
    form = form or Form()
    source, made, out = (directory / name for name in ("made.S", "made.o", "vmlinux"))
    message, text = "" if form.on_notrace else _MESSAGE, _BODY + _kallsyms(form)
    fprobe = "trace_fprobe_create: .quad 0" if form.fprobe else ""
    for name, value in (("release", form.release), ("message", message), ("fprobe", fprobe)):
        text = text.replace(f"{{{name}}}", value)
    source.write_text(text.replace(form.without, "renamed") if form.without else text)
    run_command(["aarch64-linux-gnu-gcc", "-march=armv8.5-a", "-c", str(source), "-o", str(made)])
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-e", "_stext", "-o", str(out), str(made)])
    return out


def module_target(path: Path) -> ProbeTarget:
    """Open a module as one of such a kernel, which is made beside it."""
    kernel, module = kernel_target(Kernel(make(path.parent))), open_binary(path)
    assert isinstance(module, Module)
    return ProbeTarget(judge_module(kernel.judge_at(0), module), "some", kernel)


def symbol_of(path: Path, name: str) -> Symbol:
    """Find a symbol that is there."""
    symbol = Symbols(ElfImage(path)).find(name)
    assert symbol is not None, name
    return symbol


def _kallsyms(form: Form) -> str:
    """Every token is one character, so that names stand as they are after their length and type."""
    lines = ['\t.section .kallsyms, "a"', f"kallsyms_num_syms: .word {len(SYMBOLS)}", "kallsyms_names:"]
    lines += [f'\t.byte {len(name) + 1}\n\t.ascii "t{name}"' for name in SYMBOLS]
    lines += ["kallsyms_token_table:", *(f"\t.byte {byte}, 0" for byte in range(256))]
    lines += ["\t.balign 2", "kallsyms_token_index:", *(f"\t.hword {2 * byte}" for byte in range(256))]
    lines += ["\t.balign 8"]
    if not form.place_relative:
        lines += ["kallsyms_relative_base: .quad _stext"]
    lines += ["kallsyms_offsets:"]
    seen: set[str] = set()
    for name in SYMBOLS:
        lines.append(f"\t.word {name}{'_2' if name in seen else ''} - {'.' if form.place_relative else '_stext'}")
        seen.add(name)
    return "\n".join(lines) + "\n"
