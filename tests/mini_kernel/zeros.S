/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * zeros.S - two zero records, linked first
 *
 * The records of overridden weak functions look so after the kernel's build-time sort (6.12 and newer):
 * zeroed, and sorted before all others. They have no relocation and must stay zero.
 */
	.section __patchable_function_entries, "aw"
	.balign	8
	.quad	0, 0

	.section .note.GNU-stack, "", @progbits
