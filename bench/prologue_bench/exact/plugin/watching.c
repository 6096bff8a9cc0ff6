// SPDX-License-Identifier: GPL-2.0-only
/*
 * Watches stores, loads of frame records, maintenance, synchronisation, and first
 * executions of words that were written live.
 */
#include "encodings.h"
#include "first_runs.h"
#include "flush.h"
#include "inside.h"
#include "places.h"
#include "rows.h"
#include "tables.h"
#include "watching.h"

uint64_t executed_elsewhere;

static void block(unsigned int cpu, void *n)
{
	__atomic_store_n(&cpus[cpu].instructions,
			 cpus[cpu].instructions + (uint64_t)n, __ATOMIC_RELAXED);
	cpus[cpu].running = true;
	if (!is_waiting(cpu))
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
	const struct extent *table = extent_of(&options.vectors, offset);

	return table && (offset - table->start) % 128 == 0;
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
		qemu_plugin_register_vcpu_insn_exec_cb(insn, exception, CB_NO_REGS, NULL);
	if (watch && watch->on)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, watched, CB_NO_REGS, watch);
}

/* An instruction of "Loads and Stores" that only loads: most of them */
static bool is_load(uint32_t insn)
{
	bool load = insn >> 26 & 1 ? loads(insn) : insn >> 22 & 3;

	if ((insn & 0x3b000000) == 0x18000000)		/* literal */
		return true;
	if ((insn & 0x3a000000) == 0x28000000)		/* pair */
		return loads(insn);
	if ((insn & 0x3b000000) == 0x39000000 ||	/* unsigned immediate */
	    (insn & 0x3b200000) == 0x38000000 ||	/* other immediates */
	    (insn & 0x3b200c00) == 0x38200800)		/* register */
		return load;
	return false;
}

static void watch(struct qemu_plugin_insn *insn, uint32_t word, uint64_t pc,
		  unsigned int use, uint64_t step)
{
	if (is_memory(word) && !is_load(word)) {
		qemu_plugin_register_vcpu_mem_cb(insn, stored, CB_NO_REGS, MEM_W, pack(pc, use));
	} else if (use) {
		/* Asked for loads only, QEMU 7.2 reports nothing. */
		qemu_plugin_register_vcpu_mem_cb(insn, load, CB_NO_REGS, MEM_RW, pack(pc, use));
	}
	if (step)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, maintain, CB_NO_REGS, (void *)step);
	else if (word == 0xd69f03e0 || (word & 0xfffffbff) == 0xd69f0bff)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, exception, CB_NO_REGS, NULL);
	else if (changes_x29(word))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, forget_x29, CB_NO_REGS, NULL);
}

/* The Image begins to run: this is where QEMU keeps guest memory */
static void begin(uint64_t vaddr, const uint8_t *host)
{
	ram = (uint8_t *)host - (vaddr - RAM_BASE);
	for (unsigned int k = 0; k < options.texts.n; k++) {
		uint64_t page = page_of(options.load + options.texts.of[k].start);

		for (; page <= page_of(options.load + options.texts.of[k].end - 1); page++) {
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
	if (!va_bits && paddr - options.load < options.size && find_root(vaddr, paddr))
		follow_tables();
	if (va_bits && !text_page(page_of(paddr))) {
		executed_elsewhere++;
		map_text(paddr & ~(page_size() - 1), page_size(), vaddr & ~(page_size() - 1));
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
		watch_synchronisation(insn, paddr - options.load, watch_of(paddr));
	}
	pthread_mutex_unlock(&lock);
}

void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
	uint64_t vaddr = qemu_plugin_insn_vaddr(first), paddr;
	unsigned int use[n];
	uint32_t words[n];
	uint8_t *host = qemu_plugin_insn_haddr(first);

	qemu_plugin_register_vcpu_tb_exec_cb(tb, block, CB_NO_REGS, (void *)n);
	if (!ram && vaddr == options.load)
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
				  RAM_BASE - options.load;

		watch(insn, words[k], qemu_plugin_insn_vaddr(insn), use[k], describe(words, n, k));
		watch_place(insn, words[k], offset);
	}
}
