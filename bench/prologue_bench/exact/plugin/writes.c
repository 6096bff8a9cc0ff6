// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records every store that an arm64 kernel makes to its text, from reset to
 * power-off, on any number of CPUs, through whatever alias: memory.h says what
 * text is, modules.h whose, frames.h who called, flush.h what a DC or an IC was
 * for, rows.h what is recorded, first_runs.h how CPUs came to execute it,
 * options.h reads the arguments, places.h watches functions of the kernel:
 *
 * -plugin libwrites.so,NAME=VALUE,... with numbers in hex; offsets are from the
 * start of the Image:
 *
 *   load=PHYS ram=SIZE size=SIZE    where the Image lies, of what size
 *   page=BITS                       12, 14 or 16
 *   text=OFFSET:END                 executable sections; repeated
 *   root=OFFSET modules=OFFSET      swapper_pg_dir; modules (0: unknown)
 *   stext=OFFSET                    _stext: before it is nothing but the header
 *   ctr=OFFSET                      where the kernel has CTR_EL0 (0: unknown)
 *   stop=OFFSET:END                 multi_cpu_stop
 *   graph=OFFSET                    return_to_handler (0: none)
 *   freed=OFFSET init=OFFSET:END    free_initmem, and the memory it gives away
 *   writer=OFFSET:END               functions that write and flush; repeated
 *   vectors=OFFSET:END              vector tables, 16 entries of 128 bytes each;
 *                                   repeated
 *   rows=PATH out=PATH              struct row each; one object of JSON at exit
 *   ns=1                            times are ns of CLOCK_MONOTONIC, as those of
 *                                   record.c, and not instructions
 *
 * What is not seen: stores of one instruction that QEMU does in a helper (DC
 * ZVA), devices. Every page of text is compared at the end with what the stores
 * made of it, so such a write is known by its words if the page is still text.
 */
#include <pthread.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "qemu.h"
#include "inside.h"
#include "memory.h"
#include "modules.h"
#include "encodings.h"
#include "frames.h"
#include "rows.h"
#include "flush.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { uint64_t start, end; } texts[MAX_RANGES], vectors[MAX_RANGES], stop, init;
static int n_texts, n_vectors;
static uint64_t freed_offset, is_ns;
static const char *out_path;
static uint64_t executed_elsewhere;

#include "options.h"
#include "places.h"

/* Of all CPUs; those of a block count when it begins */
static uint64_t instructions(void)
{
	uint64_t sum = 0;

	for (int k = 0; k < MAX_CPUS; k++)
		sum += __atomic_load_n(&cpus[k].instructions, __ATOMIC_RELAXED);
	return sum;
}

