/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a plugin is not told and QEMU itself knows: the level that a CPU is at,
 * its registers, its memory. Plugins can read registers from QEMU 9.0 on only.
 * Before that we call what QEMU's own gdb server calls; a QEMU that is built
 * with modules, as Debian's is, exports it.
 *
 * Call these at the beginning of a block only: within one, registers may be in
 * the host's registers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { REGISTER_LR = 30, REGISTER_ZR = 31, REGISTER_CPSR = 33 };

/* Returns the first name that this QEMU does not have, or NULL */
const char *look_inside(void);

/* A CPU, and the one that this thread emulates */
void *cpu_of(int index);
void *own_cpu(void);

uint64_t read_register(void *cpu, unsigned int number);
unsigned int current_level(void *cpu);

/* Whether the CPU's memory could be read at a virtual address */
bool read_memory(void *cpu, uint64_t vaddr, void *data, uint64_t size);

/* The machine: stop it; whether it runs */
void stop_machine(void);
bool machine_runs(void);
