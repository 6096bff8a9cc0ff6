/* SPDX-License-Identifier: GPL-2.0-only */
/* A write that was seen, as in the file of rows. */
#pragma once

#include "frames.h"

/* prologue/live/pokes/recording.py: WRITE, Flag and Maintenance */
struct row {
	uint64_t time, address, paddr, alias, pc, running, synced, maintenance;
	uint64_t callers[CALLERS];
	uint32_t old, new, flags;
	uint16_t cpu, within; /* 0: time is exact */
};

enum { STOPPED = 1, NOT_RETURNED = 16, CUT_CHAIN = 32, RAN_BEFORE = 128,
       RAN_MEANWHILE = 256, RAN_AFTER = 512, RAN_UNSYNCED = 1024 };
