// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what an arm64 kernel does from reset to the first instruction of its
 * init: instructions executed, and words of its text written.
 *
 * -plugin libcount.so,NAME=VALUE,... with numbers in hex:
 *
 *   load=PHYS     where the Image lies: it begins to run there, MMU off
 *   begin=VADDR   first instruction of ftrace_init
 *   end=VADDR     where ftrace_init returns to
 *   freed=VADDR   first instruction of free_initmem
 *   stop=VADDR    first instruction of init, in user space
 *   text=PHYS     first word that the file of classes describes
 *   classes=PATH  one byte for each 4-byte word from there on: enum class,
 *                 with INIT_MEMORY added in memory that free_initmem gives away
 *   out=PATH      what was counted, one line of JSON, written at the first
 *                 execution of stop, or at exit if that never comes
 *
 * An instruction is counted when it begins to execute, so one that faults and
 * is executed again counts twice. Instructions at begin, end and stop belong
 * to what follows them. A store counts every word that it covers: a 64-bit one
 * to a literal counts 2. Stores of one instruction that QEMU does in a helper
 * (DC ZVA, SVE) are not seen; neither is what a device writes, nor QEMU
 * loading the Image. There must be one CPU only.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The part of QEMU's plugin interface that is used here, declared by us since
 * distributions ship no header for it. QEMU refuses a plugin whose
 * qemu_plugin_version it does not support, and within a version the interface
 * does not change. All of this is the same in versions 1 to 5, if the version
 * is the only difference: inline counters and the instruction's bytes are not,
 * so they are not used.
 */
#ifndef PLUGIN_API
#define PLUGIN_API 1
#endif
#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

enum { CB_NO_REGS = 0 };	/* enum qemu_plugin_cb_flags */
enum { MEM_W = 2 };		/* enum qemu_plugin_mem_rw */

typedef void (*tb_cb)(uint64_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_cb)(unsigned int cpu, void *data);
typedef void (*mem_cb)(unsigned int cpu, uint32_t info, uint64_t vaddr,
		       void *data);
typedef void (*exit_cb)(uint64_t id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, tb_cb cb);
void qemu_plugin_register_atexit_cb(uint64_t id, exit_cb cb, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    exec_cb cb, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb,
				      int flags, int rw, void *data);
unsigned int qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info,
						  uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *where);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *where);

EXPORT int qemu_plugin_version = PLUGIN_API;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc,
			       char **argv);

enum class { NO_TEXT, FIRST, SECOND, LITERAL, OTHER, CLASSES };
enum { INIT_MEMORY = 0x80 };

struct counts {
	uint64_t instructions;
	uint64_t words[CLASSES];
};

/* A place in the guest's code, and what had been counted when it was reached */
struct place {
	const char *name;
	uint64_t vaddr;
	bool reached;
	const uint32_t *host;	/* QEMU's own address of that guest memory */
	uint32_t word;
	struct counts before;
};

enum { LOAD, BEGIN, END, FREED, STOP, PLACES };

static struct place places[PLACES] = {
	[LOAD] = { "load" }, [BEGIN] = { "begin" }, [END] = { "end" },
	[FREED] = { "freed" }, [STOP] = { "stop" },
};
static struct counts now;
static uint64_t text, text_words;
static uint8_t *classes;
static const char *out_path;

static void print_counts(FILE *out, const char *name, const struct counts *from,
			 const struct counts *to)
{
	static const char * const names[CLASSES] = {
		[FIRST] = "first", [SECOND] = "second", [LITERAL] = "literal",
		[OTHER] = "other",
	};

	fprintf(out, ", \"%s\": {\"instructions\": %" PRIu64, name,
		to->instructions - from->instructions);
	for (int k = FIRST; k < CLASSES; k++)
		fprintf(out, ", \"%s\": %" PRIu64, names[k],
			to->words[k] - from->words[k]);
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
				place->word, 4 * (place->host - places[LOAD].host));
	}
	fprintf(out, "}");
	print_counts(out, "boot", &nothing, places[STOP].reached ?
		     &places[STOP].before : &now);
	print_counts(out, "ftrace_init", &places[BEGIN].before,
		     &places[END].before);
	fprintf(out, "}\n");
	if (fclose(out)) {
		perror(out_path);
		exit(1);
	}
}

