/* SPDX-License-Identifier: GPL-2.0-only */
/* What writes.c is told by its arguments, and describes. */
#pragma once

#include "arguments.h"

extern struct options {
	uint64_t load, ram, size, page_shift;
	uint64_t root, modules, stext, ctr, graph, freed;	/* offsets in the Image */
	uint64_t ns;
	struct extent stop, init;
	struct extents texts, writers, vectors;
	const char *rows, *out;
} options;

/* Returns -1, and says why, if an argument is unknown or missing. */
int read_options(int argc, char **argv);
