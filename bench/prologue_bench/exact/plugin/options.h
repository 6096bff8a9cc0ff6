/* SPDX-License-Identifier: GPL-2.0-only */
/* The arguments of the plugin writes: writes.c describes them. */
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

/* Prints an unknown or missing argument and returns -1 */
int read_options(int argc, char **argv);
