// SPDX-License-Identifier: GPL-2.0-only
/* traced() keeps every register. CASE is what its caller does. */
	.text

	.type	traced, %function
traced:
1:	nop
	nop
	ret
	.size	traced, . - traced

	.type	dies, %function
dies:
2:	nop
	nop
0:	wfe
	b	0b
	.size	dies, . - dies

	.type	signed, %function
signed:
3:	nop
	nop
	.inst	0x5500001f	/* retaasppc signed */
	.size	signed, . - signed

	.type	plain, %function
plain:	ret
	.size	plain, . - plain

	.type	leaves, %function
leaves:	b	outside
	.size	leaves, . - leaves

	.type	jumps, %function
jumps:	mov	w0, #1
	b	traced
	.size	jumps, . - jumps

	.type	distant, %function
distant:
	adrp	x16, traced
	add	x16, x16, :lo12:traced
	br	x16
	.size	distant, . - distant

	.type	caller, %function
caller:	stp	x29, x30, [sp, #-32]!
	mov	x9, x0
	CASE
9:	ldp	x29, x30, [sp], #32
	ret
	.size	caller, . - caller

	.section __patchable_function_entries, "awo", %progbits, .text
	.balign	8
	.quad	1b, 2b, 3b
