/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the plugins that count need to know: what each word of the kernel's text is.
 */
#include "qemu.h"

enum class { NO_TEXT, FIRST, SECOND, LITERAL, OTHER, CLASSES };
enum { INIT_MEMORY = 0x80 };

/* One byte for each 4-byte word of the text: enum class and INIT_MEMORY */
struct classes {
	uint8_t *of;
	uint64_t n;
};

static int read_classes(struct classes *classes, const char *path)
{
	FILE *in = fopen(path, "r");
	long size;

	if (!in || fseek(in, 0, SEEK_END) || (size = ftell(in)) <= 0)
		goto bad;
	rewind(in);
	classes->n = size;
	classes->of = malloc(size);
	if (!classes->of || fread(classes->of, 1, size, in) != (size_t)size)
		goto bad;
	fclose(in);
	for (uint64_t k = 0; k < classes->n; k++) {
		if ((classes->of[k] & ~INIT_MEMORY) >= CLASSES) {
			fprintf(stderr, "%s: class %#x\n", path,
				classes->of[k]);
			return -1;
		}
	}
	return 0;
bad:
	perror(path);
	return -1;
}