static uint64_t now(void)
{
	struct timespec time;

	if (!is_ns)
		return instructions();
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void block(unsigned int cpu, void *n)
{
	__atomic_store_n(&cpus[cpu].instructions,
			 cpus[cpu].instructions + (uint64_t)n, __ATOMIC_RELAXED);
	cpus[cpu].running = true;
	if (!queues[cpu].n)
		return;
	pthread_mutex_lock(&lock);
	settle(cpu, own_cpu());
	pthread_mutex_unlock(&lock);
}

/* 56 bits of an address, and what the instruction is */
static void *pack(uint64_t pc, unsigned int use)
{
	return (void *)(pc << 8 >> 8 | (uint64_t)use << 56);
}

static uint64_t unpack(const void *data)
{
	return (uint64_t)((int64_t)((uint64_t)data << 8) >> 8);
}

static void text_written(struct cpu *cpu, uint64_t paddr, unsigned int size,
			 uint64_t vaddr, uint64_t pc)
{
	uint64_t end = paddr + size;

	for (uint64_t at = paddr & ~3ull; at < end; at += 4) {
		struct text_page *text;
		struct row row = { .paddr = at, .pc = pc };
		uint32_t word;

		if (!in_ram(at, 4))
			return;
		text = text_page(page_of(at));
		if (!text)
			continue;
		row.alias = vaddr + (at - paddr);
		if (text->vaddr)
			row.address = text->vaddr + at % page_size();
		memcpy(&word, ram + (at - RAM_BASE), 4);
		add_row(cpu, row, &text->copy[at % page_size() / 4], word);
	}
}

static void stored(unsigned int index, uint32_t info, uint64_t vaddr, void *data)
{
	unsigned int use = (uint64_t)data >> 56;
	struct cpu *cpu = &cpus[index];
	struct qemu_plugin_hwaddr *where;
	uint64_t paddr, pc = unpack(data);
	unsigned int size = 1u << qemu_plugin_mem_size_shift(info);
	uint8_t kind;

	/* Asked for stores only, QEMU 7.2 reports loads as well. */
	if (!qemu_plugin_mem_is_store(info))
		return;
	if (use & (PUSH | PUSH_PART))
		pushed(cpu, pc, vaddr, use & PUSH);
	where = qemu_plugin_get_hwaddr(info, vaddr);
	if (!where || qemu_plugin_hwaddr_is_io(where))
		return;
	paddr = qemu_plugin_hwaddr_phys_addr(where);
	if (!in_ram(paddr, size))
		return;
	kind = kinds[page_of(paddr)] | kinds[page_of(paddr + size - 1)];
	if (!kind)
		return;
	pthread_mutex_lock(&lock);
	if (kind & TABLE)
		table_written(paddr, size);
	if (kind & TEXT)
		settle(index, NULL);
	if (kind & TEXT)
		text_written(cpu, paddr, size, vaddr, pc);
	pthread_mutex_unlock(&lock);
}

static void load(unsigned int index, uint32_t info, uint64_t vaddr, void *data)
{
	struct qemu_plugin_hwaddr *where;

	if (qemu_plugin_mem_is_store(info))
		return;
	where = qemu_plugin_get_hwaddr(info, vaddr);
	if (!where || qemu_plugin_hwaddr_is_io(where))
		return;
	loaded(&cpus[index], unpack(data), vaddr,
	       qemu_plugin_hwaddr_phys_addr(where), (uint64_t)data >> 56,
	       qemu_plugin_mem_size_shift(info));
	if (!n_windows)
		return;
	pthread_mutex_lock(&lock);
	happened(index, RETURNED, vaddr);
	pthread_mutex_unlock(&lock);
}

static void maintain(unsigned int index, void *what)
{
	if ((uint64_t)what == ISB)
		cpus[index].syncs++;
	if (!n_windows)
		return;
	pthread_mutex_lock(&lock);
	happened(index, (uint64_t)what, cpus[index].x29);
	pthread_mutex_unlock(&lock);
}

/* An exception was taken, or returned from */
static void exception(unsigned int index, void *data)
{
	cpus[index].syncs++;
}

/* Whether execution here begins an exception */
static bool is_vector(uint64_t offset)
{
	for (int k = 0; k < n_vectors; k++) {
		if (offset >= vectors[k].start && offset < vectors[k].end)
			return (offset - vectors[k].start) % 128 == 0;
	}
	return false;
}

static void watched(unsigned int index, void *watch)
{
	/* Most have been seen; what another CPU adds meanwhile does not matter. */
	if (__atomic_load_n(&((struct watch *)watch)->seen, __ATOMIC_RELAXED) >> index & 1)
		return;
	pthread_mutex_lock(&lock);
	first_run(watch, index);
	pthread_mutex_unlock(&lock);
}

/* Callbacks of a block run in the order in which they are registered. */
static void watch_synchronisation(struct qemu_plugin_insn *insn, uint64_t offset,
				  struct watch *watch)
{
	if (is_vector(offset))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, exception, CB_NO_REGS,
						       NULL);
	if (watch && watch->on)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, watched, CB_NO_REGS,
						       watch);
}

static void watch(struct qemu_plugin_insn *insn, uint32_t word, uint64_t pc,
		  unsigned int use, uint64_t step)
{
	if (is_memory(word) && !is_load(word)) {
		qemu_plugin_register_vcpu_mem_cb(insn, stored, CB_NO_REGS, MEM_W,
						 pack(pc, use));
	} else if (use) {
		/* Asked for loads only, QEMU 7.2 reports nothing. */
		qemu_plugin_register_vcpu_mem_cb(insn, load, CB_NO_REGS,
						 MEM_RW, pack(pc, use));
	}
	if (step)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, maintain, CB_NO_REGS,
						       (void *)step);
	else if (word == 0xd69f03e0 || (word & 0xfffffbff) == 0xd69f0bff)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, exception,
						       CB_NO_REGS, NULL);
	else if (changes_x29(word))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, forget_x29,
						       CB_NO_REGS, NULL);
}

/* The Image begins to run: this is where QEMU keeps guest memory */
static void begin(uint64_t vaddr, const uint8_t *host)
{
	ram = (uint8_t *)host - (vaddr - RAM_BASE);
	for (int k = 0; k < n_texts; k++) {
		uint64_t page = page_of(image_load + texts[k].start);

		for (; page <= page_of(image_load + texts[k].end - 1); page++) {
			if (!text_page(page))
				make_text(page)->image = true;
		}
	}
}

/* Whether the kernel may execute this: not user space's */
static bool of_kernel(uint64_t vaddr, uint64_t paddr)
{
	return vaddr >> 63 || vaddr == paddr;
}

/* What is executed is text, and shows where the Image runs */
static void located(uint64_t vaddr, uint64_t paddr)
{
	if (!(vaddr >> 63))
		return;
	pthread_mutex_lock(&lock);
	if (!root_known && paddr - image_load < image_size)
		find_root(vaddr, paddr);
	if (root_known && !text_page(page_of(paddr))) {
		executed_elsewhere++;
		map_text(paddr & ~(page_size() - 1), page_size(),
			 vaddr & ~(page_size() - 1));
	}
	pthread_mutex_unlock(&lock);
}

