// SPDX-License-Identifier: GPL-2.0-only
/*
 * ftrace.c - boot-time side of ftrace, both contracts
 *
 *		layout 2			layout 4,2 (CALL_OPS)
 *
 *						-8	NOP  <- record	} literal: &ftrace_nop_ops
 *						-4	NOP		} (func is 8-aligned)
 *	func:	[BTI C]				func:	[BTI C]
 *		NOP	<- record		 	NOP	first slot, MOV X9, X30
 *		NOP	<- rec->ip		 	NOP	<- rec->ip, second slot, BL ftrace_caller
 *
 * native, 2	(MINI_MARKER) If the marker is set, one loop takes the records: 32-bit offsets of second slots from
 *		_text, or (MINI_PLAIN) their addresses. Literals are set when something is first traced. No text is
 *		written at boot.
 * native, 1	If the marker (ftrace-prologue.lds.h) is set, records already are rec->ip and the first slots hold
 *		MOV: no text is written. Functions are those of kernel/trace/ftrace.c and arch/arm64/kernel/ftrace.c
 *		by name and by what they do.
 * stock	(MINI_STOCK) There is no marker: records are always adjusted, first slots must be NOP.
 */
#include "mini.h"

int ftrace_disabled;
struct dyn_ftrace ftrace_records[MOST_FUNCTIONS];
struct ftrace_page *ftrace_pages_start;
static struct ftrace_page ftrace_page;
static unsigned long ftrace_count;
#ifdef MINI_CALL_OPS
const struct ftrace_ops ftrace_nop_ops = { 0 };
#endif

#if MINI_MARKER == 2
#ifdef MINI_PLAIN
#define TAKEN_AS	0
#else
#define TAKEN_AS	MARKER_OFFSETS
#endif
struct prologue_marker __ftrace_prologue_marker __attribute__((used, aligned(8), section(".init.data"))) = {
	.magic = 0x4555474f4c4f5250, .version = 2, .flags = TAKEN_AS,
};

/* The build step has made them: nothing else is to be done at boot. */
static void __init ftrace_take_records(void)
{
	u64 sites = *(volatile u64 *)&__ftrace_prologue_marker.sites;
	const u32 *offset = (const u32 *)__start_mcount_loc;

	if (sites > MOST_FUNCTIONS) {
		ftrace_disabled = 1;
		return;
	}
	for (; ftrace_count < sites; ftrace_count++)
		ftrace_records[ftrace_count].ip =
			TAKEN_AS ? (unsigned long)_text + offset[ftrace_count] : __start_mcount_loc[ftrace_count];
}
#else
static void ftrace_take_records(void) { }
#endif

/* Read once, before anything else. */
#ifndef MINI_STOCK
static int ftrace_prologues_built;

int __init noinline ftrace_dyn_arch_init(void)
{
	ftrace_prologues_built = *(volatile u32 *)&__ftrace_prologue_marker.flags & MARKER_PROCESSED;
	return 0;
}
#else
#define ftrace_prologues_built	0
int __init noinline ftrace_dyn_arch_init(void)
{
	return 0;
}
#endif

int ftrace_records_moved(void)
{
	return ftrace_prologues_built;
}

void ftrace_bug(unsigned long ip, u32 expected)
{
	ftrace_disabled = 1;
	if (ip & 3)
		say("mini: ftrace bug at=%x\n", ip - kaslr_offset);
	else
		say("mini: ftrace bug at=%x expected=%x found=%x\n", ip - kaslr_offset, (u64)expected,
		    (u64)*(u32 *)ip);
}

#define within(addr, start, stop)	((addr) >= (unsigned long)(start) && (addr) < (unsigned long)(stop))

static int ftrace_record_is_adjusted(unsigned long addr)
{
	if (!ftrace_prologues_built || MINI_MARKER == 2)
		return 0;
	return within(addr, _sinittext, _einittext) || within(addr, _stext, _etext);
}

static unsigned long adjusted(unsigned long addr)
{
#ifdef MINI_CALL_OPS
	if (addr & 7)
		return 0;
	addr += 8;
	if (*(u32 *)addr == INSN_BTI_C)
		addr += 4;
#endif
	return addr + 4;
}

/* From the record to rec->ip; 0 if it cannot be one. */
unsigned long noinline ftrace_call_adjust(unsigned long addr)
{
	if (ftrace_record_is_adjusted(addr))
		return addr;
	return adjusted(addr);
}

