// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what an arm64 machine does between two places in its user space, each
 * time it comes from the first to the second: instructions of kernel and user
 * space, and how often each prologue was executed.
 *
 * -plugin libworkload.so,NAME=VALUE,... with numbers in hex:
 *
 *   begin=VADDR   first instruction of a span
 *   end=VADDR     first instruction after it
 *   text=VADDR    first word that the file of classes describes
 *   classes=PATH  one byte for each 4-byte word from there on: enum class,
 *                 with INIT_MEMORY added in memory that free_initmem gives away
 *   out=PATH      one line of JSON for each span, written when it ends
 *
 * A line holds, for each first slot that was executed, [its word's index in the
 * file of classes, how often, what stood there when the span ended].
 *
 * An instruction is counted when it begins to execute, so one that faults and
 * is executed again counts twice. The kernel's are those in the upper half of
 * the address space. There must be one CPU only, and no other program with
 * instructions at begin or end.
 */
#include "arguments.h"
#include "classes.h"
#include "qemu.h"

/* A first slot */
struct site {
	uint64_t executed;
	const uint32_t *host;	/* QEMU's own address of that guest memory */
};

int qemu_plugin_version = PLUGIN_API;
static uint64_t kernel, user;
static uint64_t begin, end;
static struct site *sites;	/* of each word of the text */
static const char *out_path;
static bool inside;

static void count(unsigned int cpu, void *counter)
{
	++*(uint64_t *)counter;
}

static void begin_span(unsigned int cpu, void *data)
{
	kernel = user = 0;
	for (uint64_t k = 0; k < classes.n; k++)
		sites[k].executed = 0;
	inside = true;
}

static void end_span(unsigned int cpu, void *data)
{
	const char *separator = "";
	FILE *out;

	if (!inside)
		return;
	inside = false;
	out = fopen(out_path, "a");
	if (!out)
		goto bad;
	fprintf(out, "{\"kernel\": %" PRIu64 ", \"user\": %" PRIu64
		", \"entries\": [", kernel, user);
	for (uint64_t k = 0; k < classes.n; k++) {
		if (!sites[k].executed)
			continue;
		fprintf(out, "%s[%" PRIu64 ", %" PRIu64 ", %" PRIu32 "]",
			separator, k, sites[k].executed, *sites[k].host);
		separator = ", ";
	}
	fprintf(out, "]}\n");
	if (!fclose(out))
		return;
bad:
	perror(out_path);
	exit(1);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
		uint64_t vaddr = qemu_plugin_insn_vaddr(insn);
		uint64_t word = (vaddr - classes.text) / 4;

		/* Before it is counted: callbacks run in their order here. */
		if (vaddr == begin || vaddr == end)
			qemu_plugin_register_vcpu_insn_exec_cb(insn,
				vaddr == begin ? begin_span : end_span,
				CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_insn_exec_cb(insn, count, CB_NO_REGS,
			vaddr >> 63 ? &kernel : &user);
		if (vaddr < classes.text || word >= classes.n ||
		    (classes.of[word] & ~INIT_MEMORY) != FIRST)
			continue;
		sites[word].host = qemu_plugin_insn_haddr(insn);
		qemu_plugin_register_vcpu_insn_exec_cb(insn, count, CB_NO_REGS,
						       &sites[word].executed);
	}
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	const char *classes_path = NULL;
	const struct argument known[] = {
		{ "begin", .number = &begin }, { "end", .number = &end },
		{ "text", .number = &classes.text }, { "classes", .text = &classes_path },
		{ "out", .text = &out_path }, {},
	};

	if (read_arguments("workload", known, argc, argv))
		return -1;
	if (!begin || !end || !classes.text || !classes_path || !out_path) {
		fprintf(stderr, "workload: needs begin=, end=, text=, classes= and out=\n");
		return -1;
	}
	if (read_classes(classes_path))
		return -1;
	sites = calloc(classes.n, sizeof(*sites));
	if (!sites) {
		perror("workload");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
