// SPDX-License-Identifier: GPL-2.0-only
/* A vmlinux with one traced function. NAMED is the word of it that a table names, by its number. */
	.text
	.globl	traced
	.type	traced, %function
traced:	.cfi_startproc
	nop
#if NAMED == 0 && defined(SIGNING)
	.cfi_negate_ra_state
#endif
	nop
#if NAMED == 1 && defined(SIGNING)
	.cfi_negate_ra_state
#endif
	paciasp
#if NAMED == 2 && defined(SIGNING)
	.cfi_negate_ra_state
#endif
	movz	x0, #0xcdef
	movk	x0, #0x89ab, lsl #16
	movk	x0, #0x4567, lsl #32
	movk	x0, #0x0123, lsl #48
	lsr	w0, w0, #12
	ret
	.cfi_endproc
	.size	traced, . - traced

#ifdef RUNTIME
	.section RUNTIME, "a"
	.long	traced + 4 * NAMED - .
#endif

#ifdef EXCEPTIONS
	.macro	exception insn, fixup
	.long	\insn - ., \fixup - .
#if EXCEPTIONS == 12
	.hword	3, 0x20		// EX_TYPE_KACCESS_ERR_ZERO
#endif
	.endm
	.section __ex_table, "a"
	exception traced + 12, traced + 32
	exception traced + 4 * NAMED, traced + 32
#ifdef STRAY
	exception . + 2, traced + 32
#endif
	exception traced + 16, traced + 32
#endif

	.data
	.balign	8
	.globl	__start_mcount_loc, __stop_mcount_loc
	.hidden	__start_mcount_loc, __stop_mcount_loc
__start_mcount_loc:
	.quad	traced
__stop_mcount_loc:
