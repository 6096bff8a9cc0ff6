// SPDX-License-Identifier: GPL-2.0-only
/* Reads what each word of the kernel's text is. */
#include <stdio.h>
#include <stdlib.h>

#include "classes.h"

struct classes classes;

int read_classes(const char *path)
{
	FILE *in = fopen(path, "r");
	long size;

	if (!in || fseek(in, 0, SEEK_END) || (size = ftell(in)) <= 0)
		goto bad;
	rewind(in);
	classes.n = size;
	classes.of = malloc(size);
	if (!classes.of || fread(classes.of, 1, size, in) != (size_t)size)
		goto bad;
	fclose(in);
	for (uint64_t k = 0; k < classes.n; k++) {
		if ((classes.of[k] & ~INIT_MEMORY) >= CLASSES) {
			fprintf(stderr, "%s: class %#x\n", path, classes.of[k]);
			return -1;
		}
	}
	return 0;
bad:
	perror(path);
	return -1;
}
