/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What every block does to the recording when it begins: the block before it is
 * over, and how it was left is known.
 */
#pragma once

#include "window.h"

extern uint64_t pid_offset, limit, of_process;

/* Callbacks: a block, an instruction of it, the same with its word, an access of the last */
void begin_block(unsigned int index, void *block);
void begin_insn(unsigned int index, void *number);
void true_insn(unsigned int index, void *insn);
void accessed(unsigned int index, uint32_t info, uint64_t vaddr, void *data);
