// SPDX-License-Identifier: GPL-2.0-only
/*
 * rewritten.c - CPU 0 writes a branch of each function, twice, while CPU 1 runs them all: does CPU 1 run what was written?
 *
 * Arm ARM, "Concurrent modification and execution of instructions" and "Ordering and completion of data and
 * instruction cache instructions": once the writer has cleaned and invalidated to the point of unification, with the
 * barriers, and the reader has seen a flag that was stored after that and executed an ISB, the reader executes the new
 * word. So does a kernel whose second CPU took an IPI. Every word but the last one written is stale then. A B may be
 * written while it is executed, as a BL may.
 */
#include "mini.h"

#define WRITTEN		8			/* index of the word that is written, in its function */
#define BETWEEN		2			/* what the first of two writes leads to; the second one: 0 or 1 */
#define B_TO(value)	(0x14000001u + 2 * (value))	/* each target is two words long */

extern u32 rewritten[REWRITTEN_FUNCTIONS][REWRITTEN_WORDS];

static u32 written, checked;		/* rounds */
static u64 stale, stale_again;

static u64 run(u32 index)
{
	return ((u64 (*)(void))rewritten[index])();
}

void run_rewritten(void)
{
	u32 seen = 0, round, index;

	for (;;) {
		round = __atomic_load_n(&written, __ATOMIC_ACQUIRE);
		asm volatile("isb" ::: "memory");
		for (index = 0; index < REWRITTEN_FUNCTIONS; index++) {
			if (run(index) == (round & 1) || round == seen)	/* the same round: they are being written */
				continue;
			stale++;
			asm volatile("isb" ::: "memory");
			stale_again += run(index) != (round & 1);
		}
		seen = round;
		__atomic_store_n(&checked, round, __ATOMIC_RELEASE);
		asm volatile("yield");
	}
}

void rewrite(unsigned long rounds)
{
	u32 round, index, delay;

	for (round = 1; round <= rounds; round++) {
		for (index = 0; index < REWRITTEN_FUNCTIONS; index++) {
			aarch64_insn_patch_text_nosync(&rewritten[index][WRITTEN], B_TO(BETWEEN));
			for (delay = (round * 13 + index * 7) % 200; delay; delay--)
				asm volatile("nop");
			aarch64_insn_patch_text_nosync(&rewritten[index][WRITTEN], B_TO(round & 1));
		}
		__atomic_store_n(&written, round, __ATOMIC_RELEASE);
		while (__atomic_load_n(&checked, __ATOMIC_ACQUIRE) != round)
			asm volatile("yield");
	}
	say("mini: executed=%d stale=%d stale_again=%d\n", rounds * REWRITTEN_FUNCTIONS, stale, stale_again);
}
