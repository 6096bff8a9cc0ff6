/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What arm64's ftrace_init() has to do for every function can be done where the
 * mcount records are sorted: write the first instruction of its patch site, and
 * turn its record into an offset from _text, which needs no relocation. The
 * kernel's struct ftrace_prologue_marker says that it was done.
 *
 * sorttable.c includes this where it has its ELF accessors, its list of
 * functions and struct elf_mcount_loc, and calls
 *
 *   get_prologue_symbols()	while it reads the symbols,
 *   check_prologue_marker()	before it looks at the records, and
 *   write_prologues()		in place of writing back the sorted records.
 *
 * scripts/Makefile defines how many NOPs the compiler puts before a function.
 * Without that nothing is done. But a file in which it was done is not sorted
 * as if its table held addresses: that would turn the table into zeros.
 */

#ifndef SHT_RELR
#define SHT_RELR	19
#endif

#ifdef ARM64_FTRACE_PRE_NOPS
#define PROLOGUE_PRE_NOPS	ARM64_FTRACE_PRE_NOPS
#else
#define PROLOGUE_PRE_NOPS	-1
#endif

#define ARM64_NOP		0xd503201f
#define ARM64_MOV_X9_LR		0xaa1e03e9
#define ARM64_INSN_SIZE		4

#define PROLOGUE_MAGIC		0x4555474f4c4f5250ULL	/* "PROLOGUE" */
#define PROLOGUE_VERSION	2

/* In marker.flags */
#define PROLOGUE_BUILT		0x00000001
#define PROLOGUE_OFFSETS	0x00000002
#define PROLOGUE_WRITING	0x80000000

struct prologue_marker {
	uint64_t	magic;
	uint32_t	version;
	uint32_t	flags;
	uint64_t	sites;
};

static unsigned int section_count(Elf_Ehdr *ehdr)
{
	unsigned int shnum = ehdr_shnum(ehdr);

	if (shnum == SHN_UNDEF)
		shnum = shdr_size((void *)ehdr + ehdr_shoff(ehdr));
	return shnum;
}

static Elf_Shdr *get_section(Elf_Ehdr *ehdr, unsigned int index)
{
	return get_index((void *)ehdr + ehdr_shoff(ehdr), ehdr_shentsize(ehdr), index);
}

static bool section_holds(Elf_Shdr *shdr, uint64_t addr, uint64_t len)
{
	uint64_t start = shdr_addr(shdr);
	uint64_t size = shdr_size(shdr);

	/* A section that is not loaded has the address 0. */
	return start && shdr_type(shdr) != SHT_NOBITS &&
	       addr - start < size && len <= size - (addr - start);
}

static void *addr_to_ptr(struct elf_mcount_loc *emloc, uint64_t addr, uint64_t len)
{
	Elf_Ehdr *ehdr = emloc->ehdr;
	Elf_Shdr *shdr = emloc->last_sec;

	/* Records are sorted: most are in the section of the one before. */
	for (unsigned int i = 0; !shdr || !section_holds(shdr, addr, len); i++) {
		if (i == section_count(ehdr))
			return NULL;
		shdr = get_section(ehdr, i);
	}
	emloc->last_sec = shdr;

	return (void *)ehdr + shdr_offset(shdr) + (addr - shdr_addr(shdr));
}

static int check_prologue_marker(struct elf_mcount_loc *emloc)
{
	struct prologue_marker *marker = NULL;
	const char *problem = NULL;
	uint32_t flags = 0;

	if (emloc->marker)
		marker = addr_to_ptr(emloc, emloc->marker, sizeof(*marker));
	if (marker && (elf_parser.r8(&marker->magic) != PROLOGUE_MAGIC ||
		       elf_parser.r(&marker->version) != PROLOGUE_VERSION))
		marker = NULL;
	if (marker)
		flags = elf_parser.r(&marker->flags);

	if (flags & PROLOGUE_BUILT)
		problem = "ftrace prologues are written already: link again";
	else if (flags & PROLOGUE_WRITING)
		problem = "writing ftrace prologues was interrupted: link again";
	else if (PROLOGUE_PRE_NOPS < 0)
		return 0;
	else if (!marker || flags != PROLOGUE_OFFSETS)
		problem = "no ftrace prologue marker of version 2 that takes offsets";
	else if (!emloc->text)
		problem = "no symbol _text";
	else if (!function_list_size)
		problem = "ftrace prologues need a list of functions: -s";
	if (!problem)
		return 0;

	snprintf(m_err, ERRSTR_MAXSZ, "%s", problem);
	return -1;
}

