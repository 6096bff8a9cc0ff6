// SPDX-License-Identifier: GPL-2.0-only
/*
 * Proofs of scripts/sorttable-arm64.h by CBMC (tests/kernel_tree/test_proofs.py): for RELA tables of up to ENTRIES
 * entries of arbitrary bytes, nothing outside of the table is read or written, every loop ends, and what is not of the
 * records stays in its order. Not proved, since CBMC did not end in minutes: relr_encode(); random tables try it
 * (test_sorttable.py). What the header takes from sorttable.c is made here.
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

struct func_info { uint64_t addr; };
static struct func_info *function_list;
static int function_list_size;
static int cmp_funcs(const void *a, const void *b) { return 0; }
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

#ifndef ENTRIES
#define ENTRIES 3
#endif
#ifndef WORDS
#define WORDS 2
#endif

/* As large as the table: for memory of a size that is not known, CBMC took 10 GB. */
static uint64_t room[WORDS];
#define malloc(size)	((void)__CPROVER_assert((size) == sizeof(room), "room for the table"), room)
#define free(memory)	((void)(memory))

#include HEADER

uint64_t nondet_u64(void);

static struct elf_mcount_loc emloc;

static void any_table(void)
{
	emloc.start_mcount_loc = nondet_u64();
	emloc.stop_mcount_loc = nondet_u64();
}

static struct {
	Elf64_Rela rela[ENTRIES];
	Elf64_Rela guard;
} file;

void prove_take_relas(void)
{
	Elf64_Rela before[ENTRIES], guard;
	Elf_Shdr shdr = { };
	unsigned int size = nondet_u64(), kept = 0;

	any_table();
	__CPROVER_assume(size <= ENTRIES);
	for (int i = 0; i < ENTRIES; i++) {
		before[i].r_offset = nondet_u64();
		before[i].r_info = nondet_u64();
		before[i].r_addend = nondet_u64();
		file.rela[i] = before[i];
	}
	guard.r_offset = file.guard.r_offset = nondet_u64();
	emloc.ehdr = (void *)&file;
	shdr.e64.sh_size = size * sizeof(Elf64_Rela);
	shdr.e64.sh_entsize = sizeof(Elf64_Rela);

	take_relas(&emloc, &shdr);

	for (unsigned int i = 0; i < size; i++) {
		if (is_in_table(&emloc, before[i].r_offset))
			continue;
		__CPROVER_assert(file.rela[kept].r_offset == before[i].r_offset &&
				 file.rela[kept].r_info == before[i].r_info &&
				 file.rela[kept].r_addend == before[i].r_addend, "the others stay, in their order");
		kept++;
	}
	for (; kept < size; kept++)
		__CPROVER_assert(!file.rela[kept].r_offset && !file.rela[kept].r_info &&
				 !file.rela[kept].r_addend, "zeros fill the room");
	for (unsigned int i = size; i < ENTRIES; i++)
		__CPROVER_assert(file.rela[i].r_offset == before[i].r_offset, "nothing is written after the table");
	__CPROVER_assert(file.guard.r_offset == guard.r_offset, "nor after the file");
}

void prove_relative_after_none(void)
{
	Elf_Shdr shdr = { };
	unsigned int size = nondet_u64();
	bool none = false, wanted = false;

	__CPROVER_assume(size <= ENTRIES);
	for (int i = 0; i < ENTRIES; i++)
		file.rela[i].r_info = nondet_u64();
	emloc.ehdr = (void *)&file;
	shdr.e64.sh_size = size * sizeof(Elf64_Rela);
	shdr.e64.sh_entsize = sizeof(Elf64_Rela);
	for (unsigned int i = 0; i < size; i++) {
		wanted |= none && file.rela[i].r_info == 0x403;
		none |= !file.rela[i].r_info;
	}
	__CPROVER_assert(relative_after_none(&emloc, &shdr) == wanted, "an R_AARCH64_RELATIVE after zeros");
}

