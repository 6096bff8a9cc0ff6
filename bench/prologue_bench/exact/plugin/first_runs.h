/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How CPUs came to execute a word for the first time after a live write: with a
 * context synchronization event since the writer's maintenance, or without. Words
 * are watched that no CPU had executed when they were written, unless both are
 * of the few that may be exchanged without synchronisation.
 *
 * Events are ISB, exception entry and exception return: frames.h counts them for
 * each CPU. Every CPU, the writer's own too, must have one after the last DSB of
 * the maintenance. Everything here runs under the lock of writes.c.
 */
enum { RAN_AFTER = 512, RAN_UNSYNCED = 1024 };

struct watch {
	bool on;
	uint64_t row;		/* index in the file of rows */
	uint64_t seen;		/* bit N: CPU N executed the word */
	bool unsynced;		/* one did before it had synchronised */
	uint32_t syncs[MAX_CPUS];
};

struct outcome {
	uint64_t row;
	uint32_t flags;
};

static struct outcome *outcomes;
static size_t n_outcomes, outcomes_room;

/* NOP, B, BL, BRK: on the list of every issue of the Arm ARM (B2.2.5) */
static bool always_listed(uint32_t insn)
{
	return insn == 0xd503201f || (insn & 0x7c000000) == 0x14000000 ||
	       (insn & 0xffe0001f) == 0xd4200000;
}

static void note_syncs(uint32_t *syncs)
{
	for (int k = 0; k < MAX_CPUS; k++)
		syncs[k] = cpus[k].syncs;
}

/* The word is written again, is text no longer, or the machine ends */
static void end_watch(struct watch *watch)
{
	if (!watch->on)
		return;
	watch->on = false;
	if (!watch->seen)
		return;
	if (n_outcomes == outcomes_room) {
		outcomes_room = outcomes_room ? 2 * outcomes_room : 1024;
		outcomes = realloc(outcomes, outcomes_room * sizeof(*outcomes));
		if (!outcomes)
			give_up("writes");
	}
	outcomes[n_outcomes++] = (struct outcome){
		watch->row, RAN_AFTER | (watch->unsynced ? RAN_UNSYNCED : 0)
	};
}

/* A word was written, of which nothing was executed; NULL: it is not watched */
static struct watch *begin_watch(struct text_page *text, uint64_t paddr, uint64_t row)
{
	struct watch **place;

	if (!text->watches)
		text->watches = calloc(page_size() / 4, sizeof(*text->watches));
	if (!text->watches)
		give_up("writes");
	place = &text->watches[paddr % page_size() / 4];
	/* Never freed: translated code has its address. */
	if (!*place && !(*place = calloc(1, sizeof(**place))))
		give_up("writes");
	(*place)->row = row;
	(*place)->seen = 0;
	(*place)->unsynced = false;
	(*place)->on = true;
	note_syncs((*place)->syncs);
	return *place;
}

static struct watch *watch_of(uint64_t paddr)
{
	struct text_page *text = in_ram(paddr, 4) ? text_page(page_of(paddr)) : NULL;

	return text && text->watches ? text->watches[paddr % page_size() / 4] : NULL;
}

static void end_watches(struct text_page *text)
{
	for (uint64_t k = 0; text->watches && k < page_size() / 4; k++) {
		if (text->watches[k])
			end_watch(text->watches[k]);
	}
	free(text->watches);
	text->watches = NULL;
}

/* The maintenance is complete: what CPUs have to do counts from then on */
static void watch_since(struct watch *watch, const uint32_t *syncs)
{
	memcpy(watch->syncs, syncs, sizeof(watch->syncs));
}

/* A CPU is about to execute a watched word. Under the lock. */
static void first_run(struct watch *watch, unsigned int cpu)
{
	if (!watch->on || watch->seen >> cpu & 1)
		return;
	watch->unsynced |= (uint32_t)cpus[cpu].syncs == watch->syncs[cpu];
	watch->seen |= 1ull << cpu;
}

/* What was seen of the rows goes into their file, which is complete */
static void write_outcomes(const char *path)
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
