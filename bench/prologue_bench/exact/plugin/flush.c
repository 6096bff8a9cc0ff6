// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maintenance of caches, and barriers: which instructions these are, and which
 * address a DC or an IC was for.
 *
 * Registers can be read when a block begins only (inside.h). So what came since
 * a DC waits for the next block of this CPU, and the DC's address is what its
 * register holds then, less what was added to it in between: the kernel's loops
 * (arch/arm64/include/asm/assembler.h, dcache_by_line_op) go on with
 * ADD Xt, Xt, Xn after it.
 */
#include "encodings.h"
#include "flush.h"
#include "inside.h"
#include "memory.h"
#include "rows.h"

enum { WAITING = 16, DEFAULT_LINE = 64 };

/* In 64 bits: a step, Xt, the register that was added to it, and a number */
enum { XT = 8, ADDED = 16, KNOWN = 24, HAS_XT = 25, NUMBER = 32, NONE = 31 };

static struct queue {
	size_t n;
	struct { uint64_t what, x29, syncs; } entries[WAITING];	/* RETURNED: the frame */
} __attribute__((aligned(64))) queues[MAX_CPUS];

bool registers_known;
uint64_t unaddressed;

/* Arm ARM DDI 0487, "System instructions": SYS and barriers; 0 if neither */
static enum step step_of(uint32_t insn)
{
	switch (insn & ~31u) {
	case 0xd50b7b20: case 0xd50b7a20: case 0xd50b7c20:	/* CVAU CVAC CVAP */
	case 0xd50b7d20: case 0xd50b7e20:			/* CVADP CIVAC */
		return DC;
	case 0xd50b7520:
		return IC_IVAU;
	case 0xd5087500:
		return IC_IALLU;
	case 0xd5087100:
		return IC_IALLUIS;
	}
	if ((insn & 0xfffff0ff) == 0xd503309f)
		return (insn >> 8 & 15) == 0 || (insn >> 8 & 15) == 4 ? 0 : DSB;
	return (insn & 0xfffff0ff) == 0xd50330df ? ISB : 0;
}

/* Whether an instruction may write a register; rather too often */
static bool may_write(uint32_t insn, unsigned int reg)
{
	if ((insn & 0x1c000000) == 0x10000000 || (insn & 0x0e000000) == 0x0a000000)
		return rt(insn) == reg;
	if (is_memory(insn))
		return rt(insn) == reg || rt2(insn) == reg || rn(insn) == reg;
	if ((insn & 0xfff00000) == 0xd5300000)		/* MRS */
		return rt(insn) == reg;
	return reg == 30;				/* BL */
}

uint64_t describe(const uint32_t *insns, size_t n, size_t k)
{
	unsigned int t = rt(insns[k]), by = NONE;
	uint64_t step = step_of(insns[k]);
	int32_t number = 0;

	if ((step != DC && step != IC_IVAU) || t == NONE)
		return step;
	step |= 1ull << HAS_XT | (uint64_t)t << XT;
	for (size_t next = k + 1; next < n; next++) {
		uint32_t insn = insns[next];
		bool same = rt(insn) == t && rn(insn) == t;

		if (same && (insn & 0xffe0fc00) == 0x8b000000 && by == NONE &&
		    (insn >> 16 & 31) != t)		/* ADD Xt, Xt, Xm */
			by = insn >> 16 & 31;
		else if (same && (insn & 0xffc00000) == 0x91000000)
			number += insn >> 10 & 0xfff;	/* ADD Xt, Xt, #imm */
		else if (may_write(insn, t) || (by != NONE && may_write(insn, by)))
			return step;
	}
	return step | (uint64_t)by << ADDED | 1ull << KNOWN | (uint64_t)(uint32_t)number << NUMBER;
}

/* cpu: NULL where registers cannot be read now */
static struct lines lines_of(uint64_t what, void *cpu)
{
	uint64_t ctr = ctr_el0(), at;
	unsigned int field = (what & 0xff) == DC ? ctr >> 16 & 15 : ctr & 15;
	uint64_t size = ctr ? 4ull << field : DEFAULT_LINE;

	if (!cpu || !(what >> KNOWN & 1)) {
		unaddressed++;
		return (struct lines){};
	}
	at = read_register(cpu, what >> XT & 31) - (what >> NUMBER) -
	     read_register(cpu, what >> ADDED & 31);
	at &= ~(size - 1);
	return (struct lines){ at, physical(at), size };
}

bool is_waiting(unsigned int index)
{
	return queues[index].n;
}

void settle(unsigned int index, void *cpu)
{
	struct queue *queue = &queues[index];

	for (size_t k = 0; k < queue->n; k++) {
		uint64_t what = queue->entries[k].what, x29 = queue->entries[k].x29;

		if (what == RETURNED)
			popped(x29);
		else
			maintained(index, queue->entries[k].syncs, x29, what & 0xff,
				   what >> HAS_XT ? lines_of(what, cpu) : (struct lines){});
	}
	queue->n = 0;
}

void happened(unsigned int index, uint64_t what, uint64_t x29)
{
	struct queue *queue = &queues[index];

	if (queue->n == WAITING)
		settle(index, NULL);
	queue->entries[queue->n].what = what;
	queue->entries[queue->n].syncs = cpus[index].syncs;
	queue->entries[queue->n++].x29 = x29;
	if (queue->n == 1 && !(what >> HAS_XT && registers_known))
		settle(index, NULL);
}
