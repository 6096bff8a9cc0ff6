/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of a recording, and its window: how it begins, what is written, and
 * how it ends.
 */
#pragma once

#include <stdbool.h>

#include "output.h"
#include "qemu.h"

enum { MAX_CPUS = 64, RANGES = 1 << 13, EXECUTED = 1 << 14 };

/* A place that means something; 0 is no place */
enum place { ARM, BEGIN, FROM, END, UNTIL, FUNCTION, MAPPED, PLACES };

struct block {
	uint64_t vaddr, target;
	uint32_t n, last;		/* its last word */
	uint8_t level, kind, watch, may_trap, elr_in;	/* elr_in: a register, or REGISTER_ZR */
	bool vector, places[PLACES];
};

struct insn {
	struct executed is;
	const uint32_t *host;
	uint32_t index;
};

struct cpu {
	const struct block *block;	/* that runs or has run last */
	uint32_t at;			/* its instruction that began last */
	bool completed;			/* its last instruction's access */
	bool on;
	/* the range that is not written yet */
	uint64_t start, time, written_to;	/* end of the last that is */
	uint32_t count;
	uint8_t level, flags;
	int32_t vmid;
	uint32_t task;

	uint64_t current, elr, vttbr, hcr, returns;
	uint32_t pid, batch, ticks;
	uint64_t instructions, written;
	uint32_t ranges, executed, whole;	/* whole: of finished blocks */
	const struct block *unsure;	/* before the exception of a note, whose start is a guess until ELR is read */
	uint32_t note;			/* its index in the ranges */
	struct range *range;
	struct executed *insn;
};

extern struct cpu cpus[MAX_CPUS];
extern struct file out, truth;
extern const char *status_path;
extern uint64_t places[PLACES];
extern uint64_t own_id, slide, stops;
extern bool slide_known, is_open, ending, finished;
extern uint8_t build_id[20];
extern pthread_mutex_t lock;

void write_executed(struct cpu *c);
void write_ranges(struct cpu *c);
void add_range(struct cpu *c, uint64_t start, uint32_t count, uint8_t flags);
void close_range(struct cpu *c);

void open_window(void);
void end_window(const char *reason);

/* No CPU runs: write the rest and the status */
void finish(void);
