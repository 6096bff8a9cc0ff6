/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest's memory: where QEMU keeps it, which physical pages hold text that
 * the kernel can execute, and a copy of each of them.
 *
 * Text is what the kernel's own page tables (swapper_pg_dir) map executable at
 * EL1; all of their pages are watched, so a module's text is text from the
 * store that makes it executable on, and no text after its mapping is gone.
 * Before there are page tables, text is what the Image has as text.
 * Descriptors: Arm ARM DDI 0487, "VMSAv8-64 translation table format
 * descriptors". Everything here runs under the lock of writes.c.
 */
#define RAM_BASE 0x40000000ull	/* QEMU's virt board */

enum kind { PLAIN = 0, TEXT = 1, TABLE = 2 };	/* bits of kinds[] */

struct text_page {
	uint64_t vaddr;		/* where it is executed, 0: not mapped yet */
	uint32_t mapped;	/* how often it is mapped executable */
	bool image;		/* text because the Image says so */
	uint8_t *ran;		/* by word: enum ran */
	struct watch **watches;	/* by word; NULL: none is watched (first_runs.h) */
	uint32_t copy[];
};

/*
 * QEMU translates what is executed, and again what was written since: so a word
 * that is translated is about to be executed, and one that is not was not.
 */
enum ran { EVER = 1, SINCE = 2 };	/* since its page is text, its last write */

struct table {
	uint64_t vaddr;		/* that its first entry translates */
	int level;
	uint64_t entries[];
};

static uint8_t *ram;		/* QEMU's pointer to guest memory */
static uint64_t ram_size;
static unsigned int page_shift = 12, va_bits;
static int root_level;
static uint64_t image_load;	/* physical, and where it runs: 0 before that */
static uint64_t image_size, image_vaddr;
static uint64_t root_offset, modules_offset, stext_offset;	/* in the Image */
static bool root_known;
static uint8_t *kinds;		/* by page of RAM */
static void **pages;		/* struct text_page or struct table */

static uint64_t now(void);
static void give_up(const char *what);
static void begin_region(uint64_t vaddr);	/* modules.h */
static void end_region(uint64_t vaddr);
static void end_watches(struct text_page *text);	/* first_runs.h */

static uint64_t page_size(void)
{
	return 1ull << page_shift;
}

static bool in_ram(uint64_t paddr, uint64_t size)
{
	return paddr >= RAM_BASE && paddr - RAM_BASE < ram_size &&
	       size <= ram_size - (paddr - RAM_BASE);
}

static uint64_t page_of(uint64_t paddr)
{
	return (paddr - RAM_BASE) >> page_shift;
}

static uint64_t read64(uint64_t paddr)
{
	uint64_t value;

	memcpy(&value, ram + (paddr - RAM_BASE), sizeof(value));
	return value;
}

static uint64_t span(int level)
{
	return 1ull << (page_shift + (3 - level) * (page_shift - 3));
}

static uint64_t output(uint64_t entry)
{
	return entry & 0x0000ffffffffffffull & ~(page_size() - 1);
}

static bool is_table(uint64_t entry, int level)
{
	return level < 3 && (entry & 3) == 3;
}

static bool is_leaf(uint64_t entry, int level)
{
	return (entry & 3) == (level < 3 ? 1 : 3);
}

/* Where the kernel's page tables map an address, 0 if nowhere */
static uint64_t walk(uint64_t vaddr, unsigned int bits, int level)
{
	uint64_t table = image_load + root_offset;
	uint64_t offset = vaddr & ((1ull << bits) - 1);

	if (vaddr >> bits != (1ull << (64 - bits)) - 1)
		return 0;
	for (;; level++) {
		uint64_t at = table + 8 * (offset / span(level)), entry;

		offset %= span(level);
		if (!in_ram(at, 8))
			return 0;
		entry = read64(at);
		if (is_leaf(entry, level))
			return (output(entry) & ~(span(level) - 1)) + offset;
		if (!is_table(entry, level))
			return 0;
		table = output(entry);
	}
}

/* Where a virtual address of the kernel, or a physical one, lies; 0 if nowhere */
static uint64_t physical(uint64_t vaddr)
{
	if (!(vaddr >> 63))
		return vaddr;
	return root_known ? walk(vaddr, va_bits, root_level) : 0;
}

/* Guest memory at a virtual address of the kernel, or at a physical one */
static bool read_guest(uint64_t vaddr, void *into, size_t size)
{
	uint8_t *to = into;

	while (size) {
		uint64_t here = page_size() - vaddr % page_size();
		uint64_t paddr = physical(vaddr);

		if (here > size)
			here = size;
		if (!in_ram(paddr, here))
			return false;
		memcpy(to, ram + (paddr - RAM_BASE), here);
		to += here;
		vaddr += here;
		size -= here;
	}
	return true;
}

static struct text_page *text_page(uint64_t page)
{
	return kinds[page] & TEXT ? pages[page] : NULL;
}

static struct text_page *make_text(uint64_t page)
{
	struct text_page *text = calloc(1, sizeof(*text) + page_size() +
					   page_size() / 4);

	if (!text)
		give_up("writes");
	text->ran = (uint8_t *)text->copy + page_size();
	memcpy(text->copy, ram + (page << page_shift), page_size());
	pages[page] = text;
	kinds[page] |= TEXT;
	return text;
}

