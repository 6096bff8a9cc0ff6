// SPDX-License-Identifier: GPL-2.0-only
/* Follows the kernel's page tables from store to store. */
#include <stdlib.h>

#include "allocate.h"
#include "first_runs.h"
#include "modules.h"
#include "tables.h"

struct table {
	uint64_t vaddr;		/* that its first entry translates */
	int level;
	uint64_t entries[];
};

void map_text(uint64_t paddr, uint64_t size, uint64_t vaddr)
{
	for (; size; size -= page_size(), paddr += page_size(), vaddr += page_size()) {
		uint64_t page = page_of(paddr);
		struct text_page *text;

		if (!in_ram(paddr, page_size()) || kinds[page] & TABLE)
			continue;
		text = text_page(page) ?: make_text(page);
		if (!text->mapped++ && !text->image) {
			text->vaddr = vaddr;
			if (paddr - options.load >= options.size)
				begin_region(vaddr);
		}
	}
}

void drop_text(uint64_t page)
{
	struct text_page *text = text_page(page);

	if (!text)
		return;
	if (!text->image)
		end_region(text->vaddr);
	end_watches(text);
	kinds[page] &= ~TEXT;
	pages[page] = NULL;
	free(text);
}

static void unmap_text(uint64_t paddr, uint64_t size)
{
	for (; size; size -= page_size(), paddr += page_size()) {
		struct text_page *text;

		if (!in_ram(paddr, page_size()))
			continue;
		text = text_page(page_of(paddr));
		if (!text || !text->mapped || --text->mapped)
			continue;
		drop_text(page_of(paddr));
	}
}

static void change_entry(struct table *table, unsigned int k, uint64_t new);

static void add_table(uint64_t paddr, int level, uint64_t vaddr)
{
	uint64_t page = page_of(paddr);
	struct table *table;

	if (!in_ram(paddr, page_size()) || kinds[page])
		return;
	table = allocate(sizeof(*table) + page_size());
	table->level = level;
	table->vaddr = vaddr;
	kinds[page] = TABLE;
	pages[page] = table;
	for (unsigned int k = 0; k < page_size() / 8; k++)
		change_entry(table, k, read64(paddr + 8 * k));
}

static void remove_table(uint64_t paddr)
{
	struct table *table;

	if (!in_ram(paddr, page_size()) || !(kinds[page_of(paddr)] & TABLE))
		return;
	table = pages[page_of(paddr)];
	for (unsigned int k = 0; k < page_size() / 8; k++)
		change_entry(table, k, 0);
	kinds[page_of(paddr)] = PLAIN;
	pages[page_of(paddr)] = NULL;
	free(table);
}

/* The part of an entry that decides what is executable where */
static uint64_t meaning(uint64_t entry, int level)
{
	if (is_table(entry, level))	/* PXNTable: nothing below executes */
		return entry >> 59 & 1 ? 0 : output(entry) | 3;
	if (is_leaf(entry, level))	/* PXN */
		return entry >> 53 & 1 ? 0 :
		       (output(entry) & ~(span(level) - 1)) | (level < 3 ? 1 : 3);
	return 0;
}

static void change_entry(struct table *table, unsigned int k, uint64_t new)
{
	uint64_t old = table->entries[k], size = span(table->level);
	uint64_t vaddr = table->vaddr + k * size;

	new = meaning(new, table->level);
	if (old == new)
		return;
	table->entries[k] = new;
	if (is_table(old, table->level))
		remove_table(output(old));
	else if (old)
		unmap_text(output(old), size);
	if (is_table(new, table->level))
		add_table(output(new), table->level + 1, vaddr);
	else if (new)
		map_text(output(new), size, vaddr);
}

void table_written(uint64_t paddr, unsigned int size)
{
	uint64_t end = (paddr + size + 7) & ~7ull;

	for (paddr &= ~7ull; paddr < end; paddr += 8) {
		uint64_t page = page_of(paddr);

		if (in_ram(paddr, 8) && kinds[page] & TABLE)
			change_entry(pages[page], paddr % page_size() / 8, read64(paddr));
	}
}

/*
 * What the Image has before _stext runs before there are page tables only; then
 * it is memory as any other (arch/arm64/mm/init.c, arm64_memblock_init).
 */
static void drop_head(void)
{
	for (uint64_t at = 0; at < options.stext; at += page_size()) {
		struct text_page *text = text_page(page_of(options.load + at));

		if (text && !text->mapped)
			drop_text(page_of(options.load + at));
	}
}

void follow_tables(void)
{
	add_table(options.load + options.root, root_level, 0 - (1ull << va_bits));
	drop_head();
}
