// SPDX-License-Identifier: GPL-2.0-only
/* GCC knows which registers leaf() changes (-fipa-ra). It does without that where the option asks for NOPs, but not where
 * only the attribute does. */
#define NOPS __attribute__((patchable_function_entry(2)))
#ifndef TRACED
#define TRACED NOPS
#endif

TRACED __attribute__((noinline)) static long leaf(long a)
{
	asm volatile("");
	return a * 3;
}

NOPS long hold(long a, long b, long c, long d, long e, long f, long g, long h, long *p)
{
	long i = p[0], j = p[1], k = p[2];

	return leaf(a) + a * b + c * 3 + d * 5 + e * 7 + f * 9 + g * 11 + h * 13 + i * 17 + j * 19 + k * 23;
}