static bool is_func_start(uint64_t addr)
{
	struct func_info key = { .addr = addr };

	return bsearch(&key, function_list, function_list_size,
		       sizeof(struct func_info), cmp_funcs) != NULL;
}

/* BTI, BTI C, BTI J, BTI JC */
static bool is_bti(uint32_t insn)
{
	return (insn & 0xffffff3f) == 0xd503241f;
}

/* What is not in the file reads as UDF. */
static uint32_t read_insn(struct elf_mcount_loc *emloc, uint64_t addr)
{
	void *insn = addr_to_ptr(emloc, addr, ARM64_INSN_SIZE);

	return insn ? get_unaligned_le32(insn) : 0;
}

static bool are_nops(struct elf_mcount_loc *emloc, uint64_t addr, int count)
{
	for (; count > 0; count--, addr += ARM64_INSN_SIZE) {
		if (read_insn(emloc, addr) != ARM64_NOP)
			return false;
	}
	return true;
}

/*
 * Where the patch site of a record begins, as ftrace_call_adjust() finds it, or
 * 0. Two NOPs alone prove nothing: those before a function look the same. So a
 * function has to begin where the configured layout says.
 */
static uint64_t find_site(struct elf_mcount_loc *emloc, uint64_t addr)
{
	const bool pre = PROLOGUE_PRE_NOPS > 0;
	uint64_t func = addr, site;

	if (pre)
		func += PROLOGUE_PRE_NOPS * ARM64_INSN_SIZE;
	site = func;

	if (pre && is_bti(read_insn(emloc, func)))
		site += ARM64_INSN_SIZE;
	else if (!pre && !is_func_start(func) &&
		 is_bti(read_insn(emloc, func - ARM64_INSN_SIZE)))
		func -= ARM64_INSN_SIZE;

	/* The NOPs before a function are the room for a literal: aligned. */
	if (addr % (pre ? 8 : ARM64_INSN_SIZE) || !is_func_start(func) ||
	    !are_nops(emloc, addr, PROLOGUE_PRE_NOPS) || !are_nops(emloc, site, 2))
		return 0;

	return site;
}

/* Turn sorted records into rec->ip: the second instruction of the patch site. */
static int records_to_ips(struct elf_mcount_loc *emloc, uint64_t *vals, int count)
{
	uint64_t last = 0;

	for (int i = 0; i < count; i++) {
		uint64_t site = find_site(emloc, vals[i]);
		uint64_t ip = site + ARM64_INSN_SIZE;

		if (!site) {
			snprintf(m_err, ERRSTR_MAXSZ,
				 "record 0x%llx: no function with %d NOPs before it and two to patch",
				 (unsigned long long)vals[i], PROLOGUE_PRE_NOPS);
			return -1;
		}
		if (ip <= last || ip - emloc->text > UINT32_MAX) {
			snprintf(m_err, ERRSTR_MAXSZ,
				 "record 0x%llx: there twice, or too far from _text",
				 (unsigned long long)vals[i]);
			return -1;
		}
		vals[i] = ip;
		last = ip;
	}
	return 0;
}

static bool is_in_table(struct elf_mcount_loc *emloc, uint64_t addr)
{
	return addr >= emloc->start_mcount_loc && addr < emloc->stop_mcount_loc;
}

/*
 * relocate_kernel() stops at the first R_AARCH64_NONE of a RELA table. That is
 * where the table ends after the relocations of the records were taken out.
 */
static bool relative_after_none(struct elf_mcount_loc *emloc, Elf_Shdr *shdr)
{
	void *rel = (void *)emloc->ehdr + shdr_offset(shdr);
	void *end = rel + shdr_size(shdr);
	bool none = false;

	for (; rel < end; rel += shdr_entsize(shdr)) {
		if (!rela_info(rel))
			none = true;
		else if (none && rela_info(rel) == rela_type)
			return true;
	}
	return false;
}

/*
 * Take the relocations of the records out of a RELA table. What follows moves
 * up, and R_AARCH64_NONE, which is all zeros, fills the room at the end.
 */
static void take_relas(struct elf_mcount_loc *emloc, Elf_Shdr *shdr)
{
	void *start = (void *)emloc->ehdr + shdr_offset(shdr);
	void *end = start + shdr_size(shdr);
	size_t entsize = shdr_entsize(shdr);
	void *to = start;

	for (void *rel = start; rel < end; rel += entsize) {
		if (is_in_table(emloc, rela_offset(rel)))
			continue;
		if (to != rel)
			memcpy(to, rel, entsize);
		to += entsize;
	}
	memset(to, 0, end - to);
}

