// SPDX-License-Identifier: GPL-2.0-only
/* Blocks: how they are left, and what of them is recorded. */
#include <stdlib.h>

#include "branching.h"
#include "flow.h"
#include "inside.h"

enum { CALLS = 256, MOST = 1 << 16 };	/* MOST: instructions of one range */

/* A task: when it is gone, another one may have its task_struct. */
struct task {
	uint64_t at;
	uint32_t pid;
};

/* A call of the function, of a task that has not returned from it */
struct call {
	struct task task;
	uint64_t returns;
};

uint64_t pid_offset = UINT64_MAX, limit, of_process;
static uint64_t total;
static struct task process;	/* that executed begin */
static struct call calls[CALLS];

static struct task task_of(const struct cpu *c)
{
	return (struct task) { c->current, c->pid };
}

/* A call begins (returns != 0), or ends; gives what the task returns to, 0 if it is in no call. */
static uint64_t change_call(struct task task, uint64_t begins, bool ends)
{
	struct call *free = NULL, *found = NULL;
	uint64_t returns = 0;
	bool full;

	pthread_mutex_lock(&lock);
	for (struct call *call = calls; call < calls + CALLS; call++) {
		if (call->task.at == task.at && call->task.pid != task.pid)
			call->returns = 0;
		if (call->returns && call->task.at == task.at)
			found = call;
		else if (!call->returns)
			free = call;
	}
	if (found && ends)
		found->returns = 0;
	else if (!found && begins && free)
		*(found = free) = (struct call) { task, begins };
	if (found)
		returns = found->returns;
	full = begins && !found;
	pthread_mutex_unlock(&lock);
	if (full)
		end_window("calls");
	return returns;
}

static void set_task(struct cpu *c, void *cpu, uint64_t task)
{
	if (!(task >> 63) || task == c->current)	/* a user's stack */
		return;
	c->current = task;
	c->pid = 0;
	if (pid_offset != UINT64_MAX && !read_memory(cpu, task + pid_offset, &c->pid, 4))
		c->pid = 0;
	if (places[FUNCTION])
		c->returns = change_call(task_of(c), 0, false);
}

/* Registers that the block before has written by its last instruction */
static void see_write(struct cpu *c, const struct block *before, void *cpu)
{
	uint64_t value = read_register(cpu, before->last & 31);

	switch (before->watch) {
	case SP_EL0:
		set_task(c, cpu, value);
		break;
	case ELR:
		c->elr = value;
		break;
	case VTTBR_EL2:
		c->vttbr = value;
		break;
	case HCR_EL2:
		c->hcr = value;
		break;
	}
}

/* The exception before came after a branch whose flags it cleared; its handler knows where it returns to. */
static void see_return(struct cpu *c, uint64_t elr)
{
	const struct block *p = c->unsure;

	if (!p || (elr != p->target && elr != p->vaddr + 4ull * p->n))
		return;
	c->range[c->note].start = c->elr = elr;
	c->unsure = NULL;
}

/* A note of where the exception that follows returns to */
static void note_return(struct cpu *c, const struct block *p, uint64_t returns)
{
	bool unsure = c->at == p->n - 1 && needs_flags(p->last);

	/* A handler's first ranges must not push it out. */
	if (unsure && c->ranges > RANGES - 64)
		write_ranges(c);
	if (unsure || returns != c->written_to)
		add_range(c, returns, 0, EXCEPTION);
	c->unsure = unsure ? p : NULL;
	c->note = c->ranges - 1;
}

/* The VMID that a level belongs to: HCR_EL2.VM and .TGE say whether it is a guest's. */
static int32_t vmid_of(const struct cpu *c, unsigned int level)
{
	if (level > 1 || !(c->hcr & 1) || c->hcr >> 27 & 1)
		return -1;
	return c->vttbr >> 48;
}

/*
 * What came of the block that ran last, now that another one begins.
 * Returns how many of its instructions were executed; flags of the range that
 * begins; and where an exception returns to.
 */
static uint32_t leave(struct cpu *c, const struct block *b, void *cpu,
		      uint8_t *flags, uint64_t *returns)
{
	const struct block *p = c->block;
	uint64_t end = p->vaddr + 4ull * p->n;

	*flags = 0;
	*returns = p->vaddr + 4ull * c->at;
	if (c->at != p->n - 1) {
		/* Begun again at the same place: QEMU's own affair */
		if (b->vaddr != *returns)
			*flags = EXCEPTION;
		return c->at;
	}
	*returns = end;
	switch (p->kind) {
	case DIRECT:
		*returns = p->target;
		*flags = b->vaddr == p->target ? 0 : EXCEPTION;
		return p->n;
	case CONDITIONAL:
		if (b->vaddr == p->target || b->vaddr == end)
			return p->n;
		*returns = is_taken(cpu, p->last) ? p->target : end;
		*flags = EXCEPTION;
		return p->n;
	case INDIRECT:
	case ERET:
		*flags = b->vector ? EXCEPTION : p->kind == ERET ? RETURN : 0;
		if (b->vector)
			*returns = p->kind == ERET ? c->elr : read_register(cpu, p->last >> 5 & 31);
		return p->n;
	}
	if (b->vaddr == end)
		return p->n;
	*flags = EXCEPTION;
	/* Vectors of interrupts are at 0x80 and 0x100 of each 0x200. */
	if (p->may_trap && !c->completed && !(b->vaddr & 0x180)) {
		*returns = end - 4;
		return p->n - 1;
	}
	return p->n;
}

