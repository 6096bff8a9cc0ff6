// SPDX-License-Identifier: GPL-2.0-only
/*
 * work.c - the instrumented functions, and the loop that CPU 1 runs over them
 *
 * The only file (with weak.c) compiled with -fpatchable-function-entry, and with -ffixed-x9: the compiler
 * never touches x9 here. Every call goes through CALL(), which poisons x9 first. So when a trampoline sees
 * anything but the poison, the callee's own first slot has put it there - a stale x9 cannot pass for an LR,
 * not in recursion and not when the same call is made twice.
 *
 * work_init() stands last and in .init.text, so that the record table comes out sorted.
 */
#include "mini.h"

struct eight {
	u64 v[8];
};

volatile int stop_work;
volatile unsigned long work_rounds, work_errors;

traced u64 work_init(u64 a);
traced u64 work_chosen(void);

traced void work_empty(void)
{
	barrier();
}

traced u64 work_leaf(u64 a)
{
	barrier();
	return 3 * a + 1;
}

static traced u64 work_local(u64 a)	/* its address is never taken: GCC gives it no BTI */
{
	barrier();
	return a ^ 0x55;
}

traced u64 work_middle(u64 a)
{
	barrier();
	return CALL(work_leaf, a) + CALL(work_local, a);
}

traced u64 work_nested(u64 a)
{
	barrier();
	return CALL(work_middle, a) - CALL(work_middle, a + 1);
}

traced u64 work_fibonacci(u64 n)
{
	barrier();
	return n < 2 ? n : CALL(work_fibonacci, n - 1) + CALL(work_fibonacci, n - 2);
}

traced int work_odd(u64 n);
traced int work_even(u64 n)
{
	barrier();
	return n ? CALL(work_odd, n - 1) : 1;
}

traced int work_odd(u64 n)
{
	barrier();
	return n ? CALL(work_even, n - 1) : 0;
}

/* All eight argument registers, in an order that a swap would show. */
traced u64 work_arguments(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h)
{
	barrier();
	return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h;
}

/* The result's address comes in x8. */
traced struct eight work_struct(u64 a)
{
	barrier();
	return (struct eight){ { a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7 } };
}

static traced u64 work_add(u64 a, u64 b)
{
	barrier();
	return a + b;
}

static traced u64 work_sub(u64 a, u64 b)
{
	barrier();
	return a - b;
}

static u64 (*work_table[])(u64, u64) = { work_add, work_sub };	/* two pointers that need relocation */

traced u64 work_indirect(u64 i, u64 a, u64 b)
{
	u64 (*volatile fn)(u64, u64) = work_table[i & 1];

	return CALL(fn, a, b);
}

/* Overrides the weak one of weak.c, if that is linked. */
traced u64 work_chosen(void)
{
	barrier();
	return 2;
}

static notrace void expect(int good)
{
	if (!good)
		work_errors++;
}

notrace void work_loop(void)
{
	while (!stop_work) {
		CALL(work_empty);
		expect(CALL(work_leaf, 4) == 13);
		expect(CALL(work_nested, 5) == (u64)-6);
		expect(CALL(work_fibonacci, 7) == 13);
		expect(CALL(work_even, 6) && !CALL(work_odd, 6));
		expect(CALL(work_arguments, 1, 2, 3, 4, 5, 6, 7, 8) == 362);
		expect(CALL(work_struct, 10).v[7] == 17);
		expect(CALL(work_indirect, 0, 7, 3) == 10);
		expect(CALL(work_indirect, 1, 7, 3) == 4);
		expect(CALL(work_chosen) == 2);
		expect(CALL(work_init, 35) == 42);
		work_rounds++;
	}
}

traced u64 __init work_init(u64 a)
{
	barrier();
	return a + 7;
}
