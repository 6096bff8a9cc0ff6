/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What instructions do to the flow: kinds, targets, conditions, and those that
 * may trap. Encodings: Arm ARM (DDI 0487), C4.1 "A64 instruction set encoding".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum kind {
	PLAIN,		/* the next one follows */
	DIRECT,		/* B, BL */
	CONDITIONAL,	/* B.cond, CBZ, CBNZ, TBZ, TBNZ */
	INDIRECT,	/* BR, BLR, RET, with or without pointer authentication */
	ERET,
	CALL,		/* SVC, HVC, SMC: executed, then an exception */
};

/* What MSR, the last instruction of a block, has changed */
enum watch { NOTHING, SP_EL0, ELR, VTTBR_EL2, HCR_EL2 };

enum kind kind_of(uint32_t word);
uint64_t target_of(enum kind kind, uint32_t word, uint64_t vaddr);
enum watch watch_of(uint32_t word);

/*
 * Whether a conditional branch was taken, from registers that are as it left them.
 * An exception clears the flags (QEMU, arm_cpu_do_interrupt_aarch64).
 */
bool is_taken(void *cpu, uint32_t word);
bool needs_flags(uint32_t word);

/* MRS Xt, ELR_EL1 or ELR_EL2 */
bool reads_elr(uint32_t word);

/* Arithmetic on general registers cannot trap; authentication of pointers can. */
bool may_trap(uint32_t word);
