/* SPDX-License-Identifier: GPL-2.0-only */
/* Which instructions are watched as QEMU translates them, and what their callbacks do. */
#pragma once

#include "qemu.h"

extern uint64_t executed_elsewhere;	/* pages that the tables did not say are executable */

void translated(uint64_t id, struct qemu_plugin_tb *tb);
