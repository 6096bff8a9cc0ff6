// SPDX-License-Identifier: GPL-2.0-only
/*
 * insn.c - reading and writing instructions (names as in arch/arm64/kernel/patching.c and lib/insn.c)
 *
 * A file of its own, so that ftrace.c really calls these: the stock contract looks for the calls.
 */
#include "mini.h"

unsigned long text_writes;		/* instruction words written */
unsigned long literal_writes;		/* CALL_OPS literals written: data, not text */

static void sync_icache(void *addr)
{
	asm volatile("dc cvau, %0\n\t"
		     "dsb ish\n\t"
		     "ic ivau, %0\n\t"
		     "dsb ish\n\t"
		     "isb" :: "r"(addr) : "memory");
}

int aarch64_insn_read(void *addr, u32 *insnp)
{
	if ((u64)addr & 3)
		return -EFAULT;
	*insnp = *(volatile u32 *)addr;
	return 0;
}

int aarch64_insn_patch_text_nosync(void *addr, u32 insn)
{
	if ((u64)addr & 3)
		return -EINVAL;
	*(volatile u32 *)addr = insn;	/* one aligned 32-bit store: another CPU sees all of it or none */
	sync_icache(addr);
	text_writes++;
	return 0;
}

int aarch64_insn_write_literal_u64(void *addr, u64 val)
{
	if ((u64)addr & 7)
		return -EFAULT;
	*(volatile u64 *)addr = val;
	literal_writes++;
	return 0;
}

/* MOV Xd, Xm is ORR Xd, XZR, Xm; variant 0 is the 32-bit one. */
u32 aarch64_insn_gen_move_reg(int dst, int src, int variant)
{
	return (variant ? 0xaa0003e0u : 0x2a0003e0u) | (u32)src << 16 | (u32)dst;
}

u32 aarch64_insn_gen_branch_link(unsigned long pc, unsigned long addr)
{
	return 0x94000000u | (((addr - pc) >> 2) & 0x3ffffff);
}