/*
 * A RELR table holds chains. Each begins with an address that is relocated, and
 * goes on with bitmaps, which have bit 0 set, for the words after it. Addresses
 * are even. Those of one chain differ by multiples of 8.
 */
#define RELR_BITS	63
#define RELR_SPAN	(RELR_BITS * 8)

/* Encodes ascending addresses as one chain, or as several where gaps are wide. */
struct relr_writer {
	uint64_t	*start;
	uint64_t	*next;
	uint64_t	base;	/* of the next bitmap */
	uint64_t	bits;
};

static void relr_flush(struct relr_writer *out)
{
	if (!out->bits)
		return;
	*out->next++ = out->bits << 1 | 1;
	out->bits = 0;
	out->base += RELR_SPAN;
}

static void relr_add(struct relr_writer *out, uint64_t addr)
{
	if (addr - out->base >= RELR_SPAN)
		relr_flush(out);
	if (out->next == out->start || addr - out->base >= RELR_SPAN) {
		*out->next++ = addr;
		out->base = addr + 8;
	} else {
		out->bits |= 1ULL << ((addr - out->base) / 8);
	}
}

/* Get the addresses that one word stands for, and the base of the next one. */
static int relr_decode(uint64_t word, uint64_t *base, uint64_t *addrs)
{
	uint64_t addr = *base;
	int count = 0;

	if (!(word & 1)) {
		*base = word + 8;
		addrs[0] = word;
		return 1;
	}

	while (word >>= 1) {
		if (word & 1)
			addrs[count++] = addr;
		addr += 8;
	}
	*base += RELR_SPAN;
	return count;
}

/*
 * Encode a chain again, without the addresses of the records. This never takes
 * more words than the chain has: a word that starts at a later address also
 * reaches further.
 */
static size_t relr_encode(struct elf_mcount_loc *emloc, uint64_t *chain,
			  size_t words, uint64_t *to)
{
	struct relr_writer out = { .start = to, .next = to };
	uint64_t addrs[RELR_BITS];
	uint64_t base = 0;

	for (size_t i = 0; i < words; i++) {
		int count = relr_decode(elf_parser.r8(&chain[i]), &base, addrs);

		for (int k = 0; k < count; k++) {
			if (!is_in_table(emloc, addrs[k]))
				relr_add(&out, addrs[k]);
		}
	}
	relr_flush(&out);

	return out.next - out.start;
}

static unsigned int relr_count_records(struct elf_mcount_loc *emloc,
				       uint64_t *relr, size_t words)
{
	uint64_t addrs[RELR_BITS];
	unsigned int found = 0;
	uint64_t base = 0;

	for (size_t i = 0; i < words; i++) {
		int count = relr_decode(elf_parser.r8(&relr[i]), &base, addrs);

		for (int k = 0; k < count; k++)
			found += is_in_table(emloc, addrs[k]);
	}
	return found;
}

static size_t relr_chain_words(uint64_t *chain, size_t max)
{
	size_t words = 1;

	while (words < max && elf_parser.r8(&chain[words]) & 1)
		words++;
	return words;
}

/*
 * Take the relocations of the records out of a RELR table. Chains without any
 * stay as the linker wrote them.
 */
static int take_relrs(struct elf_mcount_loc *emloc, Elf_Shdr *shdr)
{
	uint64_t *relr = (void *)emloc->ehdr + shdr_offset(shdr);
	size_t total = shdr_size(shdr) / 8;
	uint64_t *scratch = malloc(shdr_size(shdr));
	size_t words;

	if (!scratch) {
		snprintf(m_err, ERRSTR_MAXSZ, "Failed to allocate RELR array");
		return -1;
	}

	for (size_t i = 0; i < total; i += words) {
		uint64_t *chain = &relr[i];
		size_t n;

		words = relr_chain_words(chain, total - i);
		if (!relr_count_records(emloc, chain, words))
			continue;

		/* A bitmap without bits relocates nothing. */
		n = relr_encode(emloc, chain, words, scratch);
		for (size_t k = 0; k < words; k++)
			elf_parser.w8(k < n ? scratch[k] : 1, &chain[k]);
	}
	free(scratch);
	return 0;
}

