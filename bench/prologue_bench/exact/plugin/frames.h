/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who called: the frame records of the guest's stacks, from the x29 that each CPU
 * has. A CPU's own state: no lock is needed.
 */
#pragma once

#include "cpus.h"

enum { CALLERS = 12 };

/* What an instruction is to us, beside a store */
enum use {
	PUSH = 1,	/* stores a frame record, whose address x29 becomes */
	PUSH_PART = 2,	/* the same, if the next block begins with that ADD */
	LOAD_FIRST = 4,	/* LDP x29, ... */
	LOAD_SECOND = 8, /* LDP ..., x29; with LOAD_FIRST: LDR x29 */
};

/* The uses of an instruction, except PUSH: find_push() knows it */
unsigned int use_of(uint32_t insn);
bool is_add_x29_sp(uint32_t insn);

/* Whether it uses x29 for something else than a frame pointer */
bool changes_x29(uint32_t insn);

/*
 * Among the instructions of a block, the STP whose address becomes x29 by the ADD
 * x29, sp, #imm at index add; -1 if it is not here.
 */
int find_push(const uint32_t *insns, int add);

/* A frame record was stored; x29 was loaded; ADD x29, sp, #imm; x29 was written */
void pushed(struct cpu *cpu, uint64_t pc, uint64_t vaddr, bool whole);
void loaded(struct cpu *cpu, uint64_t pc, uint64_t vaddr, uint64_t paddr, unsigned int use,
	    unsigned int shift);
void set_x29(unsigned int index, void *pc);
void forget_x29(unsigned int index, void *data);

/* Return addresses, and where the frame records are; how many, and whether that is all */
int chain(struct cpu *cpu, uint64_t *callers, uint64_t *frames, bool *whole);
