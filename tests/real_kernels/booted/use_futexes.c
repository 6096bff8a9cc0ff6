// SPDX-License-Identifier: GPL-2.0-only
/*
 * An init that asks for a futex on each of two CPUs and then powers off. No
 * library: the numbers are those of include/uapi.
 */
#define __NR_futex 98
#define __NR_sched_setaffinity 122
#define __NR_reboot 142

#define FUTEX_WAKE 1
#define POWER_OFF 0x4321fedc

static long call(long number, long a, long b, long c, long d)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0") = a;
	register long x1 asm("x1") = b;
	register long x2 asm("x2") = c;
	register long x3 asm("x3") = d;

	asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

void _start(void)
{
	static unsigned int word;

	for (unsigned long mask = 1; mask <= 2; mask <<= 1) {
		call(__NR_sched_setaffinity, 0, sizeof(mask), (long)&mask, 0);
		call(__NR_futex, (long)&word, FUTEX_WAKE, 1, 0);
	}
	call(__NR_reboot, (int)0xfee1dead, 672274793, POWER_OFF, 0);
	for (;;)
		;
}
