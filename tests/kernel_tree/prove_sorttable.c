// SPDX-License-Identifier: GPL-2.0-only
/*
 * Proofs by CBMC of how scripts/sorttable-arm64.h reads sections and takes relocations out: see test_proofs.py.
 */
#include "sorttable_model.h"

#ifndef ENTRIES
#define ENTRIES 3
#endif

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

/* Two sections of any type. */
static struct elf_file {
	Elf64_Ehdr ehdr;
	Elf64_Shdr shdr[2];
	union {
		Elf64_Rela rela[1];
		uint64_t relr[WORDS];
	} table[2];
} elf;

static bool is_of(int section, uint32_t type)
{
	return elf.shdr[section].sh_type == type;
}

static void any_sections(void)
{
	struct elf_file any;

	elf = any;
	elf.ehdr.e_shnum = 2;
	elf.ehdr.e_shoff = offsetof(struct elf_file, shdr);
	elf.ehdr.e_shentsize = sizeof(Elf64_Shdr);
	for (int i = 0; i < 2; i++) {
		elf.shdr[i].sh_offset = offsetof(struct elf_file, table) + i * sizeof(elf.table[0]);
		elf.shdr[i].sh_size = is_of(i, SHT_RELR) ? WORDS * 8 : sizeof(Elf64_Rela);
		for (int k = 0; is_of(i, SHT_RELR) && k < WORDS; k++)
			elf.table[i].relr[k] = any_relr_word() & 0xffff;
	}
	emloc.ehdr = (void *)&elf;
}

void prove_check_relocs(void)
{
	uint64_t any = nondet_u64();

	any_sections();
	emloc.start_mcount_loc = (uint16_t)nondet_u64();
	emloc.stop_mcount_loc = (uint16_t)nondet_u64();
	__CPROVER_assume(emloc.start_mcount_loc >= WORDS * RELR_SPAN);
	sort_reloc = nondet_u64();
	if (check_relocs(&emloc, nondet_u64()) < 0)
		return;
	for (int i = 0; i < 2; i++) {
		__CPROVER_assert(!sort_reloc || !is_of(i, SHT_RELR) || !is_in_table(&emloc, any) ||
				 !holds(elf.table[i].relr, WORDS, any), "no record is in RELR as well");
		__CPROVER_assert(!is_of(i, SHT_RELA) || elf.shdr[i].sh_entsize == sizeof(Elf64_Rela), "of known entries");
	}
}
