// SPDX-License-Identifier: GPL-2.0-only
/*
 * libFuzzer for sorttable with scripts/sorttable-arm64.h (tests/kernel_tree/test_fuzz_sorttable.py): whole files, in
 * memory that ends where the file ends. What sorttable.c of an unpatched tree takes for granted of a file is required
 * of it first: section headers, names and the symbols that it asks for are within the file, and nothing else is there.
 */
#include "elf-parse.c"
#define main sorttable_main
#include SORTTABLE
#undef main

#define TEXT		0xffff800080000000ULL
#define FUNCTIONS	9	/* of tests/support/linked_elf.py */

static unsigned char *file;
static size_t file_size;

static bool within(uint64_t offset, uint64_t size)
{
	return offset <= file_size && size <= file_size - offset;
}

static Elf64_Shdr *section(unsigned int index)
{
	return (Elf64_Shdr *)(file + ((Elf64_Ehdr *)file)->e_shoff) + index;
}

static Elf64_Shdr *section_named(const char *name)
{
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)file;
	const char *names = (char *)file + section(ehdr->e_shstrndx)->sh_offset;
	Elf64_Shdr *found = NULL;

	for (unsigned int i = 0; i < ehdr->e_shnum; i++) {
		if (!strcmp(names + section(i)->sh_name, name))
			found = section(i);
	}
	return found;
}

/* The first symbol of that name. */
static Elf64_Sym *symbol(const char *name)
{
	Elf64_Shdr *table = section_named(".symtab"), *strings = section_named(".strtab");
	Elf64_Sym *sym = (void *)(file + table->sh_offset), *end = (void *)sym + table->sh_size;

	for (; sym < end; sym++) {
		if (!strcmp((char *)file + strings->sh_offset + sym->st_name, name))
			return sym;
	}
	return NULL;
}

static bool is_text(Elf64_Shdr *strings)
{
	return strings && strings->sh_type != SHT_NOBITS && strings->sh_size &&
	       !file[strings->sh_offset + strings->sh_size - 1];
}

static bool headers_are_right(void)
{
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)file;

	if (file_size < sizeof(*ehdr) || memcmp(ehdr->e_ident, "\177ELF\2\1\1", 7) ||
	    ehdr->e_machine != EM_AARCH64 || ehdr->e_ehsize != sizeof(*ehdr) ||
	    ehdr->e_shentsize != sizeof(Elf64_Shdr) || ehdr->e_shoff % 8 || !ehdr->e_shnum ||
	    ehdr->e_shnum >= SHN_LORESERVE || ehdr->e_shstrndx >= ehdr->e_shnum ||
	    !within(ehdr->e_shoff, ehdr->e_shnum * sizeof(Elf64_Shdr)))
		return false;

	for (unsigned int i = 0; i < ehdr->e_shnum; i++) {
		Elf64_Shdr *shdr = section(i);

		/* What is written is neither a header nor a symbol: see below. */
		if (shdr->sh_type != SHT_NOBITS && shdr->sh_size &&
		    (shdr->sh_offset % 8 || shdr->sh_offset < sizeof(*ehdr) || shdr->sh_offset > ehdr->e_shoff ||
		     shdr->sh_size > ehdr->e_shoff - shdr->sh_offset))
			return false;
		if (shdr->sh_type == SHT_SYMTAB_SHNDX || shdr->sh_name >= section(ehdr->e_shstrndx)->sh_size)
			return false;
		if (shdr->sh_type == SHT_RELA &&
		    (shdr->sh_entsize < sizeof(Elf64_Rela) || shdr->sh_entsize % 8 || shdr->sh_size % shdr->sh_entsize))
			return false;
		/* A kernel's. */
		if (shdr->sh_addr && (shdr->sh_addr < TEXT || shdr->sh_addr > TEXT + (1ULL << 40)))
			return false;
	}
	return is_text(section(ehdr->e_shstrndx));
}

