/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mini_kernel.lds.S - the layout of the mini kernel (tests/mini_kernel)
 *
 * A small version of arch/arm64/kernel/vmlinux.lds. One script serves every relocation form:
 *
 *   static         ld -static, MINI_LINK_ADDR is where QEMU loads the Image
 *   relocatable    ld -shared -Bsymbolic, MINI_LINK_ADDR is a kernel-like high address; head.S moves every
 *                  pointer from there to where it runs, so a record without relocation always fails
 *
 * The C preprocessor processes it first, with MINI_LINK_ADDR, and for version 1 of the marker with
 * CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE. Version 2 is in ftrace.c.
 *
 * As in vmlinux, the compiler's __patchable_function_entries have no output section of their own: they are
 * in .init.data between __start_mcount_loc and __stop_mcount_loc.
 */
OUTPUT_ARCH(aarch64)
ENTRY(_text)

PHDRS
{
	text PT_LOAD FLAGS(5);		/* R E */
	data PT_LOAD FLAGS(6);		/* RW  */
}

SECTIONS
{
	/* A kernel is not loaded as a shared object: only its own relocation loop reads its dynamic tables. */
	/DISCARD/ : {
		*(.interp .dynamic)
		*(.dynsym .dynstr .hash .gnu.hash .gnu.version*)
		*(.eh_frame .note.gnu.property .note.GNU-stack)
	}

	. = MINI_LINK_ADDR;

	.head.text : {
		_text = .;
		KEEP(*(.head.text))
	} :text

	.text : ALIGN(4096) {
		_stext = .;
		*(.text .text.*)
		_etext = .;
	} :text

	.rodata : ALIGN(4096) {
		*(.rodata .rodata.*)
	} :text

	.init.text : ALIGN(4096) {
		__init_begin = .;
		_sinittext = .;
		*(.init.text)
		_einittext = .;
	} :text

	.init.data : ALIGN(4096) {
		*(.init.data)
		. = ALIGN(8);
		__start_mcount_loc = .;
		KEEP(*(__patchable_function_entries))
		__stop_mcount_loc = .;
#include "ftrace-prologue.lds.h"
	} :data

	.rela.dyn : ALIGN(8) {
		__rela_start = .;
		*(.rela .rela*)
		__rela_end = .;
	} :data

	.relr.dyn : ALIGN(8) {
		__relr_start = .;
		*(.relr.dyn)
		__relr_end = .;
		__init_end = .;
	} :data

	__jump_table : ALIGN(8) {
		KEEP(*(__jump_table))
	} :data

	.data : ALIGN(4096) {
		*(.data .data.*)
	} :data

	.got : ALIGN(8) {
		*(.got)
	} :data

	.got.plt : ALIGN(8) {
		*(.got.plt)
	} :data

	.plt : ALIGN(8) {
		*(.plt .iplt)
	} :data

	.bss : ALIGN(16) {
		__bss_start = .;
		*(.bss .bss.* COMMON)
		. = ALIGN(16);
		__bss_stop = .;
	} :data

	_end = .;

	/* head.S gives 256 KiB as image_size, and QEMU loads other data after that. */
	ASSERT(_end - _text <= 0x40000, "mini kernel: larger than its Image header says")
#ifndef CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE	/* else ftrace-prologue.lds.h checks the records */
	ASSERT(((__stop_mcount_loc - __start_mcount_loc) & 7) == 0, "mini kernel: record table is cut")
	ASSERT(__stop_mcount_loc > __start_mcount_loc, "mini kernel: no records: was work.c compiled without nops?")
#endif
	/*
	 * A shared link by GNU ld always has three reserved words in .got.plt and one in .got, other links have
	 * none; anything more is an unwanted indirection.
	 */
	ASSERT(SIZEOF(.got) == (SIZEOF(.got.plt) == 0 ? 0 : 8), "mini kernel: unexpected .got entries")
	ASSERT(SIZEOF(.got.plt) == 0 || SIZEOF(.got.plt) == 0x18, "mini kernel: unexpected .got.plt entries")
	ASSERT(SIZEOF(.plt) == 0, "mini kernel: unexpected PLT entries")
}
