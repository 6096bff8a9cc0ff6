/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rewritten.S - the functions of rewritten.c: each returns what the branch in its ninth word leads to, 0, 1 or 2
 */
#include "mini.h"

	.text
	.balign	4096
	.globl	rewritten
rewritten:
	.rept	REWRITTEN_FUNCTIONS
	.rept	8
	nop					// work enough to take a translator's time
	.endr
	b	. + 4
	mov	x0, #0
	ret
	mov	x0, #1
	ret
	mov	x0, #2
	ret
	.balign	4 * REWRITTEN_WORDS
	.endr
	.balign	4096

	.section .note.GNU-stack, "", @progbits
