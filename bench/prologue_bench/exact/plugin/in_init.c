// SPDX-License-Identifier: GPL-2.0-only
/* Lines and words of the text in ftrace_init. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "classes.h"
#include "in_init.h"

enum { LINE_SHIFT = 6 };

static uint8_t *lines;		/* of the text: LINE_READ and LINE_WRITTEN */
static uint64_t n_lines;

int make_room(void)
{
	uint64_t end = classes.text + 4 * classes.n;

	n_lines = ((end - 1) >> LINE_SHIFT) - (classes.text >> LINE_SHIFT) + 1;
	lines = calloc(n_lines, sizeof(*lines));
	if (lines)
		return 0;
	perror("count");
	return -1;
}

void touch_lines(uint64_t from, uint64_t to, uint8_t access)
{
	bool is_text = false;

	for (uint64_t k = (from - classes.text) / 4; k <= (to - 1 - classes.text) / 4; k++)
		is_text |= classes.of[k] != NO_TEXT;
	if (!is_text)
		return;
	for (uint64_t k = from >> LINE_SHIFT; k <= (to - 1) >> LINE_SHIFT; k++)
		lines[k - (classes.text >> LINE_SHIFT)] |= access;
}

uint64_t lines_with(uint8_t access)
{
	uint64_t n = 0;

	for (uint64_t k = 0; k < n_lines; k++)
		n += !!(lines[k] & access);
	return n;
}
