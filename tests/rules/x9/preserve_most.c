// SPDX-License-Identifier: GPL-2.0-only
/* Clang promises the caller that slow_path() changes none of X9-X15, so fast() keeps its arguments there. */
#ifndef TRACED
#define TRACED
#endif

TRACED __attribute__((preserve_most, noinline)) void slow_path(int *a)
{
	*a += 1;
	asm volatile("");
}

int fast(int a, int b, int c, int d, int e, int f, int g, int h)
{
	int x[2] = { a, b };

	if (h)
		slow_path(&x[1]);
	return x[1] + a + b * 3 + c * 5 + d * 7 + e * 9 + f * 11 + g * 13 + h;
}
