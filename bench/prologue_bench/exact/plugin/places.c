// SPDX-License-Identifier: GPL-2.0-only
/* Watches functions of the kernel. */
#include "cpus.h"
#include "places.h"
#include "tables.h"

static void set_stopped(unsigned int index, void *inside)
{
	cpus[index].stopped = inside;
}

/* Init memory is given away: what was text there is not executed any more */
static void set_freed(unsigned int index, void *data)
{
	pthread_mutex_lock(&lock);
	for (uint64_t at = options.init.start; at < options.init.end; at += page_size())
		drop_text(page_of(options.load + at));
	pthread_mutex_unlock(&lock);
}

/* Of free_initmem the first instruction; of multi_cpu_stop also each RET */
void watch_place(struct qemu_plugin_insn *insn, uint32_t word, uint64_t offset)
{
	if (offset == options.freed)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, set_freed, CB_NO_REGS, NULL);
	if (offset == options.stop.start)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, set_stopped, CB_NO_REGS, (void *)1);
	else if (offset > options.stop.start && offset < options.stop.end &&
		 (word == 0xd65f03c0 || word == 0xd65f0bff))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, set_stopped, CB_NO_REGS, NULL);
}
