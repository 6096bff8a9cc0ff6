/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Executable memory outside of the Image, and whose it is: the kernel's list of
 * modules, and their symbols, as they are when a module's text is made executable.
 * Everything here runs under the lock.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* A page of text that is not of the Image begins, or ends */
void begin_region(uint64_t vaddr);
void end_region(uint64_t vaddr);

/* Print regions and symbols, as members of an object of JSON */
void print_regions(FILE *out);
