// SPDX-License-Identifier: GPL-2.0-only
/* CPUs, and the time. */
#include <time.h>

#include "cpus.h"
#include "options.h"

struct cpu cpus[MAX_CPUS];
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t instructions(void)
{
	uint64_t sum = 0;

	for (int k = 0; k < MAX_CPUS; k++)
		sum += __atomic_load_n(&cpus[k].instructions, __ATOMIC_RELAXED);
	return sum;
}

uint64_t now(void)
{
	struct timespec time;

	if (!options.ns)
		return instructions();
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

void note_syncs(uint32_t *syncs)
{
	for (int k = 0; k < MAX_CPUS; k++)
		syncs[k] = cpus[k].syncs;
}
