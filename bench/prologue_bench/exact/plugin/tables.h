/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Text is what the kernel's own page tables map executable at EL1; all of their
 * pages are watched, so a module's text is text from the store that makes it
 * executable on, and no text after its mapping is gone. Before there are page
 * tables, text is what the Image has as text. Everything here runs under the lock.
 */
#pragma once

#include "pages.h"

/* The kernel's page tables are there: follow them */
void follow_tables(void);

/* A page of text is mapped, or is text no longer */
void map_text(uint64_t paddr, uint64_t size, uint64_t vaddr);
void drop_text(uint64_t page);

/* A store to a page of the tables */
void table_written(uint64_t paddr, unsigned int size);
