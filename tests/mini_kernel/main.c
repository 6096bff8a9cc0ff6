// SPDX-License-Identifier: GPL-2.0-only
/*
 * main.c - relocation, console, and what CPU 0 does: ftrace_init, then swing every second slot live
 *
 * Not instrumented. Every line that it prints, but the first one, begins with "mini: "; the last one is PASS or FAIL.
 */
#include "mini.h"

#define PL011		((volatile u32 *)0x09000000)
#define PSCI_CPU_ON	0xc4000003u
#define PSCI_SYSTEM_OFF	0x84000008u
#define SWINGS		20
#define PATIENCE	200000000ul	/* spins until CPU 1 counts as stuck */

struct rela {
	u64 offset, info;
	u64 addend;
};

extern struct rela __rela_start[], __rela_end[];
extern u64 __relr_start[], __relr_end[];
void secondary_entry(void);
long psci(u32 fn, u64 a, u64 b, u64 c);

unsigned long kaslr_offset;
static unsigned long calls, bad_x9;
const char linux_banner[] = "Linux version " MINI_RELEASE " (made by prologue)\n";

/* With version 2 of the marker, entries are taken out of the table, and zeros end it. */
static int ends_table(const struct rela *rela)
{
	return MINI_MARKER == 2 && !rela->info;
}

/* Runs before anything else and so uses no pointer that it has yet to relocate. */
void relocate_kernel(u64 offset)
{
	struct rela *rela;
	u64 *relr, *where = (u64 *)0, bits;
	int i;

	for (rela = __rela_start; rela < __rela_end && !ends_table(rela); rela++)
		if ((u32)rela->info == 0x403)		/* R_AARCH64_RELATIVE */
			*(u64 *)(rela->offset + offset) = rela->addend + offset;
	for (relr = __relr_start; relr < __relr_end; relr++) {
		if (!(*relr & 1)) {
			where = (u64 *)(*relr + offset);
			*where++ += offset;
			continue;
		}
		for (i = 0, bits = *relr >> 1; bits; i++, bits >>= 1)
			if (bits & 1)
				where[i] += offset;
		where += 63;
	}
}

static char vmcoreinfo[512], *written = vmcoreinfo;
static int says_in_memory;

static void put(char c)
{
	if (says_in_memory)
		*written++ = c;
	else
		*PL011 = (u32)c;
}

static void put_number(u64 value, u32 base)
{
	char digits[24];
	int n = 0;

	do
		digits[n++] = "0123456789abcdef"[value % base];
	while (value /= base);
	while (n)
		put(digits[--n]);
}

/* %s string, %d unsigned decimal, %x hexadecimal with 0x; all numbers are 64 bits. */
void say(const char *fmt, ...)
{
	__builtin_va_list args;
	const char *s;

	__builtin_va_start(args, fmt);
	for (; *fmt; fmt++) {
		if (*fmt != '%') {
			put(*fmt);
			continue;
		}
		switch (*++fmt) {
		case 's':
			for (s = __builtin_va_arg(args, const char *); *s; s++)
				put(*s);
			break;
		case 'd':
			put_number(__builtin_va_arg(args, u64), 10);
			break;
		case 'x':
			put('0');
			put('x');
			put_number(__builtin_va_arg(args, u64), 16);
		}
	}
	__builtin_va_end(args);
}

static void __attribute__((noreturn)) power_off(void)
{
	psci(PSCI_SYSTEM_OFF, 0, 0, 0);
	for (;;)
		;
}

void fail(const char *why)
{
	say("mini: calls=%d bad_x9=%d\nmini: FAIL %s\n", calls, bad_x9, why);
	power_off();
}

void die_exception(u64 esr, u64 elr)
{
	say("mini: exception esr=%x elr=%x\n", esr, elr - kaslr_offset);
	fail("exception");
}

/* Called by code that is compiled with a stack protector. */
void __attribute__((noreturn)) __stack_chk_fail(void);
void __stack_chk_fail(void)
{
	fail("the stack was overwritten");
}

static int in_text(u64 addr)
{
	return !(addr & 3) && ((addr >= (u64)_stext && addr < (u64)_etext) ||
			       (addr >= (u64)_sinittext && addr < (u64)_einittext));
}

/*
 * Called by ftrace_caller with the address after the second slot and with x9: is x9 where the traced function
 * was called from? The instruction before it must be a BLR, or a BL to this very function.
 */