/* An instruction is about to be executed */
static void mark_run(uint64_t paddr)
{
	struct text_page *text = in_ram(paddr, 4) ? text_page(page_of(paddr)) : NULL;

	if (text)
		text->ran[paddr % page_size() / 4] = EVER | SINCE;
}

static void map_text(uint64_t paddr, uint64_t size, uint64_t vaddr)
{
	for (; size; size -= page_size(), paddr += page_size(),
	     vaddr += page_size()) {
		uint64_t page = page_of(paddr);
		struct text_page *text;

		if (!in_ram(paddr, page_size()) || kinds[page] & TABLE)
			continue;
		text = text_page(page) ?: make_text(page);
		if (!text->mapped++ && !text->image) {
			text->vaddr = vaddr;
			if (paddr - image_load >= image_size)
				begin_region(vaddr);
		}
	}
}

static void drop_text(uint64_t page)
{
	struct text_page *text = text_page(page);

	if (!text)
		return;
	if (!text->image)
		end_region(text->vaddr);
	end_watches(text);
	kinds[page] &= ~TEXT;
	pages[page] = NULL;
	free(text);
}

static void unmap_text(uint64_t paddr, uint64_t size)
{
	for (; size; size -= page_size(), paddr += page_size()) {
		struct text_page *text;

		if (!in_ram(paddr, page_size()))
			continue;
		text = text_page(page_of(paddr));
		if (!text || !text->mapped || --text->mapped)
			continue;
		drop_text(page_of(paddr));
	}
}

static void change_entry(struct table *table, unsigned int k, uint64_t new);

static void add_table(uint64_t paddr, int level, uint64_t vaddr)
{
	uint64_t page = page_of(paddr);
	struct table *table;

	if (!in_ram(paddr, page_size()) || kinds[page])
		return;
	table = calloc(1, sizeof(*table) + page_size());
	if (!table)
		give_up("writes");
	table->level = level;
	table->vaddr = vaddr;
	kinds[page] = TABLE;
	pages[page] = table;
	for (unsigned int k = 0; k < page_size() / 8; k++)
		change_entry(table, k, read64(paddr + 8 * k));
}

static void remove_table(uint64_t paddr)
{
	struct table *table;

	if (!in_ram(paddr, page_size()) || !(kinds[page_of(paddr)] & TABLE))
		return;
	table = pages[page_of(paddr)];
	for (unsigned int k = 0; k < page_size() / 8; k++)
		change_entry(table, k, 0);
	kinds[page_of(paddr)] = PLAIN;
	pages[page_of(paddr)] = NULL;
	free(table);
}

/* The part of an entry that decides what is executable where */
static uint64_t meaning(uint64_t entry, int level)
{
	if (is_table(entry, level))	/* PXNTable: nothing below executes */
		return entry >> 59 & 1 ? 0 : output(entry) | 3;
	if (is_leaf(entry, level))	/* PXN */
		return entry >> 53 & 1 ? 0 :
		       (output(entry) & ~(span(level) - 1)) | (level < 3 ? 1 : 3);
	return 0;
}

static void change_entry(struct table *table, unsigned int k, uint64_t new)
{
	uint64_t old = table->entries[k], size = span(table->level);
	uint64_t vaddr = table->vaddr + k * size;

	new = meaning(new, table->level);
	if (old == new)
		return;
	table->entries[k] = new;
	if (is_table(old, table->level))
		remove_table(output(old));
	else if (old)
		unmap_text(output(old), size);
	if (is_table(new, table->level))
		add_table(output(new), table->level + 1, vaddr);
	else if (new)
		map_text(output(new), size, vaddr);
}

/* A store to a page of the tables */
static void table_written(uint64_t paddr, unsigned int size)
{
	uint64_t end = (paddr + size + 7) & ~7ull;

	for (paddr &= ~7ull; paddr < end; paddr += 8) {
		uint64_t page = page_of(paddr);

		if (in_ram(paddr, 8) && kinds[page] & TABLE)
			change_entry(pages[page], paddr % page_size() / 8,
				     read64(paddr));
	}
}

/*
 * What the Image has before _stext runs before there are page tables only; then
 * it is memory as any other (arch/arm64/mm/init.c, arm64_memblock_init).
 */
static void drop_head(void)
{
	for (uint64_t at = 0; at < stext_offset; at += page_size()) {
		struct text_page *text = text_page(page_of(image_load + at));

		if (text && !text->mapped)
			drop_text(page_of(image_load + at));
	}
}

/*
 * Code of the Image runs at a virtual address: the kernel's tables may be there.
 * How many levels they have is what explains that address.
 */
static void find_root(uint64_t vaddr, uint64_t paddr)
{
	static const unsigned int every[] = { 36, 39, 42, 47, 48, 52 };

	image_vaddr = vaddr - (paddr - image_load);
	for (size_t k = sizeof(every) / sizeof(*every); k--;) {
		unsigned int index = page_shift - 3;
		int levels = (every[k] - page_shift + index - 1) / index;

		if (levels > 5 || walk(vaddr, every[k], 4 - levels) != paddr)
			continue;
		va_bits = every[k];
		root_level = 4 - levels;
		root_known = true;
		add_table(image_load + root_offset, root_level, 0 - (1ull << va_bits));
		drop_head();
		return;
	}
}
