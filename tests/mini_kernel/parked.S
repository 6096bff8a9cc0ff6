/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * parked.S - the exception that preempts parked.c's task: saves its registers, lets the patcher run, and goes back
 */
	.text
	.balign 2048
	.globl	parked_vectors
parked_vectors:
	.rept	4
	b	unexpected
	.balign	128
	.endr
	b	preempt				// synchronous, from EL1 with SP_EL1
	.balign	128
	.rept	11
	b	unexpected
	.balign	128
	.endr

unexpected:
	mrs	x0, esr_el1
	mrs	x1, elr_el1
	b	die_exception

preempt:
	sub	sp, sp, #256
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, x9, [sp, #64]
	stp	x10, x11, [sp, #80]
	stp	x12, x13, [sp, #96]
	stp	x14, x15, [sp, #112]
	stp	x16, x17, [sp, #128]
	stp	x18, x30, [sp, #144]		// x19 to x29 are the callee's to keep
	mrs	x0, esr_el1
	mrs	x1, elr_el1
	bl	task_preempted
	ldp	x18, x30, [sp, #144]
	ldp	x16, x17, [sp, #128]
	ldp	x14, x15, [sp, #112]
	ldp	x12, x13, [sp, #96]
	ldp	x10, x11, [sp, #80]
	ldp	x8, x9, [sp, #64]
	ldp	x6, x7, [sp, #48]
	ldp	x4, x5, [sp, #32]
	ldp	x2, x3, [sp, #16]
	ldp	x0, x1, [sp]
	add	sp, sp, #256
	eret

	.section .note.GNU-stack, "", @progbits