void ftrace_trace(u64 ip, u64 x9)
{
	u64 entry = ip - 8, target;
	u32 call;

	calls++;
#ifdef MINI_PARKED
	if (is_parked_site(ip - 4))
		parked_traced++;
#endif
	if (in_text(x9) && in_text(x9 - 4)) {
		call = *(u32 *)(x9 - 4);
		if ((call & 0xfffffc1f) == 0xd63f0000)
			return;
		target = x9 - 4 + ((long)((u64)call << 38) >> 36);
		if ((call & 0xfc000000) == 0x94000000 &&
		    (target == entry || (target == entry - 4 && *(u32 *)target == INSN_BTI_C)))
			return;
	}
	bad_x9++;
	say("mini: bad x9=%x at=%x\n", x9, ip - kaslr_offset);
	fail("a second slot was called before its first slot had saved LR");
}

static void wait_for_rounds(unsigned long more)
{
	unsigned long goal = work_rounds + more, patience = PATIENCE;

	while (work_rounds < goal)
		if (!--patience)
			fail("CPU 1 makes no progress");
}

/* Replace a second slot, if it holds what it should. */
void swing_ip(unsigned long ip, int on)
{
	u32 call = aarch64_insn_gen_branch_link(ip, (unsigned long)ftrace_caller), old;

	if (aarch64_insn_read((void *)ip, &old) || old != (on ? INSN_NOP : call)) {
		ftrace_bug(ip, on ? INSN_NOP : call);
		fail("ftrace bug");
	}
	aarch64_insn_patch_text_nosync((void *)ip, on ? call : INSN_NOP);
	ftrace_note(ip, on);
}

void swing(unsigned long *record, int on)
{
	swing_ip(ftrace_call_adjust(*record), on);
}

/* Goes by the table: ftrace_init, cut short, has no records. */
static void swing_all(int on)
{
	unsigned long k, ip;

	for (k = 0; k < ftrace_slots(); k++) {
		ip = ftrace_ip(k);
		if (ip)
			swing_ip(ip, on);
	}
}

#ifdef MINI_MAPPED
extern char swapper_pg_dir[];

/* What readers of a dump look for: where the page tables are, and so where all else is. */
static void __init write_vmcoreinfo(void)
{
	says_in_memory = 1;
	say("OSRELEASE=" MINI_RELEASE "\nPAGESIZE=4096\nKERNELOFFSET=0\nNUMBER(VA_BITS)=48\n"
	    "NUMBER(TCR_EL1_T1SZ)=0x10\nNUMBER(kimage_voffset)=%x\nSYMBOL(swapper_pg_dir)=%x\nSYMBOL(_stext)=%x\n",
	    MINI_VOFFSET, swapper_pg_dir, _stext);
	says_in_memory = 0;
}
#else
static void write_vmcoreinfo(void) { }
#endif

void start_kernel(u64 offset)
{
	unsigned long k, sites = 0, writes;
	int i;

	kaslr_offset = offset;
	say(linux_banner);
#ifdef MINI_STOCK
	say("mini: form=%s layout=%s bti=%d contract=stock\n", MINI_FORM, MINI_LAYOUT, (u64)MINI_BTI);
#else
	say("mini: form=%s layout=%s bti=%d contract=native marker=%d\n", MINI_FORM, MINI_LAYOUT, (u64)MINI_BTI,
	    (u64)MINI_MARKER);
#endif
	write_vmcoreinfo();
	ftrace_init();
	writes = text_writes;
	for (k = 0; k < ftrace_slots(); k++)
		sites += !!ftrace_ip(k);
	say("mini: state=%s writes=%d literals=%d sites=%d\n", ftrace_records_moved() ? "processed" : "unprocessed",
	    writes, literal_writes, sites);
	if (ftrace_disabled)
		fail("ftrace bug");

	if (ftrace_first_use())
		fail("ftrace bug");
	if (psci(PSCI_CPU_ON, 1, (u64)secondary_entry - MINI_VOFFSET, 0))
		fail("CPU 1 does not start");
#ifdef MINI_REWRITTEN
	rewrite(MINI_REWRITTEN);
	say("mini: PASS\n");
	power_off();
#endif
	wait_for_rounds(1);
#ifdef MINI_PARKED
	swing_parked(MINI_PARKED);
#endif
	for (i = 0; i < SWINGS; i++) {
		swing_all(1);
		wait_for_rounds(2);
		swing_all(0);
		wait_for_rounds(1);
	}
	swing_all(1);	/* so that is what memory has at the end */
	wait_for_rounds(1);
	stop_work = 1;
	if (work_errors)
		fail("a function returned a wrong value");
	if (!calls)
		fail("nothing was traced");
	if (MINI_MARKER == 2)
		say("mini: literals_at_use=%d\n", literal_writes);
	say("mini: calls=%d swings=%d bad_x9=%d\nmini: PASS\n", calls, (u64)SWINGS, bad_x9);
	power_off();
}
