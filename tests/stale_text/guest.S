/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * guest.S - Image header, entry of both CPUs, and the functions that one CPU rewrites while the other one runs them
 *
 * Both CPUs stay at EL1 with the MMU off.
 */
	.macro	enter, stack, function
	adrp	x0, \stack
	add	x0, x0, :lo12:\stack
	mov	sp, x0
	adrp	x0, vectors
	add	x0, x0, :lo12:vectors
	msr	vbar_el1, x0
	isb
	bl	\function
	b	.
	.endm

	.text
	.globl	_start
_start:	b	1f				// code0
	.long	0				// code1
	.quad	0				// text_offset
	.quad	0x40000				// image_size
	.quad	0xa				// flags: little-endian, 4K pages, anywhere
	.quad	0, 0, 0
	.ascii	"ARM\x64"			// magic
	.long	0
1:	enter	stack0, write_all

	.globl	secondary_entry
secondary_entry:
	enter	stack1, run_all

/* u64 psci(u64 function, u64 a, u64 b, u64 c): without EL3 and EL2, QEMU's virt board takes HVC. */
	.globl	psci
psci:	hvc	#0
	ret

	.balign	2048
vectors:
	.rept	16
	b	unexpected
	.balign	128
	.endr

/* Each returns 0, 1 or 2: what the branch in its ninth word leads to, after work enough to take a translator's time. */
	.data
	.balign	4096
	.globl	functions
functions:
	.rept	FUNCTIONS
	.rept	8
	nop
	.endr
	b	. + 4
	mov	x0, #0
	ret
	mov	x0, #1
	ret
	mov	x0, #2
	ret
	.balign	4 * WORDS
	.endr

	.bss
	.balign	16
	.skip	8192
stack0:	.skip	8192
stack1:

	.section .note.GNU-stack, "", @progbits
