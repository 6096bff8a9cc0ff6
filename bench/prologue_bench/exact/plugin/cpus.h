/* SPDX-License-Identifier: GPL-2.0-only */
/* What is known of each CPU, the time, and the lock that all state but a CPU's own is under. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_CPUS = 64 };

struct cpu {
	uint64_t instructions;
	uint64_t x29;		/* 0: not known */
	uint64_t pair_pc, pair_vaddr;	/* the first half of a pair */
	uint64_t pushed_pc, pushed;	/* last frame record stored through sp */
	uint64_t syncs;		/* ISB, entries to and returns from exceptions */
	bool running, stopped;
} __attribute__((aligned(64)));

extern struct cpu cpus[MAX_CPUS];
extern pthread_mutex_t lock;

/* Instructions of all CPUs; those of a block count when it begins */
uint64_t instructions(void);

/* instructions(), or ns of CLOCK_MONOTONIC if the option says so */
uint64_t now(void);

/* Copy how many context synchronization events each CPU has had */
void note_syncs(uint32_t *syncs);
