/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which physical pages are watched: pages of text, with a copy of each, and of the
 * kernel's page tables (tables.c). Everything here runs under the lock.
 */
#pragma once

#include "memory.h"

enum kind { PLAIN = 0, TEXT = 1, TABLE = 2 };	/* bits of kinds[] */

/*
 * QEMU translates what is executed, and again what was written since: so a word
 * that is translated is about to be executed, and one that is not was not.
 */
enum ran { EVER = 1, SINCE = 2 };	/* since its page is text, its last write */

struct text_page {
	uint64_t vaddr;		/* where it is executed, 0: not mapped yet */
	uint32_t mapped;	/* how often it is mapped executable */
	bool image;		/* text because the Image says so */
	uint8_t *ran;		/* by word: enum ran */
	struct watch **watches;	/* by word; NULL: none is watched (first_runs.h) */
	uint32_t copy[];
};

extern uint8_t *kinds;		/* by page of RAM */
extern void **pages;		/* struct text_page or struct table */

static inline struct text_page *text_page(uint64_t page)
{
	return kinds[page] & TEXT ? pages[page] : NULL;
}

/* Make room for all pages of RAM */
void make_pages(void);

/* Begin to watch a page as text */
struct text_page *make_text(uint64_t page);

/* An instruction is about to be executed */
void mark_run(uint64_t paddr);

/* Whether a word was executed, ever since its page is text, or since its last write */
bool did_run(uint64_t paddr, enum ran since);