static void count(unsigned int cpu, void *data)
{
	now.instructions++;
}

static void reach(unsigned int cpu, void *data)
{
	struct place *place = data;

	if (place->reached)
		return;
	place->reached = true;
	place->word = place->host ? *place->host : 0;
	place->before = now;
	if (place == &places[STOP])
		report();
}

static void store(unsigned int cpu, uint32_t info, uint64_t vaddr, void *data)
{
	struct qemu_plugin_hwaddr *where;
	uint64_t from, to;

	/* Asked for stores only, QEMU 7.2 tells of loads as well. */
	if (places[STOP].reached || !qemu_plugin_mem_is_store(info))
		return;
	/* The kernel writes its text through other mappings. */
	where = qemu_plugin_get_hwaddr(info, vaddr);
	if (!where || qemu_plugin_hwaddr_is_io(where))
		return;
	from = qemu_plugin_hwaddr_phys_addr(where);
	to = from + (1ull << qemu_plugin_mem_size_shift(info));
	if (to <= text || from >= text + 4 * text_words)
		return;
	from = from < text ? 0 : (from - text) / 4;
	to = (to - text + 3) / 4;
	for (; from < to && from < text_words; from++) {
		uint8_t class = classes[from];

		/* What was init's text is anybody's memory in the end. */
		if (!(class & INIT_MEMORY) || !places[FREED].reached)
			now.words[class & ~INIT_MEMORY]++;
	}
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	if (places[STOP].reached)
		return;
	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
		uint64_t vaddr = qemu_plugin_insn_vaddr(insn);

		/* Before it is counted: callbacks run in their order here. */
		for (int p = 0; p < PLACES; p++) {
			if (places[p].vaddr != vaddr || places[p].reached)
				continue;
			places[p].host = qemu_plugin_insn_haddr(insn);
			qemu_plugin_register_vcpu_insn_exec_cb(insn, reach,
							       CB_NO_REGS,
							       &places[p]);
		}
		qemu_plugin_register_vcpu_insn_exec_cb(insn, count, CB_NO_REGS,
						       NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, store, CB_NO_REGS, MEM_W,
						 NULL);
	}
}

static void at_exit(uint64_t id, void *data)
{
	if (!places[STOP].reached)
		report();
}

static int read_classes(const char *path)
{
	FILE *in = fopen(path, "r");
	long size;

	if (!in || fseek(in, 0, SEEK_END) || (size = ftell(in)) <= 0)
		goto bad;
	rewind(in);
	text_words = size;
	classes = malloc(text_words);
	if (!classes || fread(classes, 1, text_words, in) != text_words)
		goto bad;
	fclose(in);
	for (uint64_t k = 0; k < text_words; k++) {
		if ((classes[k] & ~INIT_MEMORY) >= CLASSES) {
			fprintf(stderr, "count: %s: class %#x\n", path,
				classes[k]);
			return -1;
		}
	}
	return 0;
bad:
	perror(path);
	return -1;
}

static int read_argument(const char *argument)
{
	const char *value = strchr(argument, '=');
	size_t length = value ? value - argument : 0;

	if (value++) {
		for (int k = 0; k < PLACES; k++) {
			if (strlen(places[k].name) != length ||
			    strncmp(argument, places[k].name, length))
				continue;
			places[k].vaddr = strtoull(value, NULL, 16);
			return 0;
		}
		if (!strncmp(argument, "text=", 5)) {
			text = strtoull(value, NULL, 16);
			return 0;
		}
		if (!strncmp(argument, "classes=", 8))
			return read_classes(value);
		if (!strncmp(argument, "out=", 4)) {
			out_path = strdup(value);
			return out_path ? 0 : -1;
		}
	}
	fprintf(stderr, "count: what is %s?\n", argument);
	return -1;
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	for (int k = 0; k < argc; k++) {
		if (read_argument(argv[k]))
			return -1;
	}
	for (int k = 0; k < PLACES; k++) {
		if (!places[k].vaddr) {
			fprintf(stderr, "count: no %s=\n", places[k].name);
			return -1;
		}
	}
	if (!text || !classes || !out_path) {
		fprintf(stderr, "count: needs text=, classes= and out=\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
