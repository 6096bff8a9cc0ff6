/* SPDX-License-Identifier: GPL-2.0-only */
/* Fields and classes of A64 instructions: Arm ARM (DDI 0487), C4.1. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline bool is_pair(uint32_t insn)	/* LDP, STP of X registers */
{
	return (insn & 0xfe000000) == 0xa8000000;
}

static inline bool loads(uint32_t insn)
{
	return insn >> 22 & 1;
}

static inline unsigned int rt(uint32_t insn)
{
	return insn & 31;
}

static inline unsigned int rn(uint32_t insn)
{
	return insn >> 5 & 31;
}

static inline unsigned int rt2(uint32_t insn)
{
	return insn >> 10 & 31;
}

static inline bool is_memory(uint32_t insn)
{
	return (insn & 0x0a000000) == 0x08000000;
}
