// SPDX-License-Identifier: GPL-2.0-only
/* First executions of words that were written live. */
#include <stdio.h>
#include <stdlib.h>

#include "allocate.h"
#include "first_runs.h"
#include "row.h"

struct outcome {
	uint64_t row;
	uint32_t flags;
};

static struct outcome *outcomes;
static size_t n_outcomes, outcomes_room;

bool always_listed(uint32_t insn)
{
	return insn == 0xd503201f || (insn & 0x7c000000) == 0x14000000 ||
	       (insn & 0xffe0001f) == 0xd4200000;
}

void end_watch(struct watch *watch)
{
	if (!watch->on)
		return;
	watch->on = false;
	if (!watch->seen)
		return;
	outcomes = with_room(outcomes, n_outcomes, &outcomes_room, sizeof(*outcomes));
	outcomes[n_outcomes++] = (struct outcome){
		watch->row, RAN_AFTER | (watch->unsynced ? RAN_UNSYNCED : 0)
	};
}

struct watch *begin_watch(struct text_page *text, uint64_t paddr, uint64_t row)
{
	struct watch **place;

	if (!text->watches)
		text->watches = allocate(page_size() / 4 * sizeof(*text->watches));
	place = &text->watches[paddr % page_size() / 4];
	/* Never freed: translated code has its address. */
	if (!*place)
		*place = allocate(sizeof(**place));
	(*place)->row = row;
	(*place)->seen = 0;
	(*place)->unsynced = false;
	(*place)->on = true;
	note_syncs((*place)->syncs);
	return *place;
}

struct watch *watch_of(uint64_t paddr)
{
	struct text_page *text = in_ram(paddr, 4) ? text_page(page_of(paddr)) : NULL;

	return text && text->watches ? text->watches[paddr % page_size() / 4] : NULL;
}

void end_watches(struct text_page *text)
{
	for (uint64_t k = 0; text->watches && k < page_size() / 4; k++) {
		if (text->watches[k])
			end_watch(text->watches[k]);
	}
	free(text->watches);
	text->watches = NULL;
}

void first_run(struct watch *watch, unsigned int cpu)
{
	if (!watch->on || watch->seen >> cpu & 1)
		return;
	watch->unsynced |= (uint32_t)cpus[cpu].syncs == watch->syncs[cpu];
	watch->seen |= 1ull << cpu;
}

void write_outcomes(const char *path)
{
	FILE *file = fopen(path, "r+");

	for (size_t k = 0; file && k < n_outcomes; k++) {
		long at = outcomes[k].row * sizeof(struct row) + offsetof(struct row, flags);
		uint32_t flags;

		if (fseek(file, at, SEEK_SET) || fread(&flags, 4, 1, file) != 1)
			give_up(path);
		flags |= outcomes[k].flags;
		if (fseek(file, at, SEEK_SET) || fwrite(&flags, 4, 1, file) != 1)
			give_up(path);
	}
	if (!file || fclose(file))
		give_up(path);
}
