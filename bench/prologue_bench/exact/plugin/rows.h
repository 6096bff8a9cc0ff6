/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The writes that were seen, and the maintenance after each, until its writer
 * returned: a window, which ends when the frame record of the writer is loaded
 * back from the stack. Everything here runs under the lock.
 */
#pragma once

#include "maintenance.h"

extern volatile int n_windows;	/* that are open */
extern uint64_t row_count, not_returned;

void open_rows_file(void);

/* A word of text that a store covers; copy is what it was before, word what it is now */
void add_row(struct cpu *cpu, struct row row, uint32_t *copy, uint32_t word);

/*
 * Maintenance on a CPU: of the writers whose stack it is on, by its x29; syncs is
 * what the CPU had then.
 */
void maintained(unsigned int cpu, uint32_t syncs, uint64_t x29, enum step step, struct lines lines);

/* A frame record is loaded back: whose writes waited for that are complete */
void popped(uint64_t frame);

/* The machine ends */
void close_rows(void);