/* Any section headers: what is found is inside of a section that has bytes, and all of it. */
void prove_addr_to_ptr(void)
{
	static struct { Elf64_Ehdr ehdr; Elf64_Shdr shdr[2]; } elf;
	uint64_t addr = nondet_u64(), len = nondet_u64(), at;
	bool inside = false;
	char *found;

	elf.ehdr.e_shnum = 2;
	elf.ehdr.e_shoff = offsetof(typeof(elf), shdr);
	elf.ehdr.e_shentsize = sizeof(Elf64_Shdr);
	for (int i = 0; i < 2; i++) {
		elf.shdr[i].sh_type = nondet_u64();
		elf.shdr[i].sh_addr = nondet_u64();
		elf.shdr[i].sh_size = nondet_u64();
		elf.shdr[i].sh_offset = nondet_u64();
		__CPROVER_assume(elf.shdr[i].sh_offset <= 64 && elf.shdr[i].sh_size <= sizeof(elf) - 64);
	}
	__CPROVER_assume(len >= 1 && len <= 40);
	emloc.ehdr = (void *)&elf;
	emloc.last_sec = NULL;
	found = addr_to_ptr(&emloc, addr, len);
	if (!found)
		return;

	at = found - (char *)&elf;
	for (int i = 0; i < 2; i++) {
		Elf64_Shdr *shdr = &elf.shdr[i];

		inside |= shdr->sh_type != SHT_NOBITS && at >= shdr->sh_offset &&
			  at + len <= shdr->sh_offset + shdr->sh_size &&
			  addr - shdr->sh_addr == at - shdr->sh_offset;
	}
	__CPROVER_assert(inside, "within a section that has bytes, at its address");
}

/* One word of a RELR table: no more addresses than there is room for. */
void prove_relr_decode(void)
{
	uint64_t addrs[RELR_BITS], base = nondet_u64();
	int count = relr_decode(nondet_u64(), &base, addrs);

	__CPROVER_assert(count >= 0 && count <= RELR_BITS, "as many as there are bits");
}

/*
 * A chain: an address, which is even, and bitmaps. With NEAR it is the one at NEAR, and the table of records is
 * anywhere below 64 KiB: only differences of addresses count, and 64 bits of each are too much for a solver.
 */
static void any_chain(uint64_t *chain, size_t words)
{
	any_table();
	chain[0] = nondet_u64() & ~1ULL;
#ifdef NEAR
	emloc.start_mcount_loc = (uint16_t)nondet_u64();
	emloc.stop_mcount_loc = (uint16_t)nondet_u64();
	chain[0] = NEAR;
#endif
	for (size_t i = 1; i < words; i++) {
		chain[i] = nondet_u64() | 1;
		__CPROVER_assume(RELR_BITS == 63 || chain[i] >> (RELR_BITS % 63 + 1) == 0);
	}
}

static bool holds(const uint64_t *words, size_t count, uint64_t addr)
{
	uint64_t base = 0;
	bool found = false;

	for (size_t i = 0; i < count; i++) {
		if (!(words[i] & 1)) {
			found |= words[i] == addr;
			base = words[i] + 8;
			continue;
		}
		if (addr - base < RELR_SPAN && !((addr - base) % 8))
			found |= words[i] >> (1 + (addr - base) / 8) & 1;
		base += RELR_SPAN;
	}
	return found;
}

void prove_relr_encode(void)
{
	uint64_t chain[WORDS], to[WORDS];

	any_chain(chain, WORDS);
	__CPROVER_assert(relr_encode(&emloc, chain, WORDS, to) <= WORDS, "never longer");
}

void prove_relr_encode_same(void)
{
	uint64_t chain[WORDS], to[WORDS], any = nondet_u64();
	size_t count;

	any_chain(chain, WORDS);
	count = relr_encode(&emloc, chain, WORDS, to);
	__CPROVER_assert(holds(to, count, any) == (holds(chain, WORDS, any) && !is_in_table(&emloc, any)),
			 "each other address is relocated as before, and no record");
}

/*
 * A whole table: any addresses below 64 KiB, and any bitmaps. No kernel's records are at the addresses that bitmaps at
 * the beginning of a table stand for: those have no address before them.
 */
void prove_take_relrs(void)
{
	static struct { uint64_t relr[WORDS], guard; } table;
	uint64_t guard = table.guard = nondet_u64();
	Elf_Shdr shdr = { };

	for (int i = 0; i < WORDS; i++) {
		table.relr[i] = (uint16_t)nondet_u64();
		__CPROVER_assume(!(table.relr[i] & 1) || table.relr[i] >> (RELR_BITS % 63 + 1) == 0);
	}
	emloc.start_mcount_loc = (uint16_t)nondet_u64();
	emloc.stop_mcount_loc = (uint16_t)nondet_u64();
	__CPROVER_assume(emloc.start_mcount_loc >= WORDS * RELR_SPAN);
	emloc.ehdr = (void *)&table;
	shdr.e64.sh_size = sizeof(table.relr);

	__CPROVER_assert(!take_relrs(&emloc, &shdr), "it is done");
	__CPROVER_assert(!relr_count_records(&emloc, table.relr, WORDS), "no record is left");
	__CPROVER_assert(table.guard == guard, "nothing is written after the table");
}