static void count_instructions(struct cpu *c, uint32_t done)
{
	c->instructions += done;
	c->batch += done;
	if (!limit || c->batch < 1024)
		return;
	if (__atomic_add_fetch(&total, c->batch, __ATOMIC_RELAXED) >= limit)
		end_window("count");
	c->batch = 0;
}

/* The block before is over. */
static void end_block(struct cpu *c, const struct block *b, void *cpu)
{
	uint64_t returns;
	uint8_t flags;
	uint32_t done = leave(c, b, cpu, &flags, &returns);

	if (c->on) {
		c->count += done;
		count_instructions(c, done);
		if (truth.path) {
			if (done < c->at + 1 && c->executed > c->whole)
				c->insn[c->executed - 1].flags |= TRAPPED;
			c->whole = c->executed;
		}
		if (flags & EXCEPTION) {
			close_range(c);
			note_return(c, c->block, returns);
		} else if (b->vaddr != c->start + 4ull * c->count ||
			   c->block->kind == INDIRECT || c->block->kind == ERET) {
			close_range(c);
		}
	}
	if (done == c->block->n && c->block->watch)
		see_write(c, c->block, cpu);
	if (done == c->block->n && c->block->elr_in != REGISTER_ZR)
		see_return(c, read_register(cpu, c->block->elr_in));
	if (!(flags & EXCEPTION))
		goto out;
	/* Until the handler writes it, ELR is what the exception left there. */
	c->elr = returns;
out:
	if (!c->count)
		c->flags |= flags;
}

static bool is_of_process(const struct cpu *c)
{
	return !of_process || (process.at && process.at == c->current && process.pid == c->pid);
}

static bool is_wanted(struct cpu *c, const struct block *b, void *cpu)
{
	if (!__atomic_load_n(&is_open, __ATOMIC_ACQUIRE) || finished)
		return false;
	if (places[FUNCTION]) {
		if (b->places[FUNCTION])
			c->returns = change_call(task_of(c),
				read_register(cpu, REGISTER_LR), false);
		else if (c->returns == b->vaddr)
			c->returns = change_call(task_of(c), 0, true);
		return c->returns;
	}
	return is_of_process(c);
}

void begin_block(unsigned int index, void *data)
{
	const struct block *b = data;
	struct cpu *c = &cpus[index];
	void *cpu = cpu_of(index);
	bool wanted;

	if (c->block)
		end_block(c, b, cpu);
	if (is_open && (b->places[END] || b->places[UNTIL])) {
		c->on = false;
		end_window("end");
	}
	if (b->places[BEGIN])
		process = task_of(c);
	if (b->places[places[FROM] ? FROM : BEGIN] && is_of_process(c))
		open_window();
	c->block = b;
	c->at = 0;
	c->completed = false;
	wanted = is_wanted(c, b, cpu) && !(ending && !c->on);
	if (!wanted && !c->on)
		return;
	if (!c->range) {
		c->range = calloc(RANGES, sizeof(*c->range));
		c->insn = truth.path ? calloc(EXECUTED, sizeof(*c->insn)) : NULL;
		if (!c->range || (truth.path && !c->insn))
			abort();
	}
	if (!wanted || !c->on) {
		close_range(c);
		c->flags = GAP;
	}
	c->on = wanted;
	if (c->task != c->pid || c->level != b->level || c->vmid != vmid_of(c, b->level))
		close_range(c);
	if (!c->count) {
		c->start = b->vaddr;
		c->level = b->level;
		c->task = c->pid;
		c->vmid = vmid_of(c, b->level);
	}
	if (c->count > MOST)
		close_range(c);
}

void begin_insn(unsigned int index, void *data)
{
	cpus[index].at = (uintptr_t)data;
}

void true_insn(unsigned int index, void *data)
{
	const struct insn *insn = data;
	struct cpu *c = &cpus[index];

	c->at = insn->index;
	if (!c->on)
		return;
	if (c->executed == EXECUTED)
		write_executed(c);
	c->insn[c->executed] = insn->is;
	c->insn[c->executed].cpu = index;
	if (insn->host && *insn->host != insn->is.word)
		c->insn[c->executed].flags = STALE;
	c->executed++;
}

void accessed(unsigned int index, uint32_t info, uint64_t vaddr, void *data)
{
	cpus[index].completed = true;
}
