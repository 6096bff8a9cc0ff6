// SPDX-License-Identifier: GPL-2.0-only
/* Memory of the plugin's own. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "allocate.h"

void give_up(const char *what)
{
	perror(what);
	_exit(1);
}

void *allocate(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		give_up("writes");
	return memory;
}

void *with_room(void *array, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return array;
	*room = *room ? 2 * *room : 256;
	array = realloc(array, *room * size);
	if (!array)
		give_up("writes");
	return array;
}
