// SPDX-License-Identifier: GPL-2.0-only
/*
 * guest.c - one CPU writes a word of each function, twice, as a kernel writes text; the other one runs them all
 *
 * Arm ARM, "Concurrent modification and execution of instructions" and "Ordering and completion of data and
 * instruction cache instructions": once the writer has cleaned and invalidated to the point of unification, with the
 * barriers, and the reader has seen a flag that was stored after that and executed an ISB, the reader executes the new
 * word. So does a kernel whose second CPU took an IPI. Every word but the last one written is stale then. A B may be
 * written while it is executed, as a BL may.
 */
typedef unsigned int u32;
typedef unsigned long u64;
typedef u64 function(void);

#define B_TO(value)	(0x14000001u + 2 * (value))	/* each target is two words long */
#define WRITTEN		8		/* index of the word that is written, in its function */
#define BETWEEN		2		/* what the first of two writes leads to; the second one: 0 or 1 */
#define PSCI_CPU_ON	0xc4000003ul
#define PSCI_OFF	0x84000008ul
#define UART		((volatile u32 *)0x09000000)

extern u32 functions[FUNCTIONS][WORDS];
extern u64 psci(u64 call, u64 a, u64 b, u64 c);
extern void secondary_entry(void);

static u32 written, checked;		/* rounds */
static u64 stale, stale_again;

static void print(const char *text)
{
	while (*text)
		*UART = (u32)*text++;
}

static void print_number(u64 value)
{
	char digits[21], *at = digits + 20;

	*at = '\0';
	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	print(at);
}

static void power_off(void)
{
	psci(PSCI_OFF, 0, 0, 0);
	for (;;)
		;
}

void unexpected(void)
{
	print("unexpected exception\n");
	power_off();
}

static u64 run(u32 index)
{
	return ((function *)functions[index])();
}

static void write_text(u32 *word, u32 value)
{
	*(volatile u32 *)word = value;
	asm volatile("dc cvau, %0\n\tdsb ish\n\tic ivau, %0\n\tdsb ish\n\tisb" :: "r"(word) : "memory");
}

void run_all(void)
{
	u32 seen = 0, round;

	for (;;) {
		round = __atomic_load_n(&written, __ATOMIC_ACQUIRE);
		asm volatile("isb" ::: "memory");
		for (u32 index = 0; index < FUNCTIONS; index++) {
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

void write_all(void)
{
	psci(PSCI_CPU_ON, 1, (u64)secondary_entry, 0);
	for (u32 round = 1; round <= ROUNDS; round++) {
		for (u32 index = 0; index < FUNCTIONS; index++) {
			write_text(&functions[index][WRITTEN], B_TO(BETWEEN));
			for (u32 delay = (round * 13 + index * 7) % 200; delay; delay--)
				asm volatile("nop");
			write_text(&functions[index][WRITTEN], B_TO(round & 1));
		}
		__atomic_store_n(&written, round, __ATOMIC_RELEASE);
		while (__atomic_load_n(&checked, __ATOMIC_ACQUIRE) != round)
			asm volatile("yield");
	}
	print("executed=");
	print_number((u64)ROUNDS * FUNCTIONS);
	print(" stale=");
	print_number(stale);
	print(" stale_again=");
	print_number(stale_again);
	print("\n");
	power_off();
}
