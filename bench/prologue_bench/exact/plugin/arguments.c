// SPDX-License-Identifier: GPL-2.0-only
/* Reads the arguments of a plugin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"

static struct extent read_extent(const char *value)
{
	char *end;
	uint64_t start = strtoull(value, &end, 16);

	return (struct extent){ start, { strtoull(end + !!*end, NULL, 16) } };
}

static bool keep(const struct argument *argument, const char *value)
{
	if (argument->number)
		*argument->number = strtoull(value, NULL, 16);
	else if (argument->text)	/* QEMU frees its own */
		return (*argument->text = strdup(value));
	else if (argument->extent)
		*argument->extent = read_extent(value);
	else if (argument->extents->n < MAX_EXTENTS)
		argument->extents->of[argument->extents->n++] = read_extent(value);
	else
		return false;
	return true;
}

int read_arguments(const char *plugin, const struct argument *known, int argc, char **argv)
{
	for (int k = 0; k < argc; k++) {
		size_t length = strcspn(argv[k], "=");
		const struct argument *argument = known;

		while (argument->name && (strlen(argument->name) != length ||
					  strncmp(argument->name, argv[k], length)))
			argument++;
		if (!argument->name || !argv[k][length] || !keep(argument, argv[k] + length + 1)) {
			fprintf(stderr, "%s: what is %s?\n", plugin, argv[k]);
			return -1;
		}
	}
	return 0;
}

const struct extent *extent_of(const struct extents *extents, uint64_t offset)
{
	for (unsigned int k = 0; k < extents->n; k++) {
		if (offset >= extents->of[k].start && offset < extents->of[k].end)
			return &extents->of[k];
	}
	return NULL;
}
