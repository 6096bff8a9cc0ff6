/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What ftrace_init does to the text, besides writing words: lines of it that are
 * read and written, and how often each word is executed.
 */
#pragma once

#include <stdint.h>

enum { LINE_READ = 1, LINE_WRITTEN = 2 };

extern uint32_t *profile;	/* of each word of the text; NULL: not asked for */

int make_room(const char *profile_path);

/* Bytes FROM to TO of the Image are read or written; the classes describe them */
void touch_lines(uint64_t from, uint64_t to, uint8_t access);

uint64_t lines_with(uint8_t access);
void write_profile(const char *path);
