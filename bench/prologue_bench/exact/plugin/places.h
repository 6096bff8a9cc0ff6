/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions of the kernel that decide what is text, and which writes are live:
 * free_initmem and multi_cpu_stop.
 */
#pragma once

#include "qemu.h"

void watch_place(struct qemu_plugin_insn *insn, uint32_t word, uint64_t offset);
