// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records which instructions an arm64 machine executes: straight ranges, each
 * with its CPU, exception level, VMID and task; on request, each executed
 * instruction with its word as well.
 *
 * -plugin librecord.so,NAME=VALUE,... with numbers in hex:
 *
 *   out=PATH       the recording (may be a pipe)
 *   truth=PATH     each executed address and word: slow, 16 bytes each
 *   status=PATH    one line of JSON when the recording is complete
 *   load=PHYS      where the Image lies: it begins to run there, MMU off
 *   base=VADDR     where the Image is linked
 *   mapped=OFFSET  in the Image: an instruction that runs once where the kernel
 *                  was moved to (start_kernel); says the slide
 *   vectors=OFFSET:SIZE  in the Image: exception vectors; may be given again
 *   pid=OFFSET     of pid in task_struct
 *   build-id=HEX   of the kernel
 *
 * The window; without arm all code is instrumented from reset on:
 *
 *   arm=VADDR      of user space: instrument from its first execution on
 *   begin=VADDR    of user space: the task that executes it is the process
 *   from=OFFSET    in the Image: the window begins when this is executed, or
 *                  begin without from; with neither, at once
 *   end=VADDR, until=OFFSET   likewise: it ends before this
 *   count=N        it ends when so many instructions were executed in it
 *   function=OFFSET  in the Image: only what runs from there until it returns
 *   process=1      only the task that executed begin
 *   stop=1         the machine stops when the window ends
 *
 * The window ends on all CPUs at the first moment when all can be stopped: a
 * few blocks more may be recorded than were asked for.
 *
 * How: QEMU calls us when a block (instructions without a jump between them)
 * begins, before each of its instructions that may trap, and before its last.
 * What came of a block is known when the next one begins.
 */
#include "arguments.h"
#include "branching.h"
#include "encodings.h"
#include "flow.h"
#include "inside.h"
#include "qemu.h"

int qemu_plugin_version = PLUGIN_API;
static uint64_t load, base;
static struct extents vectors;
static const char *image;		/* QEMU's own address of the Image */

static bool is_place(enum place place, uint64_t vaddr, const char *host)
{
	if (!places[place])
		return false;
	if (place == ARM || place == BEGIN || place == END)
		return vaddr == places[place];
	return image && host && host == image + places[place];
}

static bool is_vector(uint64_t vaddr, const char *host)
{
	if (!image || !host || vaddr & 0x7f)
		return false;
	for (unsigned int k = 0; k < vectors.n; k++) {
		if (host >= image + vectors.of[k].start &&
		    host < image + vectors.of[k].start + vectors.of[k].size)
			return true;
	}
	return false;
}

static void find_image(struct qemu_plugin_insn *insn)
{
	char *host = qemu_plugin_insn_haddr(insn);
	uint64_t vaddr = qemu_plugin_insn_vaddr(insn);

	if (!image && vaddr == load)
		image = host;
	if (!slide_known && image && is_place(MAPPED, vaddr, host)) {
		slide = vaddr - base - places[MAPPED];
		slide_known = true;
	}
}

static void register_truth(struct qemu_plugin_tb *tb, const struct block *b)
{
	struct insn *insns = calloc(b->n, sizeof(*insns));

	for (uint32_t k = 0; insns && k < b->n; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);

		insns[k].is.vaddr = qemu_plugin_insn_vaddr(insn);
		memcpy(&insns[k].is.word, qemu_plugin_insn_data(insn), 4);
		insns[k].is.level = b->level;
		insns[k].host = qemu_plugin_insn_haddr(insn);
		insns[k].index = k;
		qemu_plugin_register_vcpu_insn_exec_cb(insn, true_insn, CB_NO_REGS, &insns[k]);
	}
}

