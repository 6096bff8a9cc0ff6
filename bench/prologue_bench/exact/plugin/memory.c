// SPDX-License-Identifier: GPL-2.0-only
/* The guest's memory, read through the kernel's page tables. */
#include "memory.h"

uint8_t *ram;
uint64_t image_vaddr;
unsigned int va_bits;
int root_level;

/* Where the kernel's page tables map an address, 0 if nowhere */
static uint64_t walk(uint64_t vaddr, unsigned int bits, int level)
{
	uint64_t table = options.load + options.root;
	uint64_t offset = vaddr & ((1ull << bits) - 1);

	if (vaddr >> bits != (1ull << (64 - bits)) - 1)
		return 0;
	for (;; level++) {
		uint64_t at = table + 8 * (offset / span(level)), entry;

		offset %= span(level);
		if (!in_ram(at, 8))
			return 0;
		entry = read64(at);
		if (is_leaf(entry, level))
			return (output(entry) & ~(span(level) - 1)) + offset;
		if (!is_table(entry, level))
			return 0;
		table = output(entry);
	}
}

/*
 * Code of the Image runs at a virtual address: the kernel's tables may be there.
 * How many levels they have is what explains that address.
 */
bool find_root(uint64_t vaddr, uint64_t paddr)
{
	static const unsigned int every[] = { 36, 39, 42, 47, 48, 52 };

	image_vaddr = vaddr - (paddr - options.load);
	for (size_t k = sizeof(every) / sizeof(*every); k--;) {
		unsigned int index = options.page_shift - 3;
		int levels = (every[k] - options.page_shift + index - 1) / index;

		if (levels > 5 || walk(vaddr, every[k], 4 - levels) != paddr)
			continue;
		va_bits = every[k];
		root_level = 4 - levels;
		return true;
	}
	return false;
}

uint64_t physical(uint64_t vaddr)
{
	if (!(vaddr >> 63))
		return vaddr;
	return va_bits ? walk(vaddr, va_bits, root_level) : 0;
}

bool read_guest(uint64_t vaddr, void *into, size_t size)
{
	uint8_t *to = into;

	while (size) {
		uint64_t here = page_size() - vaddr % page_size();
		uint64_t paddr = physical(vaddr);

		if (here > size)
			here = size;
		if (!in_ram(paddr, here))
			return false;
		memcpy(to, ram + (paddr - RAM_BASE), here);
		to += here;
		vaddr += here;
		size -= here;
	}
	return true;
}