/* As for the records' own entries in RELA tables, fill_relocs() counted those. */
static int check_relocs(struct elf_mcount_loc *emloc, unsigned int count)
{
	unsigned int wanted = sort_reloc ? 0 : count;
	Elf_Ehdr *ehdr = emloc->ehdr;
	unsigned int found = 0;

	for (unsigned int i = 0; i < section_count(ehdr); i++) {
		Elf_Shdr *shdr = get_section(ehdr, i);

		if (shdr_type(shdr) == SHT_RELR)
			found += relr_count_records(emloc,
						    (void *)ehdr + shdr_offset(shdr),
						    shdr_size(shdr) / 8);
		if (shdr_type(shdr) != SHT_RELA)
			continue;
		if (shdr_entsize(shdr) != sizeof(Elf64_Rela) ||
		    shdr_size(shdr) % sizeof(Elf64_Rela)) {
			snprintf(m_err, ERRSTR_MAXSZ, "RELA table of odd entries");
			return -1;
		}
		if (relative_after_none(emloc, shdr)) {
			snprintf(m_err, ERRSTR_MAXSZ,
				 "relocations after R_AARCH64_NONE: link without -z nocombreloc");
			return -1;
		}
	}

	/* What is linked to a fixed address has no relocations. */
	if (!found && elf_parser.r2(&ehdr->e64.e_type) == ET_EXEC)
		wanted = 0;
	if (found != wanted) {
		snprintf(m_err, ERRSTR_MAXSZ,
			 "Expected %u mcount relocations in RELR but found %u",
			 wanted, found);
		return -1;
	}
	return 0;
}

static int take_relocs(struct elf_mcount_loc *emloc)
{
	for (unsigned int i = 0; i < section_count(emloc->ehdr); i++) {
		Elf_Shdr *shdr = get_section(emloc->ehdr, i);

		if (sort_reloc && shdr_type(shdr) == SHT_RELA)
			take_relas(emloc, shdr);
		else if (!sort_reloc && shdr_type(shdr) == SHT_RELR &&
			 take_relrs(emloc, shdr) < 0)
			return -1;
	}
	return 0;
}

static void write_sites(struct elf_mcount_loc *emloc, uint64_t *ips, int sites,
			uint32_t *offsets)
{
	for (int i = 0; i < sites; i++) {
		uint64_t site = ips[i] - ARM64_INSN_SIZE;

		put_unaligned_le32(ARM64_MOV_X9_LR,
				   addr_to_ptr(emloc, site, ARM64_INSN_SIZE));
		elf_parser.w(ips[i] - emloc->text, &offsets[i]);
	}
}

/* vals are all records, sorted. Those that are in no function are 0. */
static int write_prologues(struct elf_mcount_loc *emloc, uint64_t *vals,
			   int count, uint64_t *table)
{
	struct prologue_marker *marker;
	int sites = count;

	/* Look at everything before the first write. */
	if (check_relocs(emloc, count) < 0)
		return -1;

	for (; sites && !*vals; sites--)
		vals++;
	if (!sites) {
		snprintf(m_err, ERRSTR_MAXSZ, "No mcount record is in a function");
		return -1;
	}
	if (records_to_ips(emloc, vals, sites) < 0)
		return -1;

	/* If this ends early, the file is not taken for a whole one. */
	marker = addr_to_ptr(emloc, emloc->marker, sizeof(*marker));
	elf_parser.w(PROLOGUE_OFFSETS | PROLOGUE_WRITING, &marker->flags);

	if (take_relocs(emloc) < 0)
		return -1;
	memset(table, 0, count * sizeof(*table));
	write_sites(emloc, vals, sites, (uint32_t *)table);

	elf_parser.w8(sites, &marker->sites);
	elf_parser.w(PROLOGUE_OFFSETS | PROLOGUE_BUILT, &marker->flags);
	return 0;
}

static void get_prologue_symbols(struct elf_mcount_loc *emloc, Elf_Shdr *symtab_sec,
				 const char *strtab)
{
	void *sym = (void *)emloc->ehdr + shdr_offset(symtab_sec);
	void *end = sym + shdr_size(symtab_sec);

	for (; sym < end && !(emloc->text && emloc->marker);
	     sym += shdr_entsize(symtab_sec)) {
		const char *name = strtab + sym_name(sym);

		if (!strcmp(name, "_text"))
			emloc->text = sym_value(sym);
		else if (!strcmp(name, "__ftrace_prologue_marker"))
			emloc->marker = sym_value(sym);
	}
}
