/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * head.S - Image header, entry of both CPUs, exception vectors, PSCI and the ftrace trampoline
 *
 * Everything runs at EL1 with the MMU off, wherever QEMU put the Image. Nothing here is instrumented.
 */
#include "mini.h"

	.macro	adr_l, reg, sym
	adrp	\reg, \sym
	add	\reg, \reg, :lo12:\sym
	.endm

	.section .head.text, "ax"
	b	primary_entry			// code0
	.long	0				// code1
	.quad	0				// text_offset
	.quad	0x40000				// image_size, checked by the linker script
	.quad	0xa				// flags: little-endian, 4K pages, anywhere
	.quad	0, 0, 0
	.ascii	"ARM\x64"			// magic
	.long	0

	.text
primary_entry:
	adr_l	x0, stack0_top
	mov	sp, x0
	adr_l	x0, vectors
	msr	vbar_el1, x0
	isb
	adr_l	x0, __bss_start
	adr_l	x1, __bss_stop
0:	stp	xzr, xzr, [x0], #16
	cmp	x0, x1
	b.lo	0b
	adr_l	x0, _text
	ldr	x1, =MINI_LINK_ADDR
	sub	x19, x0, x1
	mov	x0, x19
	bl	relocate_kernel
	mov	x0, x19
	bl	start_kernel
	b	.

	.globl	secondary_entry
secondary_entry:
	adr_l	x0, stack1_top
	mov	sp, x0
	adr_l	x0, vectors
	msr	vbar_el1, x0
	isb
#ifdef MINI_REWRITTEN
	bl	run_rewritten
#else
	bl	work_loop
#endif
1:	wfe
	b	1b

/* long psci(u32 fn, u64 a, u64 b, u64 c): without EL3 and EL2, QEMU's virt board takes HVC. */
	.globl	psci
psci:	hvc	#0
	ret

	.balign	2048
vectors:
	.rept	16
	mrs	x0, esr_el1
	mrs	x1, elr_el1
	b	die_exception
	.balign	128
	.endr

/*
 * ftrace_caller - where a swung second slot calls
 *
 *	func:	MOV  X9, X30		x9  = where func returns to
 *		BL   ftrace_caller	x30 = the rest of func
 *
 * ftrace_trace() judges x9 and does not come back if it is wrong. As in Linux, all argument registers (x8
 * too) survive, and func gets its own LR from x9. x9 is left poisoned, so that no later site can live on it.
 */
	.globl	ftrace_caller
	.type	ftrace_caller, %function
ftrace_caller:
	sub	sp, sp, #96
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, x29, [sp, #64]
	stp	x9, x30, [sp, #80]
	mov	x0, x30
	mov	x1, x9
	bl	ftrace_trace
	ldp	x0, x1, [sp]
	ldp	x2, x3, [sp, #16]
	ldp	x4, x5, [sp, #32]
	ldp	x6, x7, [sp, #48]
	ldp	x8, x29, [sp, #64]
	ldp	x30, x10, [sp, #80]
	add	sp, sp, #96
	mov	x9, #X9_POISON
	ret	x10
	.size	ftrace_caller, . - ftrace_caller

	.bss
	.balign	16
	.skip	8192
stack0_top:
	.skip	8192
stack1_top:

	.section .note.GNU-stack, "", @progbits
