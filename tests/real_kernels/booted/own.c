// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes kernel text itself, through a mapping of its own: a branch to the next
 * instruction where a NOP was, and back, with and without what has to follow;
 * and the prologue of a function that everybody calls, as a boot would.
 */
#include <linux/cache.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/vmalloc.h>
#include <asm/cacheflush.h>

static noinline void flush_line(unsigned long at)
{
	asm volatile("dc cvau, %0\n\tdsb ish\n\tic ivau, %0\n\tdsb ish\n\tisb"
		     : : "r" (at) : "memory");
}

static noinline void own_poke(unsigned long at, u32 word, unsigned long flushed)
{
	struct page *page = virt_to_page(lm_alias(at));
	void *alias = vmap(&page, 1, VM_MAP, PAGE_KERNEL);

	if (!alias)
		return;
	WRITE_ONCE(*(u32 *)(alias + offset_in_page(at)), word);
	if (flushed)
		flush_line(flushed);
	vunmap(alias);
}

static int __init own_init(void)
{
	unsigned long at = (unsigned long)kernel_halt + 4;

	own_poke(at, 0x14000001, at);
	own_poke(at, 0xd503201f, 0);
	own_poke(at, 0x14000001, at + 256);
	own_poke(at, 0xd503201f, at);
	own_poke((unsigned long)fput, 0xd503201f, (unsigned long)fput);
	own_poke((unsigned long)fput, 0xaa1e03e9, (unsigned long)fput);
	return 0;
}

static void __exit own_exit(void)
{
}

module_init(own_init);
module_exit(own_exit);
MODULE_DESCRIPTION("Writes kernel text itself");
MODULE_LICENSE("GPL");
