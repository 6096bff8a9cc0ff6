/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory of the plugin's own, and the end if there is none. */
#pragma once

#include <stddef.h>

/* Print errno's message and exit: not by way of at_exit(), which takes the lock */
void give_up(const char *what) __attribute__((noreturn));

/* Zeroed memory */
void *allocate(size_t size);

/* An array with room for one more than n */
void *with_room(void *array, size_t n, size_t *room, size_t size);
