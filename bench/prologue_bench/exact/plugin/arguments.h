/* SPDX-License-Identifier: GPL-2.0-only */
/* Arguments of a plugin: NAME=VALUE, numbers in hex. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_EXTENTS = 64 };

/* Of the Image: START:END or START:SIZE, as the argument says */
struct extent {
	uint64_t start;
	union { uint64_t end, size; };
};

struct extents {
	struct extent of[MAX_EXTENTS];
	unsigned int n;
};

/* An argument, and the one place that its value goes to */
struct argument {
	const char *name;
	uint64_t *number;
	const char **text;
	struct extent *extent;
	struct extents *extents;	/* may be given again */
};

/* Read all arguments. known ends with an entry without a name. Prints a bad one and returns -1 */
int read_arguments(const char *plugin, const struct argument *known, int argc, char **argv);

/* The extent of START:END that an offset lies in, or NULL */
const struct extent *extent_of(const struct extents *extents, uint64_t offset);
