// SPDX-License-Identifier: GPL-2.0-only
/*
 * Modules. No layout of struct module has to be known but its first fields': what is
 * looked for proves itself.
 */
#include <inttypes.h>
#include <string.h>

#include "allocate.h"
#include "cpus.h"
#include "memory.h"
#include "modules.h"

enum { MODULE_WORDS = 256, MOST_SYMBOLS = 1 << 17 };

struct region {
	uint64_t vaddr, size, since, until, base;
	char name[64];
};

struct symbol {
	size_t region;
	uint64_t vaddr, size;
	char name[96];
};

static struct region *regions;
static size_t n_regions, regions_room;
static struct symbol *symbols;
static size_t n_symbols, symbols_room;

/* Of a symbol table: Elf64_Sym */
struct elf_symbol {
	uint32_t name;
	uint8_t info, other;
	uint16_t section;
	uint64_t value, size;
};

/* The beginning of struct mod_kallsyms (include/linux/module.h, 4.5 to 7.2) */
struct kallsyms {
	uint64_t symtab;
	uint32_t count, zero;
	uint64_t strtab;
};

/* Whether one of the numbers after a base may be the size of what is there */
static bool reaches(const uint64_t *base, uint64_t vaddr)
{
	uint32_t sizes[4];

	memcpy(sizes, base + 1, sizeof(sizes));
	for (int k = 0; k < 4; k++) {
		if (sizes[k] > vaddr - *base && sizes[k] < 64 << 20)
			return true;
	}
	return false;
}

/* A symbol table begins with a symbol of zeros, and its strings with an empty one. */
static bool are_kallsyms(uint64_t at, struct kallsyms *found)
{
	static const struct elf_symbol none;
	struct elf_symbol first;
	char empty;

	return at >> 63 && !(at % 8) && read_guest(at, found, sizeof(*found)) &&
	       found->symtab >> 63 && found->strtab >> 63 && !found->zero &&
	       found->count > 1 && found->count < MOST_SYMBOLS &&
	       read_guest(found->symtab, &first, sizeof(first)) &&
	       !memcmp(&first, &none, sizeof(none)) &&
	       read_guest(found->strtab, &empty, 1) && !empty;
}

/* Text as it may stand in JSON */
static void make_plain(char *text)
{
	for (; *text; text++)
		if (*text < '!' || *text > '~' || *text == '"' || *text == '\\')
			*text = '?';
}

static bool read_name(uint64_t at, char *name, size_t room)
{
	size_t k = 0;

	for (; k + 1 < room; k++) {
		if (!read_guest(at + k, &name[k], 1))
			return false;
		if (!name[k])
			break;
	}
	name[k] = 0;
	make_plain(name);
	return *name;
}

/* The functions of a module that may lie in the last region */
static void keep_symbols(const struct kallsyms *from)
{
	for (uint32_t k = 1; k < from->count; k++) {
		struct elf_symbol symbol;
		struct symbol *keep;

		if (!read_guest(from->symtab + k * sizeof(symbol), &symbol, sizeof(symbol)))
			return;
		if ((symbol.info & 15) != 2 || !symbol.section ||	/* STT_FUNC */
		    symbol.value - regions[n_regions - 1].vaddr >= 64 << 20)
			continue;
		symbols = with_room(symbols, n_symbols, &symbols_room, sizeof(*symbols));
		keep = &symbols[n_symbols];
		*keep = (struct symbol){ .region = n_regions - 1,
					 .vaddr = symbol.value, .size = symbol.size };
		n_symbols += read_name(from->strtab + symbol.name, keep->name, sizeof(keep->name));
	}
}

/*
 * The module whose text is at the last region's start: a pointer to the start of
 * a page, and a size soon after it, among the first words of struct module. Its
 * first fields (include/linux/module.h: state, list, name) are the same in 5.5
 * to 7.2. Its symbols: a pointer to struct mod_kallsyms among them.
 */
static void name_region(struct region *region)
{
	uint64_t head = image_vaddr + options.modules, node, words[MODULE_WORDS], of = 0;
	struct kallsyms found;
	int count = 0;

	if (!options.modules || !read_guest(head, &node, 8))
		return;
	for (int n = 0; node != head && n < 4096; n++) {
		char name[56] = "";

		if (!read_guest(node + 16, name, sizeof(name)))
			return;
		name[sizeof(name) - 1] = 0;
		for (count = 0; count < MODULE_WORDS &&
		     read_guest(node + 72 + 8 * count, &words[count], 8);)
			count++;
		for (int k = 0; k + 2 < count; k++) {
			if (words[k] % page_size() || words[k] > region->vaddr ||
			    words[k] <= region->base ||
			    !reaches(&words[k], region->vaddr))
				continue;
			region->base = words[k];
			strcpy(region->name, name);
			make_plain(region->name);
			of = node;
		}
		if (!read_guest(node, &node, 8))
			return;
	}
	for (int k = 0; of && k < MODULE_WORDS && read_guest(of + 72 + 8 * k, &words[k], 8); k++) {
		if (!are_kallsyms(words[k], &found))
			continue;
		keep_symbols(&found);
		return;
	}
}

void begin_region(uint64_t vaddr)
{
	struct region *last = n_regions ? &regions[n_regions - 1] : NULL;

	if (last && last->vaddr + last->size == vaddr && !~last->until) {
		last->size += page_size();
		return;
	}
	regions = with_room(regions, n_regions, &regions_room, sizeof(*regions));
	last = &regions[n_regions++];
	*last = (struct region){ .vaddr = vaddr, .size = page_size(),
				 .since = now(), .until = ~0ull };
	name_region(last);
}

void end_region(uint64_t vaddr)
{
	for (size_t k = n_regions; k--;) {
		if (vaddr - regions[k].vaddr < regions[k].size && !~regions[k].until)
			regions[k].until = now();
	}
}

void print_regions(FILE *out)
{
	fprintf(out, ", \"regions\": [");
	for (size_t k = 0; k < n_regions; k++)
		fprintf(out, "%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
			", \"%s\"]", k ? ", " : "", regions[k].vaddr,
			regions[k].size, regions[k].since, regions[k].until,
			regions[k].name);
	fprintf(out, "], \"symbols\": [");
	for (size_t k = 0; k < n_symbols; k++)
		fprintf(out, "%s[%zu, %" PRIu64 ", %" PRIu64 ", \"%s\"]",
			k ? ", " : "", symbols[k].region, symbols[k].vaddr,
			symbols[k].size, symbols[k].name);
	fprintf(out, "]");
}