/* With or without BTI between them, the literal is the aligned 8 bytes 12 or 16 before rec->ip. */
u64 *ftrace_literal(unsigned long ip)
{
	return (u64 *)((ip - 12) & ~7ul);
}

/* The table says where records are, also after a ftrace_init that was cut short. */
unsigned long ftrace_slots(void)
{
	if (MINI_MARKER == 2 && ftrace_prologues_built)
		return ftrace_count;
	return (unsigned long)(__stop_mcount_loc - __start_mcount_loc);
}

unsigned long ftrace_ip(unsigned long k)
{
	if (MINI_MARKER == 2 && ftrace_prologues_built)
		return ftrace_records[k].ip;
	return __start_mcount_loc[k] ? ftrace_call_adjust(__start_mcount_loc[k]) : 0;
}

static int ftrace_rec_set_nop_ops(struct dyn_ftrace *rec)
{
#ifdef MINI_CALL_OPS
	return aarch64_insn_write_literal_u64(ftrace_literal(rec->ip), (u64)&ftrace_nop_ops);
#else
	(void)rec;
	return 0;
#endif
}

static int ftrace_modify_code(unsigned long pc, u32 old, u32 new)
{
	u32 found;

	if (aarch64_insn_read((void *)pc, &found))
		return -EFAULT;
	if (found != old)
		return -EINVAL;
	if (aarch64_insn_patch_text_nosync((void *)pc, new))
		return -EIO;
	return 0;
}

/*
 * The function that the stock contract neutralises: literal first, then the MOV. A processed stock kernel
 * returns at once (layout 2), or right after the literal (layout 4,2). A native one whose marker is set writes the
 * literal only.
 */
int noinline ftrace_init_nop(struct module *mod, struct dyn_ftrace *rec)
{
	u32 new;
	int ret;

	if (!rec->ip)
		return -EINVAL;
	ret = ftrace_rec_set_nop_ops(rec);
	if (ret)
		return ret;
	if (!mod && ftrace_prologues_built)
		return 0;
	new = aarch64_insn_gen_move_reg(9, 30, 1);
	return ftrace_modify_code(rec->ip - 4, INSN_NOP, new);
}

static int __init noinline ftrace_process_locs(struct module *mod, unsigned long *start, unsigned long *end)
{
	unsigned long *p, addr;
	struct dyn_ftrace *rec;
	int ret;

	for (p = start; p < end; p++) {
		if (!*p)
			continue;
		if (ftrace_count == MOST_FUNCTIONS) {
			ftrace_disabled = 1;
			return -ENOMEM;
		}
		addr = ftrace_call_adjust(*p);
		rec = &ftrace_records[ftrace_count++];
		rec->ip = addr;
		ret = ftrace_init_nop(mod, rec);
		if (ret) {
			ftrace_bug(rec->ip ? rec->ip - 4 : *p, INSN_NOP);
			return ret;
		}
	}
	return 0;
}

void __init noinline ftrace_init(void)
{
	if (ftrace_dyn_arch_init())
		return;
	if (MINI_MARKER == 2 && ftrace_prologues_built)
		ftrace_take_records();
	else
		ftrace_process_locs((struct module *)0, __start_mcount_loc, __stop_mcount_loc);
	ftrace_page.records = ftrace_records;
	ftrace_page.index = (int)ftrace_count;
	ftrace_pages_start = &ftrace_page;
}

void ftrace_note(unsigned long ip, int on)
{
	unsigned long k;

	for (k = 0; k < ftrace_count; k++)
		if (ftrace_records[k].ip == ip)
			ftrace_records[k].flags = on ? FTRACE_FL_ENABLED : 0;
}

/* Before the first BL of all: each record is checked, and its literal set. */
int ftrace_first_use(void)
{
	unsigned long k, ip, last = 0;

	if (MINI_MARKER != 2 || !ftrace_prologues_built)
		return 0;
	for (k = 0; k < ftrace_count; last = ip, k++) {
		ip = ftrace_records[k].ip;
		if (ip <= last || !(within(ip, _stext, _etext) || within(ip, _sinittext, _einittext)) ||
		    *(u32 *)(ip - 4) != INSN_MOV_X9_LR || *(u32 *)ip != INSN_NOP) {
			ftrace_bug(ip, INSN_NOP);
			return -EINVAL;
		}
		if (ftrace_rec_set_nop_ops(&ftrace_records[k]))
			return -EFAULT;
	}
	return 0;
}