static bool symbols_are_right(void)
{
	Elf64_Shdr *table = section_named(".symtab"), *strings = section_named(".strtab");
	Elf64_Shdr *exceptions = section_named("__ex_table"), *data = section_named(".init.data"), *home;
	Elf64_Sym *start, *stop, *needed;

	if (!table || table->sh_type == SHT_NOBITS || table->sh_entsize != sizeof(Elf64_Sym) ||
	    table->sh_size % sizeof(Elf64_Sym) || !is_text(strings) || !exceptions ||
	    exceptions->sh_type == SHT_NOBITS || exceptions->sh_size % 12 || !data || data->sh_type == SHT_NOBITS)
		return false;
	for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); i++) {
		if (((Elf64_Sym *)(file + table->sh_offset))[i].st_name >= strings->sh_size)
			return false;
	}
	start = symbol("__start_mcount_loc");
	stop = symbol("__stop_mcount_loc");
	needed = symbol("main_extable_sort_needed");
	/* Of several symbols of that name, sorttable takes the first object. */
	if (!start || !stop || !needed || ELF64_ST_TYPE(needed->st_info) != STT_OBJECT ||
	    needed->st_shndx >= ((Elf64_Ehdr *)file)->e_shnum)
		return false;
	home = section(needed->st_shndx);
	return start->st_value % 8 == 0 && stop->st_value % 8 == 0 && data->sh_addr % 8 == 0 &&
	       start->st_value >= data->sh_addr && start->st_value <= stop->st_value &&
	       stop->st_value - data->sh_addr <= data->sh_size && home->sh_type != SHT_NOBITS &&
	       needed->st_value % 4 == 0 && home->sh_addr % 4 == 0 && needed->st_value >= home->sh_addr &&
	       home->sh_size >= 4 && needed->st_value - home->sh_addr <= home->sh_size - 4;
}

static bool overlap(Elf64_Shdr *a, Elf64_Shdr *b)
{
	return a->sh_type != SHT_NOBITS && a->sh_size && b->sh_size &&
	       a->sh_offset < b->sh_offset + b->sh_size && b->sh_offset < a->sh_offset + a->sh_size;
}

/* Symbols are read while the exceptions and the records are sorted: what is written must not be theirs. */
static bool symbols_are_alone(void)
{
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)file;
	Elf64_Shdr *read[] = { section(ehdr->e_shstrndx), section_named(".symtab"), section_named(".strtab") };

	for (unsigned int i = 0; i < ehdr->e_shnum; i++) {
		for (int k = 0; k < 3; k++) {
			if (section(i) != read[k] && overlap(section(i), read[k]))
				return false;
		}
	}
	return true;
}

/* The exception table is sorted in another thread, and its flag cleared, whatever becomes of the records. */
static void leave_out_exceptions(unsigned char *copy)
{
	Elf64_Shdr *exceptions = section_named("__ex_table");
	Elf64_Sym *needed = symbol("main_extable_sort_needed");
	Elf64_Shdr *home = section(needed->st_shndx);
	uint64_t flag = home->sh_offset + (needed->st_value - home->sh_addr);

	memcpy(copy + exceptions->sh_offset, file + exceptions->sh_offset, exceptions->sh_size);
	memcpy(copy + flag, file + flag, 4);
}

static int process(void)
{
	mcount_sort_thread = 0;
	if (elf_parse("input", file, 1 << ET_EXEC | 1 << ET_DYN))
		return -1;
	return do_file("input", file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	for (int i = 0; i < FUNCTIONS; i++)
		add_field(TEXT + 64 + 32 * i, 16);
	qsort(function_list, function_list_size, sizeof(struct func_info), cmp_funcs);
	return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	unsigned char *before;

	file = malloc(size);
	file_size = size;
	memcpy(file, data, size);
	if (!headers_are_right() || !symbols_are_right() || !symbols_are_alone()) {
		free(file);
		return -1;
	}
	before = malloc(size);
	memcpy(before, data, size);
	if (process()) {
		leave_out_exceptions(before);
		if (memcmp(before, file, size))
			abort();	/* refused, and written */
	} else if (PROLOGUE_PRE_NOPS >= 0 && !process()) {
		abort();	/* done twice */
	}
	free(before);
	free(file);
	return 0;
}
