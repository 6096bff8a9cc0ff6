/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which instructions maintain caches or are barriers, and which address a DC or an
 * IC was for: known when the next block of the CPU begins.
 */
#pragma once

#include "maintenance.h"

enum { RETURNED = 0xff };

extern bool registers_known;
extern uint64_t unaddressed;	/* DC and IC whose address is not known */

/* What happened() is told of an instruction of a block; 0: nothing */
uint64_t describe(const uint32_t *insns, size_t n, size_t k);

/* A step, or a return, on a CPU. Under the lock. */
void happened(unsigned int index, uint64_t what, uint64_t x29);

/* Whether steps wait for the CPU's next block */
bool is_waiting(unsigned int index);

/* These steps happen, in their order. cpu: NULL if registers cannot be read now. Under the lock. */
void settle(unsigned int index, void *cpu);
