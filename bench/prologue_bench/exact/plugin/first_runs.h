/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How CPUs came to execute a word for the first time after a live write: with a
 * context synchronization event since the writer's maintenance, or without. Words
 * are watched that no CPU had executed when they were written, unless both are
 * of the few that may be exchanged without synchronisation.
 *
 * Events are ISB, exception entry and exception return: cpus.h counts them for
 * each CPU. Every CPU, the writer's own too, must have one after the last DSB of
 * the maintenance. Everything here runs under the lock.
 */
#pragma once

#include "cpus.h"
#include "pages.h"

struct watch {
	bool on;
	uint64_t row;		/* index in the file of rows */
	uint64_t seen;		/* bit N: CPU N executed the word */
	bool unsynced;		/* one did before it had synchronised */
	uint32_t syncs[MAX_CPUS];
};

/* NOP, B, BL, BRK: on the list of every issue of the Arm ARM (B2.2.5) */
bool always_listed(uint32_t insn);

/* A word was written, of which nothing was executed */
struct watch *begin_watch(struct text_page *text, uint64_t paddr, uint64_t row);

/* The watch of a word; NULL: it is not watched */
struct watch *watch_of(uint64_t paddr);

/* The word, or a page of them, is written again, is text no longer, or the machine ends */
void end_watch(struct watch *watch);
void end_watches(struct text_page *text);

/* A CPU is about to execute a watched word */
void first_run(struct watch *watch, unsigned int cpu);

/* What was seen of the rows goes into their file, which is complete */
void write_outcomes(const char *path);
