// SPDX-License-Identifier: GPL-2.0-only
/*
 * count.c - a QEMU plugin that counts a boot, exactly
 *
 * From reset to the first execution of the address stop=, it counts
 *
 *   instructions   executed by the guest; one that faults and is executed again counts again
 *   text stores    by what they write: first slots, second slots, CALL_OPS literals, other kernel text
 *
 * and all of them once more for what runs between begin= and end=, begin included. Stores are told apart by physical
 * address, for a kernel writes its text through other mappings (the fixmap, the linear alias). One virtual CPU only.
 *
 * Arguments: begin=, end=, stop=   virtual addresses
 *            text=, size=          physical address and bytes of kernel text
 *            sites=PATH            one byte for each word of it: 0 other, 1 first slot, 2 second slot, 3 literal, 4 no text
 *            out=PATH              where the result goes, one line of JSON
 *
 * Debian ships no qemu-plugin.h. What follows is version 1 of the plugin interface, as far as it is used here; QEMU
 * refuses a plugin whose version it does not speak (qemu_plugin_version).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_W = 2 };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void (*tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_cb)(unsigned int cpu, void *udata);
typedef void (*mem_cb)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_cb cb, enum qemu_plugin_cb_flags flags,
					    void *udata);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, enum qemu_plugin_op op, void *ptr,
						uint64_t imm);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb, enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw rw, void *udata);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

enum { OTHER, FIRST, SECOND, LITERAL, NO_TEXT, CLASSES };

static uint64_t begin, end, stop, text, size;
static unsigned char *classes;
static const char *out;

static uint64_t instructions;		/* executed so far: the only thing that happens at each instruction */
static uint64_t entered, inside;	/* instructions at begin; between begin and end */
static bool is_inside, done;
static uint64_t stores[2][CLASSES];	/* [1]: between begin and end */

static void on_begin(unsigned int cpu, void *udata)
{
	(void)cpu;
	(void)udata;
	if (is_inside || inside)
		return;
	is_inside = true;
	entered = instructions;
}

static void on_end(unsigned int cpu, void *udata)
{
	(void)cpu;
	(void)udata;
	if (!is_inside)
		return;
	is_inside = false;
	inside = instructions - entered;
}

static void print_stores(FILE *stream, const char *name, const uint64_t *counts)
{
	fprintf(stream, ", \"%s\": {\"first\": %" PRIu64 ", \"second\": %" PRIu64 ", \"literal\": %" PRIu64
		", \"other\": %" PRIu64 "}", name, counts[FIRST], counts[SECOND], counts[LITERAL], counts[OTHER]);
}

static void on_stop(unsigned int cpu, void *udata)
{
	FILE *stream;

	(void)cpu;
	(void)udata;
	if (done)
		return;
	done = true;
	stream = fopen(out, "w");
	if (!stream) {
		perror(out);
		exit(2);
	}
	fprintf(stream, "{\"instructions\": %" PRIu64 ", \"inside\": %" PRIu64, instructions, inside);
	print_stores(stream, "stores", stores[0]);
	print_stores(stream, "stores_inside", stores[1]);
	fprintf(stream, "}\n");
	fclose(stream);
}

/* Every word that the store touches is counted: eight bytes are two words. */
static void on_store(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata)
{
	struct qemu_plugin_hwaddr *where;
	uint64_t from, bytes, word;

	(void)cpu;
	(void)udata;
	/* QEMU 7.2 calls this for some loads, too, whatever was asked for. */
	if (done || !qemu_plugin_mem_is_store(info))
		return;
	where = qemu_plugin_get_hwaddr(info, vaddr);
	if (!where)
		return;
	from = qemu_plugin_hwaddr_phys_addr(where) - text;
	bytes = 1ull << qemu_plugin_mem_size_shift(info);
	if (from >= size)
		return;
	for (word = from / 4; word <= (from + bytes - 1) / 4 && word < size / 4; word++) {
		stores[0][classes[word]]++;
		stores[1][classes[word]] += is_inside;
	}
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb), k;

	(void)id;
	for (k = 0; k < count; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
		uint64_t vaddr = qemu_plugin_insn_vaddr(insn);

		/* Callbacks come before the instruction itself is counted. */
		if (vaddr == begin)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (vaddr == end)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
		if (vaddr == stop)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_stop, QEMU_PLUGIN_CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &instructions, 1);
		qemu_plugin_register_vcpu_mem_cb(insn, on_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, NULL);
	}
}

static int fail(const char *what)
{
	fprintf(stderr, "count: %s\n", what);
	return -1;
}

static int read_classes(const char *path)
{
	FILE *stream = fopen(path, "rb");
	size_t words = size / 4, got;

	if (!stream)
		return fail("sites= cannot be opened");
	classes = malloc(words);
	got = classes ? fread(classes, 1, words, stream) : 0;
	fclose(stream);
	if (got != words)
		return fail("sites= is shorter than text");
	while (words--)
		if (classes[words] >= CLASSES)
			return fail("sites= names a class that there is not");
	return 0;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	const struct { const char *name; uint64_t *value; } numbers[] = {
		{ "begin=", &begin }, { "end=", &end }, { "stop=", &stop }, { "text=", &text }, { "size=", &size },
	};
	const char *sites = NULL;
	size_t k;

	(void)info;
	while (argc--) {
		const char *argument = *argv++;

		for (k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++)
			if (!strncmp(argument, numbers[k].name, strlen(numbers[k].name)))
				*numbers[k].value = strtoull(strchr(argument, '=') + 1, NULL, 0);
		if (!strncmp(argument, "sites=", 6))
			sites = strdup(argument + 6);
		if (!strncmp(argument, "out=", 4))
			out = strdup(argument + 4);
	}
	if (!begin || !end || !stop || !size || !sites || !out)
		return fail("an argument is missing: begin=, end=, stop=, text=, size=, sites=, out=");
	if (read_classes(sites))
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
