/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's memory: where QEMU keeps it, and where the kernel's own page tables
 * (swapper_pg_dir) map it. Descriptors: Arm ARM DDI 0487, "VMSAv8-64 translation
 * table format descriptors".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "options.h"

#define RAM_BASE 0x40000000ull	/* QEMU's virt board */

extern uint8_t *ram;		/* QEMU's pointer to guest memory; NULL before the Image runs */
extern uint64_t image_vaddr;	/* where the Image runs; 0 before that */
extern unsigned int va_bits;	/* 0: the kernel's tables are not known */
extern int root_level;

static inline uint64_t page_size(void)
{
	return 1ull << options.page_shift;
}

static inline bool in_ram(uint64_t paddr, uint64_t size)
{
	return paddr >= RAM_BASE && paddr - RAM_BASE < options.ram &&
	       size <= options.ram - (paddr - RAM_BASE);
}

static inline uint64_t page_of(uint64_t paddr)
{
	return (paddr - RAM_BASE) >> options.page_shift;
}

static inline uint64_t read64(uint64_t paddr)
{
	uint64_t value;

	memcpy(&value, ram + (paddr - RAM_BASE), sizeof(value));
	return value;
}

static inline uint64_t span(int level)
{
	return 1ull << (options.page_shift + (3 - level) * (options.page_shift - 3));
}

static inline uint64_t output(uint64_t entry)
{
	return entry & 0x0000ffffffffffffull & ~(page_size() - 1);
}

static inline bool is_table(uint64_t entry, int level)
{
	return level < 3 && (entry & 3) == 3;
}

static inline bool is_leaf(uint64_t entry, int level)
{
	return (entry & 3) == (level < 3 ? 1 : 3);
}

/* Find how the kernel's tables translate, from code of the Image that runs at vaddr */
bool find_root(uint64_t vaddr, uint64_t paddr);

/* Where a virtual address of the kernel, or a physical one, lies; 0 if nowhere */
uint64_t physical(uint64_t vaddr);

/* Read guest memory at a virtual address of the kernel, or at a physical one */
bool read_guest(uint64_t vaddr, void *into, size_t size);
