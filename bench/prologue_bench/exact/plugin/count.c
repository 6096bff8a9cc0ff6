// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what an arm64 kernel does from reset to the first instruction of its
 * init: instructions executed, those of them that maintain caches and TLBs or
 * wait for it, words of its text written, and lines of its text that
 * ftrace_init reads and writes.
 *
 * -plugin libcount.so,NAME=VALUE,... with numbers in hex:
 *
 *   load=PHYS     where the Image lies: it begins to run there, MMU off
 *   begin=OFFSET  first instruction of ftrace_init
 *   end=OFFSET    where ftrace_init returns to
 *   freed=OFFSET  first instruction of free_initmem
 *   relocate=OFFSET    first instruction of relocate_kernel, and ...
 *   relocated=OFFSET   ... the first one after it; both 0: there is none
 *   stop=VADDR    first instruction of init, in user space
 *   text=OFFSET   first word that the file of classes describes
 *   classes=PATH  one byte for each 4-byte word from there on: enum class,
 *                 with INIT_MEMORY added in memory that free_initmem gives away
 *   out=PATH      what was counted, one line of JSON, written at the first
 *                 execution of stop, or at exit if that never comes
 *
 * An OFFSET is one in the Image. Code is known by where it lies in memory, not
 * by its virtual address: the Image begins to run with the MMU off, and KASLR
 * moves it.
 *
 * An instruction is counted when it begins to execute, so one that faults and
 * is executed again counts twice. Instructions at begin, end and stop belong
 * to what follows them. A store counts every word that it covers: a 64-bit one
 * to a literal counts 2. Accesses of one instruction that QEMU does in a helper
 * (DC ZVA, SVE) are not seen; neither is what a device writes, nor QEMU
 * loading the Image. A line is 64 bytes, whatever the CPU says, and counts once;
 * that an instruction of it is executed is no access. There must be one CPU only.
 */
#include "arguments.h"
#include "classes.h"
#include "in_init.h"
#include "qemu.h"

/* Cache maintenance by address, I-cache invalidation, TLBI, and barriers */
enum operation { DC, IC, TLBI, DSB, ISB, OPERATIONS };

struct counts {
	uint64_t instructions, relocation;
	uint64_t words[CLASSES];
	uint64_t operations[OPERATIONS];
};

/* A place in the guest's code, and what had been counted when it was reached */
struct place {
	const char *name;
	uint64_t where;		/* LOAD: physical; STOP: virtual; else in the Image */
	bool reached;
	const uint32_t *host;	/* QEMU's own address of that guest memory */
	uint32_t word;
	struct counts before;
};

enum { LOAD, BEGIN, END, FREED, STOP, PLACES };

int qemu_plugin_version = PLUGIN_API;
static struct place places[PLACES] = {
	[LOAD] = { "load" }, [BEGIN] = { "begin" }, [END] = { "end" },
	[FREED] = { "freed" }, [STOP] = { "stop" },
};
static struct counts now;
static uint64_t own_id, load, relocate, relocated;
static const char *out_path;
static const uint32_t *image;	/* QEMU's own address of where the Image lies */

static bool in_ftrace_init(void)
{
	return places[BEGIN].reached && !places[END].reached;
}

static void print_counts(FILE *out, const char *name, const struct counts *from,
			 const struct counts *to)
{
	static const char * const names[CLASSES] = {
		[FIRST] = "first", [SECOND] = "second", [LITERAL] = "literal",
		[OTHER] = "other",
	};
	static const char * const operations[OPERATIONS] = {
		[DC] = "dc", [IC] = "ic", [TLBI] = "tlbi", [DSB] = "dsb",
		[ISB] = "isb",
	};

	fprintf(out, ", \"%s\": {\"instructions\": %" PRIu64
		", \"relocation\": %" PRIu64, name,
		to->instructions - from->instructions,
		to->relocation - from->relocation);
	for (int k = FIRST; k < CLASSES; k++)
		fprintf(out, ", \"%s\": %" PRIu64, names[k], to->words[k] - from->words[k]);
	for (int k = DC; k < OPERATIONS; k++)
		fprintf(out, ", \"%s\": %" PRIu64, operations[k],
			to->operations[k] - from->operations[k]);
	fprintf(out, "}");
}

static void report(void)
{
	static const struct counts nothing;
	FILE *out = fopen(out_path, "w");

	if (!out) {
		perror(out_path);
		exit(1);
	}
	fprintf(out, "{\"places\": {");
	for (int k = 0; k < PLACES; k++) {
		const struct place *place = &places[k];

		fprintf(out, "%s\"%s\": ", k ? ", " : "", place->name);
		if (!place->reached)
			fprintf(out, "null");
		else	/* how far from the Image's start in guest memory */
			fprintf(out, "{\"word\": %" PRIu32 ", \"offset\": %td}",
				place->word, 4 * (place->host - image));
	}
	fprintf(out, "}");
	print_counts(out, "boot", &nothing, places[STOP].reached ? &places[STOP].before : &now);
	print_counts(out, "ftrace_init", &places[BEGIN].before, &places[END].before);
	fprintf(out, ", \"lines\": {\"read\": %" PRIu64 ", \"written\": %"
		PRIu64 "}}\n", lines_with(LINE_READ),
		lines_with(LINE_WRITTEN));
	if (fclose(out)) {
		perror(out_path);
		exit(1);
	}
}

static void count(unsigned int cpu, void *data)
{
	now.instructions++;
}

static void count_relocation(unsigned int cpu, void *data)
{
	/* What was init's text is free memory in the end. */
	if (!places[FREED].reached)
		now.relocation++;
}

