/* SPDX-License-Identifier: GPL-2.0-only */
/* The maintenance of caches after a write, and the barriers: in their order. */
#pragma once

#include "row.h"

enum step { DC = 1, DSB, IC_IVAU, IC_IALLU, IC_IALLUIS, ISB, WRITE, DC_ELSEWHERE,
	    IC_ELSEWHERE, MORE = 15 };

/* What a DC or an IC IVAU was for: bytes within one page; size 0: not known */
struct lines {
	uint64_t vaddr, paddr, size;
};

struct steps {
	struct step_done *of;
	size_t n, room;
};

void add_step(struct steps *steps, enum step step, struct lines lines);

/* What the steps from index begin on did for a word: recording.py, Maintenance */
uint64_t digits(const struct steps *steps, size_t begin, const struct row *row);

/* CTR_EL0 as the kernel uses it; 0 before it knows */
uint64_t ctr_el0(void);
