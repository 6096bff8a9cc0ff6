/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * head.S - Image header, entry of both CPUs, exception vectors, PSCI and the ftrace trampoline
 *
 * Everything runs at EL1, wherever QEMU put the Image, with the MMU off; MINI_MAPPED turns it on. Nothing here is
 * instrumented.
 */
#include "mini.h"

	.macro	adr_l, reg, sym
	adrp	\reg, \sym
	add	\reg, \reg, :lo12:\sym
	.endm

#ifdef MINI_MAPPED
	/*
	 * One table for both halves: each has 1 GB of devices at 0 and 1 GB of memory after that, so that an address in
	 * the upper half is a physical one plus MINI_VOFFSET.
	 */
	.data
	.balign	4096
	.globl	swapper_pg_dir
swapper_pg_dir:
	.quad	gigabytes - MINI_VOFFSET + 3	// level 0: a table
	.skip	255 * 8
	.quad	gigabytes - MINI_VOFFSET + 3
	.skip	255 * 8
gigabytes:
	.quad	0x00600000 << 32 | 0x405	// level 1: a device, never executed
	.quad	0x40000701			// memory, inner shareable
	.skip	510 * 8
#endif

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
	.balign	2048
vectors:
	.rept	16
	b	exception
	.balign	128
	.endr
exception:
	mrs	x0, esr_el1
	mrs	x1, elr_el1
	b	die_exception

#ifdef MINI_MAPPED
/* Turns the MMU on, and returns at the linked address; called by both CPUs before their first load or store. */
map_kernel:
	adrp	x0, swapper_pg_dir
	msr	ttbr0_el1, x0
	msr	ttbr1_el1, x0
	mov	x0, #0x00ff			// memory types: 0 is write-back, 1 is a device
	msr	mair_el1, x0
	mov	x0, #0x3510			// 48 bits of address in both halves, pages of 4K, write-back
	movk	x0, #0xb510, lsl #16
	movk	x0, #1, lsl #32
	msr	tcr_el1, x0
	isb
	tlbi	vmalle1
	dsb	nsh
	mrs	x0, sctlr_el1
	orr	x0, x0, #1			// M
	msr	sctlr_el1, x0
	isb
	orr	x30, x30, #MINI_VOFFSET
	ret
#endif

primary_entry:
#ifdef MINI_MAPPED
	bl	map_kernel
#endif
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
#ifdef MINI_MAPPED
	mov	x0, #0
#else
	adr_l	x0, _text
	ldr	x1, =MINI_LINK_ADDR
	sub	x19, x0, x1
	mov	x0, x19
	bl	relocate_kernel
	mov	x0, x19
#endif
	bl	start_kernel
	b	.

	.globl	secondary_entry
secondary_entry:
#ifdef MINI_MAPPED
	bl	map_kernel
#endif
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
