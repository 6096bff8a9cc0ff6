// SPDX-License-Identifier: GPL-2.0
/* Prints the functions that parse_symbols() of a kernel's sorttable.c, in "parse_symbols.h", reads from its argument. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse_symbols.h"

int main(int argc, char *argv[])
{
	if (parse_symbols(argv[1]) < 0)
		return 1;
	for (int k = 0; k < function_list_size; k++)
		printf("%" PRIx64 "+%" PRIx64 "\n", function_list[k].addr, function_list[k].size);
	return 0;
}