static void operate(unsigned int cpu, void *data)
{
	now.operations[(uintptr_t)data]++;
}

/* Arm ARM DDI 0487, "System instruction class encoding overview": SYS with
 * CRn 7 is cache maintenance, DC ZVA and AT; with CRn 8 and 9 it is TLBI.
 */
static enum operation operation(uint32_t word)
{
	uint32_t crm = word >> 8 & 15;

	switch (word & 0xfff8f000) {
	case 0xd5087000:
		if (crm == 1 || crm == 5)
			return IC;
		return crm == 6 || (crm >= 10 && crm <= 14) ? DC : OPERATIONS;
	case 0xd5088000:
	case 0xd5089000:
		return TLBI;
	}
	switch (word & 0xfffff0ff) {
	case 0xd503309f:
		return DSB;
	case 0xd50330df:
		return ISB;
	}
	return OPERATIONS;
}

static void gone(uint64_t id)
{
}

static void reach(unsigned int cpu, void *data)
{
	struct place *place = data;

	if (place->reached)
		return;
	place->reached = true;
	place->word = place->host ? *place->host : 0;
	place->before = now;
	if (place != &places[STOP])
		return;
	report();
	/* Whatever runs from now on need not wait for our callbacks. */
	qemu_plugin_reset(own_id, gone);
}

static void write_words(uint64_t from, uint64_t to)
{
	for (uint64_t k = (from - classes.text) / 4; k <= (to - 1 - classes.text) / 4; k++) {
		uint8_t class = classes.of[k];

		/* What was init's text is free memory in the end. */
		if (!(class & INIT_MEMORY) || !places[FREED].reached)
			now.words[class & ~INIT_MEMORY]++;
	}
}

static void access(unsigned int cpu, uint32_t info, uint64_t vaddr, void *data)
{
	bool is_store = qemu_plugin_mem_is_store(info);
	uint64_t end = classes.text + 4 * classes.n;
	struct qemu_plugin_hwaddr *where;
	uint64_t from, to;

	if (places[STOP].reached || !(is_store || in_ftrace_init()))
		return;
	/* The kernel writes its text through other mappings. */
	where = qemu_plugin_get_hwaddr(info, vaddr);
	if (!where || qemu_plugin_hwaddr_is_io(where))
		return;
	from = qemu_plugin_hwaddr_phys_addr(where) - load;
	to = from + (1ull << qemu_plugin_mem_size_shift(info));
	/* Below the Image, FROM is a very large number. */
	if (from >= end || to <= classes.text)
		return;
	from = from < classes.text ? classes.text : from;
	to = to > end ? end : to;
	if (in_ftrace_init())
		touch_lines(from, to, is_store ? LINE_WRITTEN : LINE_READ);
	if (is_store)
		write_words(from, to);
}

static void watch_place(struct place *place, struct qemu_plugin_insn *insn)
{
	place->host = qemu_plugin_insn_haddr(insn);
	qemu_plugin_register_vcpu_insn_exec_cb(insn, reach, CB_NO_REGS, place);
}

/* Of an instruction that lies in the Image. */
static void watch_image(uint64_t offset, struct qemu_plugin_insn *insn)
{
	for (int k = BEGIN; k <= FREED; k++) {
		if (places[k].where == offset && !places[k].reached)
			watch_place(&places[k], insn);
	}
	if (offset >= relocate && offset < relocated)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, count_relocation, CB_NO_REGS, NULL);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	if (places[STOP].reached)
		return;
	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
		uint64_t vaddr = qemu_plugin_insn_vaddr(insn);
		const uint32_t *word = qemu_plugin_insn_haddr(insn);
		enum operation what = word ? operation(*word) : OPERATIONS;

		/* Before it is counted: callbacks run in their order here. */
		if (vaddr == load && !image) {
			image = word;
			watch_place(&places[LOAD], insn);
		}
		if (vaddr == places[STOP].where)
			watch_place(&places[STOP], insn);
		if (image && word >= image)
			watch_image(4 * (word - image), insn);
		qemu_plugin_register_vcpu_insn_exec_cb(insn, count, CB_NO_REGS, NULL);
		if (what != OPERATIONS)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, operate, CB_NO_REGS,
				(void *)(uintptr_t)what);
		/* Asked for stores only, QEMU 7.2 reports loads as well. */
		qemu_plugin_register_vcpu_mem_cb(insn, access, CB_NO_REGS, MEM_RW, NULL);
	}
}

static void at_exit(uint64_t id, void *data)
{
	if (!places[STOP].reached)
		report();
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	const char *classes_path = NULL;
	const struct argument known[] = {
		{ "load", .number = &places[LOAD].where },
		{ "begin", .number = &places[BEGIN].where },
		{ "end", .number = &places[END].where },
		{ "freed", .number = &places[FREED].where },
		{ "stop", .number = &places[STOP].where }, { "text", .number = &classes.text },
		{ "relocate", .number = &relocate }, { "relocated", .number = &relocated },
		{ "out", .text = &out_path }, { "classes", .text = &classes_path }, {},
	};

	if (read_arguments("count", known, argc, argv))
		return -1;
	for (int k = 0; k < PLACES; k++) {
		if (!places[k].where) {
			fprintf(stderr, "count: no %s=\n", places[k].name);
			return -1;
		}
	}
	if (!classes_path || !out_path) {
		fprintf(stderr, "count: needs classes= and out=\n");
		return -1;
	}
	if (read_classes(classes_path) || make_room())
		return -1;
	load = places[LOAD].where;
	own_id = id;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
