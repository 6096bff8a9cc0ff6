// SPDX-License-Identifier: GPL-2.0-only
/*
 * imitator.c - does to its machine what public rootkits do, one technique at a time, for tests of what finds it
 *
 * technique: ftrace (an ftrace_ops on vfs_read), unlisted (one on vfs_writev, taken off ftrace_ops_list, which is at the
 * address at), kprobe (on vfs_write), pointer (to a function of its own, written at the address at), branch (to that
 * function, likewise). hide: 1 off the list of modules, 2 off mod_tree, 4 out of
 * /sys/module.
 */
#include <linux/ftrace.h>
#include <linux/kobject.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

static char *technique = "";
module_param(technique, charp, 0);
static unsigned long at;
module_param(at, ulong, 0);
static int hide;
module_param(hide, int, 0);

static void notrace on_call(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *regs)
{
}

static struct ftrace_ops hook = { .func = on_call, .flags = FTRACE_OPS_FL_IPMODIFY };

static int on_probe(struct kprobe *probe, struct pt_regs *regs)
{
	return 0;
}

static struct kprobe probe = { .symbol_name = "vfs_write", .pre_handler = on_probe };
static struct kprobe finder = { .symbol_name = "mod_tree_remove" };

static noinline long of_its_own(void)
{
	return 0;
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
	struct ftrace_ops **link;
	void *pointer = of_its_own;
	u32 branch = 0x14000000 | (((unsigned long)of_its_own - at) >> 2 & 0x3ffffff);

	if (!strcmp(technique, "ftrace")) {
		ftrace_set_filter(&hook, "vfs_read", 8, 0);
		register_ftrace_function(&hook);
	} else if (!strcmp(technique, "unlisted")) {
		ftrace_set_filter(&hook, "vfs_writev", 10, 0);
		register_ftrace_function(&hook);
		for (link = (struct ftrace_ops **)at; *link; link = &(*link)->next) {
			if (*link == &hook) {
				*link = hook.next;
				break;
			}
		}
	} else if (!strcmp(technique, "kprobe")) {
		register_kprobe(&probe);
	} else if (!strcmp(technique, "pointer")) {
		write_there(&pointer, sizeof(pointer));
	} else if (!strcmp(technique, "branch")) {
		write_there(&branch, sizeof(branch));
	}
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
