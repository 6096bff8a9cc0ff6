/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What ftrace_init does to the text, besides writing words: lines of it that are
 * read and written.
 */
#pragma once

#include <stdint.h>

enum { LINE_READ = 1, LINE_WRITTEN = 2 };

int make_room(void);

/* Bytes FROM to TO of the Image are read or written; the classes describe them */
void touch_lines(uint64_t from, uint64_t to, uint8_t access);

uint64_t lines_with(uint8_t access);
