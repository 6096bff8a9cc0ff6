// SPDX-License-Identifier: GPL-2.0-only
/* Steps of maintenance, and what they were for. */
#include "allocate.h"
#include "maintenance.h"
#include "memory.h"

struct step_done {
	enum step step;
	struct lines lines;
};

uint64_t ctr_el0(void)
{
	return ram && options.ctr ? read64(options.load + options.ctr) : 0;
}

/* Whether lines are those before, or go on where they end: then they are added */
static bool joined(struct lines *before, const struct lines *next)
{
	if (!next->size || !before->size)
		return before->size == next->size;
	if (next->vaddr - before->vaddr > before->size ||
	    next->paddr - before->paddr != next->vaddr - before->vaddr ||
	    (next->vaddr ^ before->vaddr) >> options.page_shift)
		return false;
	if (next->vaddr - before->vaddr == before->size)
		before->size += next->size;
	return true;
}

void add_step(struct steps *steps, enum step step, struct lines lines)
{
	struct step_done *last = steps->n ? &steps->of[steps->n - 1] : NULL;

	if (last && last->step == step && joined(&last->lines, &lines))
		return;
	steps->of = with_room(steps->of, steps->n, &steps->room, sizeof(*steps->of));
	steps->of[steps->n++] = (struct step_done){ step, lines };
}

/* Where a word is executed; Python gives the Image's rows their addresses. */
static uint64_t executed_at(const struct row *row)
{
	if (row->address || !image_vaddr)
		return row->address ?: row->paddr;
	return row->paddr - options.load + image_vaddr;
}

/*
 * What a step did for a word. A DC is for its line through whatever alias; an IC
 * for that of the address where it is executed, unless caches are said to know
 * physical addresses only (CTR_EL0.L1Ip: PIPT).
 */
static enum step step_for(const struct step_done *done, const struct row *row)
{
	const struct lines *lines = &done->lines;
	bool here = row->paddr - lines->paddr < lines->size;

	if (!lines->size || (done->step != DC && done->step != IC_IVAU))
		return done->step;
	if (done->step == DC)
		return here ? DC : DC_ELSEWHERE;
	if ((ctr_el0() >> 14 & 3) != 3)
		here = executed_at(row) - lines->vaddr < lines->size;
	return here ? IC_IVAU : IC_ELSEWHERE;
}

uint64_t digits(const struct steps *steps, size_t begin, const struct row *row)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	enum step last = 0;

	for (size_t k = begin; k < steps->n; k++) {
		enum step step = step_for(&steps->of[k], row);

		if (step == last)
			continue;
		last = step;
		if (shift == 60)
			return value | (uint64_t)MORE << 60;
		value |= (uint64_t)step << shift;
		shift += 4;
	}
	return value;
}
