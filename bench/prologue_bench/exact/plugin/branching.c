// SPDX-License-Identifier: GPL-2.0-only
/* What instructions do to the flow. */
#include "branching.h"
#include "inside.h"

static int64_t signed_field(uint32_t word, int low, int width)
{
	return (int64_t)((uint64_t)word << (64 - low - width)) >> (64 - width);
}

enum kind kind_of(uint32_t word)
{
	if ((word & 0x7c000000) == 0x14000000)
		return DIRECT;
	if ((word & 0xff000000) == 0x54000000 ||	/* B.cond, BC.cond */
	    (word & 0x7c000000) == 0x34000000)		/* CB*, TB* */
		return CONDITIONAL;
	if ((word & 0xfe000000) == 0xd6000000)
		return (word & 0x01e00000) == 0x00800000 ? ERET : INDIRECT;
	if ((word & 0xffe00000) == 0xd4000000 && (word & 3) && !(word & 0x1c))
		return CALL;
	return PLAIN;
}

uint64_t target_of(enum kind kind, uint32_t word, uint64_t vaddr)
{
	if (kind == DIRECT)
		return vaddr + 4 * signed_field(word, 0, 26);
	if ((word & 0x7e000000) == 0x36000000)		/* TBZ, TBNZ */
		return vaddr + 4 * signed_field(word, 5, 14);
	return vaddr + 4 * signed_field(word, 5, 19);
}

/* C1.2.4 "Condition code"; flags are N, Z, C, V from bit 3 down. */
static bool holds(unsigned int condition, unsigned int flags)
{
	bool n = flags & 8, z = flags & 4, c = flags & 2, v = flags & 1, yes;

	switch (condition >> 1) {
	case 0: yes = z; break;
	case 1: yes = c; break;
	case 2: yes = n; break;
	case 3: yes = v; break;
	case 4: yes = c && !z; break;
	case 5: yes = n == v; break;
	case 6: yes = n == v && !z; break;
	default: return true;
	}
	return yes != (condition & 1);
}

bool needs_flags(uint32_t word)
{
	return (word & 0xff000000) == 0x54000000;
}

bool reads_elr(uint32_t word)
{
	return (word & 0xfffbffe0) == 0xd5384020;
}

bool is_taken(void *cpu, uint32_t word)
{
	uint64_t value;

	if (needs_flags(word))
		return holds(word & 15, read_register(cpu, REGISTER_CPSR) >> 28);
	value = read_register(cpu, word & 31);
	if ((word & 0x7e000000) == 0x36000000)
		value &= 1ull << ((word >> 26 & 0x20) | (word >> 19 & 0x1f));
	else if (!(word >> 31))
		value = (uint32_t)value;
	return !value == !(word & 0x01000000);
}

bool may_trap(uint32_t word)
{
	unsigned int group = word >> 25 & 15;

	if ((group & 14) == 8)				/* immediate */
		return false;
	if ((group & 7) == 5)				/* register */
		return (word & 0xffff0000) == 0xdac10000;
	return kind_of(word) == PLAIN && word != 0xd503201f;	/* NOP */
}

/* C5.2: op0, op1, CRn, CRm and op2 of the register, in bits 20:5 */
enum watch watch_of(uint32_t word)
{
	if ((word & 0xfff00000) != 0xd5100000)
		return NOTHING;
	switch (word & 0x000fffe0) {
	case 0x84100:		/* SP_EL0 */
		return SP_EL0;
	case 0x84020:		/* ELR_EL1 */
	case 0xc4020:		/* ELR_EL2 */
		return ELR;
	case 0xc2100:		/* VTTBR_EL2 */
		return VTTBR_EL2;
	case 0xc1100:		/* HCR_EL2 */
		return HCR_EL2;
	}
	return NOTHING;
}
