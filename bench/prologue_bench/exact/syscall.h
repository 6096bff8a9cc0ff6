// SPDX-License-Identifier: GPL-2.0-only
/*
 * syscall.h - system calls of arm64 for programs without a library
 */
static long call(long number, long a, long b, long c, long d, long e)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0") = a;
	register long x1 asm("x1") = b;
	register long x2 asm("x2") = c;
	register long x3 asm("x3") = d;
	register long x4 asm("x4") = e;

	asm volatile("svc #0" : "+r"(x0)
		     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
}
