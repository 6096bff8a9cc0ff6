// SPDX-License-Identifier: GPL-2.0-only
/* Rows that wait for their window to close. */
#include <stdio.h>
#include <string.h>

#include "allocate.h"
#include "first_runs.h"
#include "rows.h"

enum { WINDOWS = 16, MOST_WAITING = 1 << 18 };

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
	struct steps steps;
	bool due;		/* a DSB has yet to complete a write, or an IC */
	uint32_t syncs[MAX_CPUS];	/* of all CPUs at that DSB */
};

volatile int n_windows;
uint64_t row_count, not_returned;
static struct window windows[WINDOWS];
static struct open_row *open_rows;
static size_t n_rows, rows_room;
static FILE *rows_file;

static bool is_writer(uint64_t pc)
{
	return extent_of(&options.writers, pc - (pc >> 63 ? image_vaddr : options.load));
}

void open_rows_file(void)
{
	rows_file = fopen(options.rows, "w");
	if (!rows_file)
		give_up(options.rows);
}

static void flush_rows(void)
{
	for (size_t k = 0; k < n_rows; k++) {
		if (fwrite(&open_rows[k].row, sizeof(struct row), 1, rows_file) != 1)
			give_up(options.rows);
	}
	row_count += n_rows;
	n_rows = 0;
}

static void close_window(int index, uint32_t flags)
{
	struct window *window = &windows[index];

	for (size_t k = 0; k < n_rows; k++) {
		struct open_row *open = &open_rows[k];

		if (open->window != index)
			continue;
		open->row.maintenance = digits(&window->steps, open->begin, &open->row);
		open->row.flags |= flags;
		if (did_run(open->row.paddr, SINCE))
			open->row.flags |= RAN_MEANWHILE;
		for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
			if ((uint32_t)cpus[cpu].syncs != open->syncs[cpu])
				open->row.synced |= 1ull << cpu;
		}
		if (open->watch && open->watch->row == row_count + k)
			memcpy(open->watch->syncs, window->syncs, sizeof(window->syncs));
		open->window = -1;
	}
	window->frame = 0;
	window->steps.n = 0;
	if (!--n_windows)
		flush_rows();
}

void popped(uint64_t frame)
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
	unsigned int shift = options.page_shift > 14 ? options.page_shift : 14;

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
	open_rows = with_room(open_rows, n_rows, &rows_room, sizeof(*open_rows));
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

void add_row(struct cpu *cpu, struct row row, uint32_t *copy, uint32_t word)
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
	if (did_run(row.paddr, EVER))
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
	add_step(&windows[open->window].steps, WRITE, (struct lines){});
	open->begin = windows[open->window].steps.n;
}

static bool is_ic(enum step step)
{
	return step == IC_IVAU || step == IC_IALLU || step == IC_IALLUIS;
}

void maintained(unsigned int cpu, uint32_t syncs, uint64_t x29, enum step step, struct lines lines)
{
	for (int k = 0; k < WINDOWS; k++) {
		if (!windows[k].frame || !same_stack(windows[k].frame, x29))
			continue;
		add_step(&windows[k].steps, step, lines);
		if (step == DSB && windows[k].due) {
			note_syncs(windows[k].syncs);
			windows[k].syncs[cpu] = syncs;
		}
		windows[k].due = step == DSB ? false : windows[k].due || is_ic(step);
	}
}

void close_rows(void)
{
	for (int k = 0; k < WINDOWS; k++) {
		if (windows[k].frame)
			close_window(k, NOT_RETURNED);
	}
	flush_rows();
	if (fclose(rows_file))
		give_up(options.rows);
}