/* The register that ELR is read into; nothing writes it in the rest of the block (kernel_entry) */
static uint8_t register_of_elr(struct qemu_plugin_tb *tb, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		uint32_t word;

		memcpy(&word, qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, k)), 4);
		if (reads_elr(word))
			return word & 31;
	}
	return REGISTER_ZR;
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	struct block *b = calloc(1, sizeof(*b));
	struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0), *insn;

	if (!b)
		return;
	find_image(first);
	b->vaddr = qemu_plugin_insn_vaddr(first);
	b->n = qemu_plugin_tb_n_insns(tb);
	b->level = current_level(own_cpu());
	b->vector = is_vector(b->vaddr, qemu_plugin_insn_haddr(first));
	for (int k = 0; k < PLACES; k++)
		b->places[k] = is_place(k, b->vaddr, qemu_plugin_insn_haddr(first));
	insn = qemu_plugin_tb_get_insn(tb, b->n - 1);
	memcpy(&b->last, qemu_plugin_insn_data(insn), 4);
	b->kind = kind_of(b->last);
	b->target = target_of(b->kind, b->last, b->vaddr + 4ull * (b->n - 1));
	b->watch = watch_of(b->last);
	b->may_trap = may_trap(b->last);
	b->elr_in = register_of_elr(tb, b->n);
	/* Callbacks run in the order in which they are registered. */
	qemu_plugin_register_vcpu_tb_exec_cb(tb, begin_block, CB_NO_REGS, b);
	if (b->may_trap && is_memory(b->last))
		qemu_plugin_register_vcpu_mem_cb(insn, accessed, CB_NO_REGS, MEM_RW, NULL);
	if (truth.path) {
		register_truth(tb, b);
		return;
	}
	for (uintptr_t k = 1; k < b->n; k++) {
		uint32_t word;

		insn = qemu_plugin_tb_get_insn(tb, k);
		memcpy(&word, qemu_plugin_insn_data(insn), 4);
		if (k == b->n - 1 || may_trap(word))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, begin_insn, CB_NO_REGS,
							       (void *)k);
	}
}

static void at_exit(uint64_t id, void *data)
{
	finish();
}

/* All callbacks are gone, no CPU runs. */
static void armed(uint64_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
}

static void arm(unsigned int index, void *data)
{
	static bool done;

	if (!__atomic_exchange_n(&done, true, __ATOMIC_RELAXED))
		qemu_plugin_reset(own_id, armed);
}

/* Until then only places are looked for. */
static void translated_before(uint64_t id, struct qemu_plugin_tb *tb)
{
	struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);

	find_image(first);
	if (is_place(ARM, qemu_plugin_insn_vaddr(first), NULL))
		qemu_plugin_register_vcpu_tb_exec_cb(tb, arm, CB_NO_REGS, NULL);
}

static void read_build_id(const char *hex)
{
	for (int k = 0; hex && k < 20 && hex[2 * k]; k++)
		sscanf(hex + 2 * k, "%2hhx", &build_id[k]);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	const char *missing = look_inside(), *hex = NULL;
	const struct argument known[] = {
		{ "out", .text = &out.path }, { "truth", .text = &truth.path },
		{ "status", .text = &status_path }, { "build-id", .text = &hex },
		{ "load", .number = &load }, { "base", .number = &base },
		{ "pid", .number = &pid_offset }, { "count", .number = &limit },
		{ "arm", .number = &places[ARM] }, { "begin", .number = &places[BEGIN] },
		{ "from", .number = &places[FROM] }, { "end", .number = &places[END] },
		{ "until", .number = &places[UNTIL] }, { "mapped", .number = &places[MAPPED] },
		{ "function", .number = &places[FUNCTION] }, { "vectors", .extents = &vectors },
		{ "process", .number = &of_process }, { "stop", .number = &stops }, {},
	};

	if (missing) {
		fprintf(stderr, "record: this QEMU does not export %s\n", missing);
		return -1;
	}
	if (read_arguments("record", known, argc, argv))
		return -1;
	read_build_id(hex);
	if (!load || !out.path || !status_path) {
		fprintf(stderr, "record: needs load=, out= and status=\n");
		return -1;
	}
	own_id = id;
	open_file(&out);
	if (truth.path)
		open_file(&truth);
	if (!places[BEGIN] && !places[FROM])
		open_window();
	if (!places[ARM]) {
		armed(id);
		return 0;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated_before);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
