/* SPDX-License-Identifier: GPL-2.0-only */
/* What each word of the kernel's text is, for the plugins that count. */
#pragma once

#include <stdint.h>

enum class { NO_TEXT, FIRST, SECOND, LITERAL, OTHER, CLASSES };
enum { INIT_MEMORY = 0x80 };

/* One byte for each 4-byte word from text on: enum class and INIT_MEMORY */
extern struct classes {
	uint8_t *of;
	uint64_t n, text;
} classes;

/* Prints why a file cannot be read and returns -1 */
int read_classes(const char *path);
