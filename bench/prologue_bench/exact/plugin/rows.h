/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The writes that were seen, and the maintenance after each, until its writer
 * returned: a window, which ends when the frame record of the writer is loaded
 * back from the stack. Everything here runs under the lock of writes.c.
 */
enum { WINDOWS = 16, MAX_RANGES = 64, MOST_WAITING = 1 << 18 };

/* prologue/live/pokes/recording.py: WRITE, Flag and Maintenance */
struct row {
	uint64_t time, address, paddr, alias, pc, running, synced, maintenance;
	uint64_t callers[CALLERS];
	uint32_t old, new, flags;
	uint16_t cpu, padding;
};

enum { STOPPED = 1, NOT_RETURNED = 16, CUT_CHAIN = 32, RAN_BEFORE = 128,
       RAN_MEANWHILE = 256 };
enum step { DC = 1, DSB, IC_IVAU, IC_IALLU, IC_IALLUIS, ISB, WRITE, DC_ELSEWHERE,
	    IC_ELSEWHERE, MORE = 15 };

/* What a DC or an IC IVAU was for: bytes within one page; size 0: not known */
struct lines {
	uint64_t vaddr, paddr, size;
};

struct done {
	enum step step;
	struct lines lines;
};

#include "first_runs.h"

/* What a row waits for */
struct open_row {
	struct row row;
	struct watch *watch;	/* NULL: none */
	int window;		/* -1: closed */
	size_t begin;		/* index of its first step in the window's */
	uint32_t syncs[MAX_CPUS];
};

struct window {
	uint64_t frame;		/* 0: not in use */
	struct done *steps;
	size_t n, room;
	bool due;		/* a DSB has yet to complete a write, or an IC */
	uint32_t syncs[MAX_CPUS];	/* of all CPUs at that DSB */
};

static struct window windows[WINDOWS];
static volatile int n_windows;
static struct open_row *open_rows;
static size_t n_rows, rows_room;
static uint64_t row_count, not_returned;
static FILE *rows_file;
static const char *rows_path;
static uint64_t ctr_offset;

/* Functions that write text and flush: first and last offset in the Image */
static struct { uint64_t start, end; } writers[MAX_RANGES];
static int n_writers;

static void give_up(const char *what)
{
	perror(what);
	_exit(1);	/* not by way of at_exit(), which takes the lock */
}

/* CTR_EL0 as the kernel uses it; 0 before it knows */
static uint64_t ctr_el0(void)
{
	return ram && ctr_offset ? read64(image_load + ctr_offset) : 0;
}

static bool is_writer(uint64_t pc)
{
	uint64_t offset = pc >> 63 ? pc - image_vaddr : pc - image_load;

	for (int k = 0; k < n_writers; k++) {
		if (offset >= writers[k].start && offset < writers[k].end)
			return true;
	}
	return false;
}

static void flush_rows(void)
{
	for (size_t k = 0; k < n_rows; k++) {
		if (fwrite(&open_rows[k].row, sizeof(struct row), 1, rows_file) != 1)
			give_up(rows_path);
	}
	row_count += n_rows;
	n_rows = 0;
}

/* Whether lines are those before, or go on where they end: then they are added */
static bool joined(struct lines *before, const struct lines *next)
{
	if (!next->size || !before->size)
		return before->size == next->size;
	if (next->vaddr - before->vaddr > before->size ||
	    next->paddr - before->paddr != next->vaddr - before->vaddr ||
	    (next->vaddr ^ before->vaddr) >> page_shift)
		return false;
	if (next->vaddr - before->vaddr == before->size)
		before->size += next->size;
	return true;
}

static void add_step(struct window *window, enum step step, struct lines lines)
{
	struct done *last = window->n ? &window->steps[window->n - 1] : NULL;

	if (last && last->step == step && joined(&last->lines, &lines))
		return;
	if (window->n == window->room) {
		window->room = window->room ? 2 * window->room : 64;
		window->steps = realloc(window->steps,
					window->room * sizeof(*window->steps));
		if (!window->steps)
			give_up("writes");
	}
	window->steps[window->n++] = (struct done){ step, lines };
}

/* Where a word is executed; Python gives the Image's rows their addresses. */
static uint64_t executed_at(const struct row *row)
{
	if (row->address || !image_vaddr)
		return row->address ?: row->paddr;
	return row->paddr - image_load + image_vaddr;
}

/*
 * What a step did for a word. A DC is for its line through whatever alias; an IC
 * for that of the address where it is executed, unless caches are said to know
 * physical addresses only (CTR_EL0.L1Ip: PIPT).
 */
static enum step step_for(const struct done *done, const struct row *row)
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

static uint64_t digits(const struct window *window, const struct open_row *open)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	enum step last = 0;

	for (size_t k = open->begin; k < window->n; k++) {
		enum step step = step_for(&window->steps[k], &open->row);

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

/* Whether the word was executed, ever since its page is text, or since this write */
static bool did_run(const struct row *row, enum ran since)
{
	struct text_page *text = text_page(page_of(row->paddr));

	return text && text->ran[row->paddr % page_size() / 4] & since;
}

static void close_window(int index, uint32_t flags)
{
	struct window *window = &windows[index];

	for (size_t k = 0; k < n_rows; k++) {
		struct open_row *open = &open_rows[k];

		if (open->window != index)
			continue;
		open->row.maintenance = digits(window, open);
		open->row.flags |= flags;
		if (did_run(&open->row, SINCE))
			open->row.flags |= RAN_MEANWHILE;
		for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
			if ((uint32_t)cpus[cpu].syncs != open->syncs[cpu])
				open->row.synced |= 1ull << cpu;
		}
		if (open->watch && open->watch->row == row_count + k)
			watch_since(open->watch, window->syncs);
		open->window = -1;
	}
	window->frame = 0;
	window->n = 0;
	if (!--n_windows)
		flush_rows();
}

