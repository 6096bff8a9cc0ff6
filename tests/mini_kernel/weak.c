// SPDX-License-Identifier: GPL-2.0-only
/*
 * weak.c - a weak function that work.c overrides
 *
 * Its text and its record stay in the link, its symbol is gone: what kernels before 6.15 have hundreds of.
 */
#include "mini.h"

__attribute__((weak)) u64 work_chosen(void)
{
	barrier();
	return 1;
}
