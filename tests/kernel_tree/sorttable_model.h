/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What scripts/sorttable-arm64.h takes from sorttable.c and from libc, for proofs by CBMC (test_proofs.py): accessors of
 * a little-endian file on a little-endian machine, and the list of functions.
 */
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERRSTR_MAXSZ 256
static char m_err[ERRSTR_MAXSZ];

typedef union { Elf64_Ehdr e64; } Elf_Ehdr;
typedef union { Elf64_Shdr e64; } Elf_Shdr;

struct func_info {
	uint64_t addr;
	uint64_t size;
};
static struct func_info *function_list;
static int function_list_size;

static int cmp_funcs(const void *A, const void *B)
{
	const struct func_info *a = A;
	const struct func_info *b = B;

	if (a->addr < b->addr)
		return -1;
	return a->addr > b->addr;
}

/* What a search in a sorted list finds. */
static void *any_equal(const void *key, const void *list, size_t count, size_t size,
		       int (*compare)(const void *, const void *))
{
	for (size_t i = 0; i < count; i++) {
		if (!compare(key, list + i * size))
			return (void *)list + i * size;
	}
	return NULL;
}
#define bsearch any_equal

/* The text of an error. */
#define snprintf(to, size, ...)	((void)(to))

static bool sort_reloc;
static uint64_t rela_type = 0x403;

#define get_unaligned_le32(p)		(*(const uint32_t *)(p))
#define put_unaligned_le32(value, p)	(*(uint32_t *)(p) = (value))
#define ehdr_shnum(e)			(((Elf_Ehdr *)(e))->e64.e_shnum)
#define ehdr_shoff(e)			(((Elf_Ehdr *)(e))->e64.e_shoff)
#define ehdr_shentsize(e)		(((Elf_Ehdr *)(e))->e64.e_shentsize)
#define shdr_addr(s)			(((Elf_Shdr *)(s))->e64.sh_addr)
#define shdr_offset(s)			(((Elf_Shdr *)(s))->e64.sh_offset)
#define shdr_size(s)			(((Elf_Shdr *)(s))->e64.sh_size)
#define shdr_entsize(s)			(((Elf_Shdr *)(s))->e64.sh_entsize)
#define shdr_type(s)			(((Elf_Shdr *)(s))->e64.sh_type)
#define get_index(start, entsize, i)	((void *)(start) + (entsize) * (i))
#define rela_info(r)			(((Elf64_Rela *)(r))->r_info)
#define rela_offset(r)			(((Elf64_Rela *)(r))->r_offset)
#define sym_name(s)			(((Elf64_Sym *)(s))->st_name)
#define sym_value(s)			(((Elf64_Sym *)(s))->st_value)

static uint32_t r4(const uint32_t *p) { return *p; }
static uint16_t r2(const uint16_t *p) { return *p; }
static uint64_t r8(const uint64_t *p) { return *p; }
static void w4(uint32_t value, uint32_t *p) { *p = value; }
static void w8(uint64_t value, uint64_t *p) { *p = value; }
static const struct {
	uint32_t (*r)(const uint32_t *);
	uint16_t (*r2)(const uint16_t *);
	uint64_t (*r8)(const uint64_t *);
	void (*w)(uint32_t, uint32_t *);
	void (*w8)(uint64_t, uint64_t *);
} elf_parser = { r4, r2, r8, w4, w8 };

struct elf_mcount_loc {
	Elf_Ehdr *ehdr;
	Elf_Shdr *init_data_sec;
	uint64_t start_mcount_loc;
	uint64_t stop_mcount_loc;
	Elf_Shdr *last_sec;
	uint64_t text;
	uint64_t marker;
};

#ifndef WORDS
#define WORDS 2
#endif

/* As large as the table: for memory of a size that is not known, CBMC took 10 GB. */
static uint64_t room[WORDS];
#define malloc(size)	((void)__CPROVER_assert((size) == sizeof(room), "room for the table"), room)
#define free(memory)	((void)(memory))

#include HEADER

uint64_t nondet_u64(void);

/* A word of a RELR table: an address, which is even, or a bitmap of RELR_BITS. */
static uint64_t any_relr_word(void)
{
	uint64_t word = nondet_u64();

	__CPROVER_assume(!(word & 1) || RELR_BITS == 63 || word >> (RELR_BITS % 63 + 1) == 0);
	return word;
}
