// SPDX-License-Identifier: GPL-2.0-only
/* Reads the arguments of the plugin writes. */
#include <stdio.h>

#include "options.h"

struct options options = { .page_shift = 12 };

int read_options(int argc, char **argv)
{
	const struct argument known[] = {
		{ "load", .number = &options.load }, { "ram", .number = &options.ram },
		{ "size", .number = &options.size }, { "page", .number = &options.page_shift },
		{ "root", .number = &options.root }, { "modules", .number = &options.modules },
		{ "stext", .number = &options.stext }, { "ctr", .number = &options.ctr },
		{ "graph", .number = &options.graph }, { "freed", .number = &options.freed },
		{ "ns", .number = &options.ns }, { "stop", .extent = &options.stop },
		{ "init", .extent = &options.init }, { "text", .extents = &options.texts },
		{ "writer", .extents = &options.writers },
		{ "vectors", .extents = &options.vectors },
		{ "rows", .text = &options.rows }, { "out", .text = &options.out }, {},
	};

	if (read_arguments("writes", known, argc, argv))
		return -1;
	if (!options.load || !options.ram || !options.size || !options.root ||
	    !options.texts.n || !options.stop.end || !options.init.end || !options.rows ||
	    !options.out) {
		fprintf(stderr, "writes: needs load=, ram=, size=, root=, text=, "
			"stop=, init=, rows= and out=\n");
		return -1;
	}
	return 0;
}
