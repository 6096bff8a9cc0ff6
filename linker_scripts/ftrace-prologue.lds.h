/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The marker of build-time ftrace prologues
 *
 * For the small kernel of the tests: its linker script includes this in
 * .init.data, after the mcount records. (Kernels with our patches define the
 * marker in C.) The build step after the link sets the marker when prologues and
 * records are in place. Until then, the marker says that they are not.
 *
 * struct ftrace_prologue_marker in arch/arm64/include/asm/ftrace.h is its layout.
 *
 * Within an output section, GNU ld takes symbols as offsets into it: an address
 * needs ABSOLUTE(). It also needs a semicolon after each ASSERT().
 */
#ifdef CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE
	. = ALIGN(8);
	__ftrace_prologue_marker = .;
	QUAD(0x4555474f4c4f5250)	/* magic: the bytes "PROLOGUE" */
	LONG(1)				/* version */
	LONG(0)				/* flags */
	QUAD(0)				/* sites */

	ASSERT((ABSOLUTE(__start_mcount_loc) & 7) == 0,
	       "ftrace: mcount records are not 8-aligned");
	ASSERT(((__stop_mcount_loc - __start_mcount_loc) & 7) == 0,
	       "ftrace: mcount records are cut");
	ASSERT(__stop_mcount_loc > __start_mcount_loc,
	       "ftrace: no mcount records to move");
#endif
