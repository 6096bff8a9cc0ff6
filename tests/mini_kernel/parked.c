// SPDX-License-Identifier: GPL-2.0-only
/*
 * parked.c - a task that is preempted between its two slots, on purpose, while the other one is written
 *
 * A hardware breakpoint on the second slot takes the place of the timer: its exception comes when the first slot has
 * been executed and the second has not. Whoever patches runs then, and the task goes on after that, as after a context
 * switch. Where ftrace_init has written the MOV (or the build has), only the second slot is written. Where it has not
 * (the nop-nop variant), both are: first the MOV, then the BL, each with all its cache maintenance.
 *
 * CPU 1 runs work.c all the while, and one of its functions is swung live every 16th time.
 */
#include "mini.h"

#define EC_BREAKPOINT	0x31		/* breakpoint exception, from the same exception level */
#define BREAKPOINT_ON	0x1e3		/* DBGBCR<n>_EL1: enabled, at EL1, all four bytes */
#define MDSCR_MDE_KDE	(1ul << 15 | 1ul << 13)
#define UNDISTURBED	1000ul		/* swings between calls, before those inside of one */
#define OTHERS		16		/* so many swings are one of a function that CPU 1 runs */

unsigned long parked_traced;
static unsigned long preemptions, background;
static unsigned long *record, *other;	/* of the parked function, and of the one that CPU 1 runs */
static int turn_on, write_both;

traced u64 work_parked(u64 a)
{
	barrier();
	return a + 1;
}

static notrace u32 *second_slot(void)
{
	return (u32 *)ftrace_call_adjust(*record);
}

notrace int is_parked_site(unsigned long ip)
{
	return record && ip == (unsigned long)second_slot();
}

static notrace void set_breakpoint(u64 addr, u64 control)
{
	asm volatile("msr dbgbvr0_el1, %0\n\t"
		     "msr dbgbcr0_el1, %1\n\t"
		     "isb" :: "r"(addr), "r"(control) : "memory");
}

static notrace void enable_breakpoints(void)
{
	asm volatile("msr vbar_el1, %0\n\t"
		     "msr oslar_el1, xzr\n\t"
		     "msr mdscr_el1, %1\n\t"
		     "isb\n\t"
		     "msr daifclr, #8" :: "r"(parked_vectors), "r"(MDSCR_MDE_KDE) : "memory");
}

static notrace void find_records(void)
{
	unsigned long *p, ip;

	for (p = __start_mcount_loc; p < __stop_mcount_loc; p++) {
		ip = *p ? ftrace_call_adjust(*p) : 0;
		/* The pair may follow a BTI; CALL_OPS functions are 8-aligned, so no other function is as near. */
		if (ip && (ip == (u64)work_parked + 4 || ip == (u64)work_parked + 8))
			record = p;
	}
	if (!record)
		fail("work_parked has no record");
}

/* The next function of work.c, round and round. */
static notrace void next_other(void)
{
	do
		other = other && other + 1 < __stop_mcount_loc ? other + 1 : __start_mcount_loc;
	while (!*other || other == record);
}

/* On and off again for one function that CPU 1 may be in. */
static notrace void swing_other(int on)
{
	if (on)
		next_other();
	swing(other, on);
	background++;
}

/* What is unsafe: MOV and BL written live, one after the other, and taken back in the other order. */
static notrace void swing_both_slots(int on)
{
	u32 *first = second_slot() - 1;

	if (on)
		aarch64_insn_patch_text_nosync(first, INSN_MOV_X9_LR);
	swing(record, on);
	if (!on)
		aarch64_insn_patch_text_nosync(first, INSN_NOP);
}

static notrace void patch(int on)
{
	if (write_both)
		swing_both_slots(on);
	else
		swing(record, on);
}

/* Called by parked.S between the two slots, with all registers of the task saved. */
notrace void task_preempted(u64 esr, u64 elr)
{
	if (esr >> 26 != EC_BREAKPOINT || elr != (u64)second_slot())
		die_exception(esr, elr);
	set_breakpoint(0, 0);
	preemptions++;
	patch(turn_on);
}

/* One call; if it is preempted, the second slot is written after the first was executed. */
static notrace void call_once(int on, int preempted)
{
	unsigned long before = parked_traced;

	turn_on = on;
	if (preempted)
		set_breakpoint((u64)second_slot(), BREAKPOINT_ON);
	else
		patch(on);
	if (CALL(work_parked, 41) != 42)
		fail("the parked function returned a wrong value");
	if (parked_traced != before + (unsigned long)on)
		fail("the parked function executed another second slot than the new one");
}

static notrace void swing_many(unsigned long swings, int preempted)
{
	unsigned long n;
	int on;

	say("mini: slots_written=%d preempted=%d: %d swings\n", write_both ? 2ul : 1ul, (u64)preempted, swings);
	for (n = 0; n < swings; n++)
		for (on = 1; on >= 0; on--) {
			if (!write_both && n % OTHERS == 0)	/* the others have no MOV otherwise */
				swing_other(on);
			call_once(on, preempted);
		}
}

notrace void swing_parked(unsigned long swings)
{
	u32 *first;

	find_records();
	first = second_slot() - 1;
	write_both = *first == INSN_NOP;
	if (!write_both && *first != INSN_MOV_X9_LR)
		fail("the parked function's first slot is neither NOP nor MOV");
	enable_breakpoints();
	swing_many(UNDISTURBED, 0);
	swing_many(swings, 1);
	say("mini: parked_swings=%d preemptions=%d traced=%d background=%d\n", swings, preemptions, parked_traced,
	    background);
}