/* Words of text that are about to be executed, at whatever level and address */
static void will_run(struct qemu_plugin_tb *tb, size_t n)
{
	pthread_mutex_lock(&lock);
	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
		uint8_t *host = qemu_plugin_insn_haddr(insn);
		uint64_t paddr = host - ram + RAM_BASE;

		if (!host)
			continue;
		mark_run(paddr);
		watch_synchronisation(insn, paddr - image_load, watch_of(paddr));
	}
	pthread_mutex_unlock(&lock);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
	uint64_t vaddr = qemu_plugin_insn_vaddr(first), paddr;
	unsigned int use[n];
	uint32_t words[n];
	uint8_t *host = qemu_plugin_insn_haddr(first);

	qemu_plugin_register_vcpu_tb_exec_cb(tb, block, CB_NO_REGS, (void *)n);
	if (!ram && vaddr == image_load)
		begin(vaddr, host);
	if (!ram || !host)
		return;
	paddr = host - ram + RAM_BASE;
	if (!in_ram(paddr, 4))
		return;
	will_run(tb, n);
	if (!of_kernel(vaddr, paddr))
		return;
	located(vaddr, paddr);
	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
		int push;

		/* After the end of memory there is no instruction to watch. */
		if (!qemu_plugin_insn_haddr(insn)) {
			n = k;
			break;
		}
		memcpy(&words[k], qemu_plugin_insn_haddr(insn), 4);
		use[k] = use_of(words[k]);
		if (!is_add_x29_sp(words[k]))
			continue;
		push = find_push(words, k);
		if (push >= 0)
			use[push] = PUSH;
		else
			qemu_plugin_register_vcpu_insn_exec_cb(insn, set_x29,
				CB_NO_REGS, (void *)qemu_plugin_insn_vaddr(insn));
	}
	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
		uint64_t offset = (uint8_t *)qemu_plugin_insn_haddr(insn) - ram +
				  RAM_BASE - image_load;


		watch(insn, words[k], qemu_plugin_insn_vaddr(insn), use[k],
		      describe(words, n, k));
		watch_place(insn, words[k], offset);
	}
}

/* Words of text that are not what the stores made of them */
static uint64_t count_unseen(uint64_t *first)
{
	uint64_t count = 0;

	for (uint64_t page = 0; ram && page < ram_size >> page_shift; page++) {
		struct text_page *text = text_page(page);

		for (uint64_t k = 0; text && k < page_size() / 4; k++) {
			uint64_t at = (page << page_shift) + 4 * k;

			if (memcmp(&text->copy[k], ram + at, 4) && !count++)
				*first = RAM_BASE + at;
		}
	}
	return count;
}

static void at_exit(uint64_t id, void *data)
{
	FILE *out;
	uint64_t unseen, first = 0, running = 0;

	pthread_mutex_lock(&lock);
	for (int k = 0; k < MAX_CPUS; k++)
		settle(k, NULL);
	for (int k = 0; k < WINDOWS; k++) {
		if (windows[k].frame)
			close_window(k, NOT_RETURNED);
	}
	flush_rows();
	if (fclose(rows_file))
		give_up(rows_path);
	for (uint64_t page = 0; page < ram_size >> page_shift; page++) {
		if (text_page(page))
			end_watches(text_page(page));
	}
	write_outcomes(rows_path);
	unseen = count_unseen(&first);
	for (int k = 0; k < MAX_CPUS; k++)
		running |= (uint64_t)cpus[k].running << k;
	/* Last: that it is there says that the rows are whole */
	out = fopen(out_path, "w");
	if (!out)
		give_up(out_path);
	fprintf(out, "{\"rows\": %" PRIu64 ", \"not_returned\": %" PRIu64
		", \"unseen\": %" PRIu64 ", \"unseen_at\": %" PRIu64
		", \"executed_elsewhere\": %" PRIu64
		", \"image_vaddr\": %" PRIu64 ", \"va_bits\": %u, \"running\": %"
		PRIu64 ", \"instructions\": %" PRIu64 ", \"ctr\": %" PRIu64
		", \"registers\": %s, \"unaddressed\": %" PRIu64,
		row_count, not_returned, unseen, first,
		executed_elsewhere, image_vaddr, root_known ? va_bits : 0, running,
		instructions(), ctr_el0(), registers_known ? "true" : "false",
		unaddressed);
	print_regions(out);
	fprintf(out, "}\n");
	if (fclose(out))
		give_up(out_path);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	for (int k = 0; k < argc; k++) {
		if (read_argument(argv[k]))
			return -1;
	}
	if (!image_load || !ram_size || !image_size || !root_offset || !n_texts ||
	    !stop.end || !init.end || !rows_path || !out_path) {
		fprintf(stderr, "writes: needs load=, ram=, size=, root=, text=, "
			"stop=, init=, rows= and out=\n");
		return -1;
	}
	kinds = calloc(ram_size >> page_shift, sizeof(*kinds));
	pages = calloc(ram_size >> page_shift, sizeof(*pages));
	rows_file = fopen(rows_path, "w");
	registers_known = !look_inside();
	if (!kinds || !pages || !rows_file) {
		perror(rows_path);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
