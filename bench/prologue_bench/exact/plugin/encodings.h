/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fields and classes of A64 instructions: Arm ARM (DDI 0487), C4.1.
 */
static bool is_pair(uint32_t insn)	/* LDP, STP of X registers */
{
	return (insn & 0xfe000000) == 0xa8000000;
}

static bool loads(uint32_t insn)
{
	return insn >> 22 & 1;
}

static unsigned int rt(uint32_t insn)
{
	return insn & 31;
}

static unsigned int rn(uint32_t insn)
{
	return insn >> 5 & 31;
}

static unsigned int rt2(uint32_t insn)
{
	return insn >> 10 & 31;
}

static bool is_memory(uint32_t insn)
{
	return (insn & 0x0a000000) == 0x08000000;
}

/* An instruction of "Loads and Stores" that only loads: most of them */
static bool is_load(uint32_t insn)
{
	bool load = insn >> 26 & 1 ? loads(insn) : insn >> 22 & 3;

	if ((insn & 0x3b000000) == 0x18000000)		/* literal */
		return true;
	if ((insn & 0x3a000000) == 0x28000000)		/* pair */
		return loads(insn);
	if ((insn & 0x3b000000) == 0x39000000 ||	/* unsigned immediate */
	    (insn & 0x3b200000) == 0x38000000 ||	/* other immediates */
	    (insn & 0x3b200c00) == 0x38200800)		/* register */
		return load;
	return false;
}
