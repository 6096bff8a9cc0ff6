// SPDX-License-Identifier: GPL-2.0-only
/*
 * Proofs by CBMC of what scripts/sorttable-arm64.h does with records and sites: see test_proofs.py.
 *
 * The file has a text of arbitrary words, and another section of arbitrary content after it. Functions are in text.
 */
#include "sorttable_model.h"

#ifndef FUNCTIONS
#define FUNCTIONS 2
#endif
#ifndef INSNS
#define INSNS 10
#endif
#ifndef RECORDS
#define RECORDS 2
#endif
#define TEXT		0xffff800080010000ULL
#define DATA		0xffff800080020000ULL
#define NOP		0xd503201f
#define MOV_X9_LR	0xaa1e03e9

struct image {
	Elf64_Ehdr ehdr;
	Elf64_Shdr text_hdr, data_hdr;
	uint32_t text[INSNS];
	uint64_t data[RECORDS];
};

static struct image image, before;
static struct func_info functions[FUNCTIONS];
static struct elf_mcount_loc emloc;

#define section(addr, member) \
	(Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_addr = (addr), .sh_offset = offsetof(struct image, member), \
		      .sh_size = sizeof(image.member) }

static void any_image(void)
{
	struct image any;

	image = any;
	memset(&image.ehdr, 0, sizeof(image.ehdr));
	image.ehdr.e_shnum = 2;
	image.ehdr.e_shoff = offsetof(struct image, text_hdr);
	image.ehdr.e_shentsize = sizeof(Elf64_Shdr);
	image.text_hdr = section(TEXT, text);
	image.data_hdr = section(DATA, data);

	for (int i = 0; i < FUNCTIONS; i++)
		functions[i].addr = TEXT + (uint8_t)nondet_u64();
	function_list = functions;
	function_list_size = FUNCTIONS;

	emloc.ehdr = (void *)&image;
	emloc.text = TEXT - (uint32_t)nondet_u64();
	before = image;
}

static bool is_function(uint64_t addr)
{
	bool is = false;

	for (int i = 0; i < FUNCTIONS; i++)
		is |= functions[i].addr == addr;
	return is;
}

/* The word of the file as it was, by its index: another way than by the section headers. */
static uint32_t word(uint64_t addr)
{
	uint64_t index = (addr - TEXT) / 4;

	return index < INSNS ? before.text[index] : 0;
}

static bool is_site(uint64_t site)
{
	return !(site % 4) && word(site) == NOP && word(site + 4) == NOP;
}

static bool layout_holds(uint64_t addr, uint64_t site)
{
	if (!PROLOGUE_PRE_NOPS)
		return site == addr && (is_function(addr) || (is_function(addr - 4) && is_bti(word(addr - 4))));

	return !(addr % 8) && word(addr) == NOP && word(addr + 4) == NOP && is_function(addr + 8) &&
	       (site == addr + 8 || (site == addr + 12 && is_bti(word(addr + 8))));
}

void prove_find_site(void)
{
	uint64_t addr = nondet_u64(), site;

	any_image();
	site = find_site(&emloc, addr);
	if (site)
		__CPROVER_assert(is_site(site) && layout_holds(addr, site), "two NOPs, where a function begins");
}

static void any_records(uint64_t *vals)
{
	for (int i = 0; i < RECORDS; i++)
		vals[i] = nondet_u64();
}

static void assert_text_is_written(const uint64_t *ips, int sites)
{
	for (int i = 0; i < INSNS; i++) {
		bool site = false;

		for (int k = 0; k < sites; k++)
			site |= ips[k] == TEXT + i * 4 + 4;
		__CPROVER_assert(image.text[i] == (site ? MOV_X9_LR : before.text[i]), "each MOV, and nothing else");
	}
}

void prove_records_to_ips(void)
{
	uint64_t vals[RECORDS], records[RECORDS];
	uint32_t offsets[RECORDS];

	any_image();
	any_records(vals);
	memcpy(records, vals, sizeof(vals));
	if (records_to_ips(&emloc, vals, RECORDS) < 0)
		return;

	for (int i = 0; i < RECORDS; i++) {
		__CPROVER_assert(is_site(vals[i] - 4) && layout_holds(records[i], vals[i] - 4), "the second slot");
		__CPROVER_assert(!i || vals[i] > vals[i - 1], "strictly ascending");
		__CPROVER_assert(vals[i] - emloc.text <= UINT32_MAX, "an offset of 32 bits");
	}

	write_sites(&emloc, vals, RECORDS, offsets);
	assert_text_is_written(vals, RECORDS);
	for (int i = 0; i < RECORDS; i++)
		__CPROVER_assert(emloc.text + offsets[i] == vals[i], "the record");
}