/* A frame record is loaded back: whose writes waited for that are complete */
static void popped(uint64_t frame)
{
	for (int k = 0; k < WINDOWS; k++) {
		if (windows[k].frame == frame)
			close_window(k, 0);
	}
}

static int window_of(uint64_t frame)
{
	int found = -1;

	for (int k = 0; k < WINDOWS; k++) {
		if (windows[k].frame == frame)
			return k;
		if (!windows[k].frame)
			found = k;
	}
	if (found < 0) {
		not_returned++;
		close_window(found = 0, NOT_RETURNED);
	}
	windows[found].frame = frame;
	n_windows++;
	return found;
}

/* Both run on one stack: two of them never share 16 KiB, or a large page */
static bool same_stack(uint64_t one, uint64_t other)
{
	unsigned int shift = page_shift > 14 ? page_shift : 14;

	return one >> shift == other >> shift;
}

static struct open_row *new_row(void)
{
	/* A writer that never returns must not keep all others waiting. */
	for (int k = 0; k < WINDOWS && n_rows >= MOST_WAITING; k++) {
		if (windows[k].frame) {
			not_returned++;
			close_window(k, NOT_RETURNED);
		}
	}
	if (n_rows == rows_room) {
		rows_room = rows_room ? 2 * rows_room : 1024;
		open_rows = realloc(open_rows, rows_room * sizeof(*open_rows));
		if (!open_rows)
			give_up("writes");
	}
	memset(&open_rows[n_rows], 0, sizeof(*open_rows));
	open_rows[n_rows].window = -1;
	return &open_rows[n_rows++];
}

/* Who runs, and whether all others are in stop_machine's loop */
static void see_cpus(struct row *row)
{
	bool stopped = true;

	for (int k = 0; k < MAX_CPUS; k++) {
		if (!cpus[k].running)
			continue;
		row->running |= 1ull << k;
		stopped &= cpus[k].stopped;
	}
	if (stopped)
		row->flags |= STOPPED;
}

/* The frame that the writer's return loads: that of the outermost writer */
static uint64_t writer_frame(const struct row *row, const uint64_t *frames, int n)
{
	uint64_t frame = n ? frames[0] : 0;

	for (int k = 0; k < n && k < 6; k++) {
		if (is_writer(row->callers[k]))
			frame = frames[k];
	}
	return frame;
}

/*
 * A word of text that a store covers; copy is what it was before, word what it is
 * now.
 */
static void add_row(struct cpu *cpu, struct row row, uint32_t *copy, uint32_t word)
{
	struct text_page *text = text_page(page_of(row.paddr));
	uint64_t frames[CALLERS], frame;
	struct open_row *open = new_row();
	bool whole;
	int n;

	row.old = *copy;
	row.new = *copy = word;
	row.cpu = cpu - cpus;
	row.time = now();
	see_cpus(&row);
	if (did_run(&row, EVER))
		row.flags |= RAN_BEFORE;
	text->ran[row.paddr % page_size() / 4] &= ~SINCE;
	if (watch_of(row.paddr))
		end_watch(watch_of(row.paddr));
	if (!(row.flags & (RAN_BEFORE | STOPPED)) && row.running & (row.running - 1) &&
	    !(always_listed(row.old) && always_listed(row.new)))
		open->watch = begin_watch(text, row.paddr, row_count + n_rows - 1);
	n = chain(cpu, row.callers, frames, &whole);
	if (!whole)
		row.flags |= CUT_CHAIN;
	frame = writer_frame(&row, frames, n);
	if (!frame)
		row.flags |= NOT_RETURNED;
	open->row = row;
	if (!frame) {
		if (!n_windows)
			flush_rows();
		return;
	}
	for (int k = 0; k < MAX_CPUS; k++)
		open->syncs[k] = cpus[k].syncs;
	open->window = window_of(frame);
	windows[open->window].due = true;
	note_syncs(windows[open->window].syncs);
	add_step(&windows[open->window], WRITE, (struct lines){});
	open->begin = windows[open->window].n;
}

static bool is_ic(enum step step)
{
	return step == IC_IVAU || step == IC_IALLU || step == IC_IALLUIS;
}

/*
 * Maintenance on a CPU: of the writers whose stack it is on, by its x29; syncs is
 * what the CPU had then.
 */
static void maintained(unsigned int cpu, uint32_t syncs, uint64_t x29,
		       enum step step, struct lines lines)
{
	for (int k = 0; k < WINDOWS; k++) {
		if (!windows[k].frame || !same_stack(windows[k].frame, x29))
			continue;
		add_step(&windows[k], step, lines);
		if (step == DSB && windows[k].due) {
			note_syncs(windows[k].syncs);
			windows[k].syncs[cpu] = syncs;
		}
		windows[k].due = step == DSB ? false : windows[k].due || is_ic(step);
	}
}
