// SPDX-License-Identifier: GPL-2.0-only
/*
 * hooked.c - a kernel that does nothing, with one listener of each kind, one module, and the lists they are on
 *
 * Structs have the members that are read, in an order of their own: nothing but the types says where they are.
 * With FORMER it is a kernel before 6.10, otherwise one as 7.2.
 */
typedef unsigned int u32;
typedef unsigned long u64;

#define ALONE(head) { &(head), &(head) }

struct list_head { struct list_head *next, *prev; };
struct hlist_node { struct hlist_node *next, **pprev; };
struct hlist_head { struct hlist_node *first; };
struct rb_node { u64 parent; struct rb_node *rb_right, *rb_left; };
struct rb_root { struct rb_node *rb_node; };
struct latch_tree_node { struct rb_node node[2]; };
struct latch_tree_root { u32 seq; struct rb_root tree[2]; };
struct mod_tree_root { struct latch_tree_root root; };
struct mod_tree_node { struct module *mod; struct latch_tree_node node; };
struct symbol { u32 st_name; unsigned char st_info, st_other; unsigned short st_shndx; u64 st_value, st_size; };
struct mod_kallsyms { u64 moved; struct symbol *symtab; u32 num_symtab; const char *strtab; };
struct module_memory { void *base; u32 size; struct mod_tree_node mtn; };
struct module {
	u64 moved; u32 state; char name[56]; struct list_head list; struct module_memory mem[7];
	u32 num_tracepoints; const int *tracepoints_ptrs; struct mod_kallsyms *kallsyms;
	u32 num_bpf_raw_events; struct bpf_raw_event_map *bpf_raw_events; u64 taints;
};
struct kobject { void *sd; const char *name; struct list_head entry; };
struct kset { u64 moved; struct list_head list; };
struct module_kobject { u64 moved; struct kobject kobj; struct module *mod; };

struct ftrace_func_entry { struct hlist_node hlist; u64 ip; u64 direct; };
struct ftrace_hash { u64 size_bits; u64 moved; struct hlist_head *buckets; u64 count; };
struct ftrace_ops_hash { struct ftrace_hash *notrace_hash, *filter_hash; };
struct ftrace_ops {
	void *func; struct ftrace_ops *next; u64 flags; void *moved; struct ftrace_ops_hash local, *func_hash; u64 trampoline, direct_call;
	void *saved_func;
};
struct fgraph_ops { void *moved, *entryfunc, *retfunc; struct ftrace_ops ops; void *saved_func; };
struct dyn_ftrace { u64 ip, flags; };
struct ftrace_page { struct ftrace_page *next; struct dyn_ftrace *records; u32 index; };

struct mutex { u64 owner; };

struct kprobe {
	u64 moved; struct hlist_node hlist; struct list_head list; void *addr; u32 opcode; void *pre_handler, *post_handler; u32 flags;
	struct { struct { void *insn; } api; } ainsn;
};
struct kretprobe { u64 moved; struct kprobe kp; void *handler, *entry_handler; };

struct tracepoint_func { void *func, *data; };
struct static_key { u32 enabled; };
struct tracepoint { const char *name; struct static_key key; struct tracepoint_func *funcs; };
struct bpf_raw_event_map { u64 moved; void *bpf_func; struct tracepoint *tp; };
struct tracer { const char *name; };
struct trace_array { u64 moved; struct list_head list; char *name; struct tracer *current_trace; };

struct vm_struct { void *moved, *caller; };
struct vmap_area { u64 va_start, va_end; struct rb_node rb_node; struct list_head list; struct vm_struct *vm; };

struct xarray { u32 moved; void *xa_head; };
struct xa_node { u64 moved; void *slots[64]; u64 marks[3]; };
struct idr { u64 moved; struct xarray idr_rt; };
struct bpf_ksym { u64 start, end; char name[16]; struct list_head lnode; unsigned char prog; };
struct bpf_prog_aux { u64 moved, load_time; u32 id; char name[16]; u32 func_cnt; struct bpf_prog *prog, **func; struct bpf_ksym ksym; };
struct bpf_prog { u32 type; unsigned char tag[8]; void *bpf_func; struct bpf_prog_aux *aux; u32 jited_len; };
struct bpf_prog_pack { u64 moved; struct list_head list; void *ptr; u64 bitmap[1]; };
struct kprobe_insn_page { struct list_head list; u32 *insns; unsigned char slot_used[512]; };
struct kprobe_insn_cache { struct mutex mutex; struct list_head pages; u64 insn_size; };
struct work_struct { u64 data; };
struct llist_node { struct llist_node *next; };
struct mod_initfree { u64 moved; struct llist_node node; void *init_text; };
struct worker { u64 moved; void *current_work; struct list_head node; };
struct worker_pool { u64 moved; struct list_head workers; };
struct bpf_prog_array_item { u64 moved; struct bpf_prog *prog; };
struct bpf_prog_array { u64 moved[2]; struct bpf_prog_array_item items[2]; };

#ifdef FORMER
struct fprobe { u64 moved; struct ftrace_ops ops; void *exit_handler, *entry_handler; u32 flags; };
struct bpf_trampoline { u64 moved; struct hlist_node hlist; struct { void *addr; } func; struct hlist_head progs_hlist[3]; struct bpf_prog *extension_prog; };
struct bpf_link { u64 moved; struct bpf_prog *prog; };
struct bpf_tramp_link { struct bpf_link link; struct hlist_node tramp_hlist; };
#define ON_LIST(itself, program, following) { .link = { .prog = &program }, .tramp_hlist = { following } }
#define LINKED tramp_hlist
struct bpf_raw_tp_link { u64 moved; struct bpf_link link; };
#else
struct rhlist_head { u64 moved; struct rhlist_head *next; };
struct fprobe_hlist_node { struct fprobe *fp; struct rhlist_head hlist; u64 addr; };
struct fprobe_hlist { struct fprobe *fp; struct hlist_node hlist; u32 size; struct fprobe_hlist_node array[]; };
struct fprobe { u64 moved; void *exit_handler, *entry_handler; u32 flags; };
struct bpf_trampoline { u64 moved; struct hlist_node hlist_key; struct { void *addr; } func; struct hlist_head progs_hlist[3]; struct bpf_prog *extension_prog; };
struct bpf_link { u64 moved; struct bpf_prog *prog; };
struct bpf_tramp_node { struct bpf_link *link; struct hlist_node tramp_hlist; };
struct bpf_tramp_link { struct bpf_link link; struct bpf_tramp_node node; };
#define ON_LIST(itself, program, following) { .link = { .prog = &program }, .node = { &itself.link, { following } } }
#define LINKED node.tramp_hlist
struct bpf_raw_tp_link { u64 moved; struct bpf_link link; u64 cookie; };
#endif

struct bpf_kprobe_multi_link { u64 moved; struct fprobe fp; struct bpf_link link; };

struct trace_event_class { u64 moved; const char *system; };
struct trace_event_call { struct bpf_prog_array *prog_array; struct trace_event_class *class; const char *name; struct list_head list; };
struct trace_probe_event { u64 moved; struct trace_event_call call; };
struct trace_probe { u64 moved; struct trace_probe_event *event; };
struct dyn_event { u64 moved; struct list_head list; void *ops; };
struct trace_kprobe { u64 moved; struct kretprobe rp; struct trace_probe tp; struct dyn_event devent; };

struct klp_func {
	u64 moved; const char *old_name; void *new_func, *old_func; struct list_head stack_node, node;
};
struct klp_object { u64 moved; const char *name; struct list_head node, func_list; };
struct klp_patch { u64 moved; struct module *mod; unsigned char enabled; struct kobject kobj; struct list_head list, obj_list; };
struct klp_ops { struct ftrace_ops fops; struct list_head func_stack, node; };

struct seccomp_filter { u64 moved; struct seccomp_filter *prev; struct bpf_prog *prog; };
struct sk_filter { u64 moved; struct bpf_prog *prog; };
struct sock_reuseport { u64 moved; struct bpf_prog *prog; };
struct sock { u64 moved; struct sk_filter *sk_filter; struct sock_reuseport *sk_reuseport_cb; };
struct socket { u64 moved; struct sock *sk; };
struct file { u64 moved; const void *f_op; void *private_data; };
struct fdtable { u32 max_fds; struct file **fd; };
struct files_struct { u64 moved; struct fdtable *fdt; };
struct signal_struct { u64 moved; struct list_head thread_head; };
struct task_struct {
	u64 moved; struct list_head tasks, thread_node; struct signal_struct *signal; struct files_struct *files;
	struct { u64 mode; struct seccomp_filter *filter; } seccomp;
};

#define TEXT __attribute__((section(".text"), noinline, used))
TEXT int _stext(int x) { return x; }
TEXT int vfs_read(int x) { asm volatile("nop\n\tnop"); return x + 1; }
TEXT int vfs_write(int x) { asm volatile("nop\n\tnop"); return x + 2; }
TEXT int on_call(int x) { return x + 3; }
TEXT int on_probe(int x) { return x + 4; }
TEXT int on_return(int x) { return x + 5; }
TEXT int pre_handler_kretprobe(int x) { return x + 6; }
TEXT int allocated_here(int x) { return x + 7; }
TEXT int bpf_jit_alloc_exec(int x) { return x + 8; }
TEXT int bpf_jit_binary_alloc(int x) { return x + 9; }
TEXT int kprobe_dispatcher(int x) { return x + 10; }
TEXT int replaced(int x) { return x + 11; }
TEXT int bpf_trampoline_get(int x) { return x + 12; }
TEXT int ftrace_graph_entry_test(int x) { return x + 13; }
TEXT int ftrace_graph_entry_stub(int x) { return x + 14; }
TEXT int ftrace_stub_graph(int x) { return x + 15; }
TEXT int ftrace_stub(int x) { return x + 25; }
TEXT int ftrace_pid_func(int x) { return x + 16; }
TEXT int fgraph_pid_func(int x) { return x + 17; }
TEXT int _etext(int x) { return x; }
/* What runs BPF programs of tracepoints, of the kernel's and of the module's. */
TEXT int bpf_trace_run1(int x) { return x + 20; }
TEXT int __bpf_trace_made(int x) { return x + 21; }
TEXT int __bpf_trace_loaded(int x) { return x + 22; }
/* What runs BPF programs of many functions at once, and what calls it before 6.14. */
TEXT int kprobe_multi_link_handler(int x) { return x + 23; }
#ifdef FORMER
TEXT int fprobe_handler(int x) { return x + 24; }
#else
TEXT int kprobe_multi_link_exit_handler(int x) { return x + 24; }
TEXT int fprobe_ftrace_entry(int x) { return x + 25; }
TEXT int fprobe_fgraph_entry(int x) { return x + 26; }
#endif
TEXT int load_module(int x) { return x + 28; }
TEXT int ftrace_graph_func(int x) { return x + 27; }
/* A page of its own, which memory may lack. */
__attribute__((section(".text.apart"), noinline, used, aligned(4096))) int apart(int x) { return x + 19; }
/* Boot gives this page away. */
__attribute__((section(".init.text"), noinline, used, aligned(4096))) int once(int x) { return x + 25; }

/* A module whose text lies in this kernel's data; nothing has to run it. */
char module_text[4096] __attribute__((aligned(4096)));
char orphan_text[4096] __attribute__((aligned(4096)));
char bpf_text[4096] __attribute__((aligned(4096)));
/* A pack of 64 chunks and its guard page; a page with slots of kprobes. */
u32 pack_text[2048] __attribute__((aligned(4096))) = { 128 }, slot_text[1024] __attribute__((aligned(4096))) = { 0x91000400, 0xd42000c0 };
extern struct module loaded;
/* Symbols of functions at an address where a test may say that the module's text is. */
struct symbol symbols[] = {
	{ .st_name = 1, .st_info = 2, .st_shndx = 1, .st_value = 0xffff800020000000, .st_size = 32 },
	{ .st_name = 7, .st_info = 2, .st_shndx = 1, .st_value = 0xffff800020000020, .st_size = 32 },
	{ .st_name = 14, .st_info = 0, .st_shndx = 1, .st_value = 0xffff800020000030 },
};
struct mod_kallsyms kallsyms = { .symtab = symbols, .num_symtab = 3, .strtab = "\0first\0second\0$d" };
struct list_head modules = ALONE(loaded.list);
struct module loaded = {
	.name = "good", .list = ALONE(modules), .kallsyms = &kallsyms,
	.mem = { { module_text, sizeof(module_text), { &loaded, { { { 0 } } } } } },
};
struct mod_tree_root mod_tree = { { 0, { { &loaded.mem[0].mtn.node.node[0] } } } };
extern struct module_kobject good_kobject;
struct kset modules_set = { .list = ALONE(good_kobject.kobj.entry) }, *module_kset = &modules_set;
struct module_kobject good_kobject = { .kobj = { .name = "good", .entry = ALONE(modules_set.list) }, .mod = &loaded };

struct ftrace_ops ftrace_list_end;
struct ftrace_func_entry wanted = { .ip = (u64)vfs_read + 4 };
struct hlist_head buckets[2] = { { 0 }, { &wanted.hlist } };
struct ftrace_hash filter = { .size_bits = 1, .buckets = buckets, .count = 1 }, nothing;
struct ftrace_ops hook = { .func = on_call, .next = &ftrace_list_end, .flags = 1 << 12 | 1, .local = { &nothing, &filter }, .func_hash = &hook.local,
	.saved_func = on_call,
};
struct ftrace_ops *ftrace_ops_list = &hook;
#ifdef FORMER
/* Nobody uses the function graph; that another ftrace_ops is registered puts a test before its entry. */
struct ftrace_ops graph_ops = { .func = ftrace_graph_func, .func_hash = &hook.local };
void *ftrace_graph_entry = ftrace_graph_entry_test, *__ftrace_graph_entry = ftrace_graph_entry_stub, *ftrace_graph_return = ftrace_stub_graph;
#else
struct ftrace_ops graph_ops = { .func = ftrace_graph_func, .func_hash = &hook.local };
struct ftrace_ops fprobe_ftrace_ops = { .func = fprobe_ftrace_entry, .func_hash = &hook.local };
struct fgraph_ops fprobe_graph_ops = { .entryfunc = fprobe_fgraph_entry, .ops = { .func_hash = &hook.local } };
struct fgraph_ops user = { .entryfunc = on_probe, .retfunc = on_return, .ops = { .func_hash = &hook.local }, .saved_func = on_probe };
struct fgraph_ops *fgraph_array[2];
#endif
struct ftrace_func_entry sent = { .ip = (u64)vfs_read + 4, .direct = (u64)on_probe };
struct hlist_head sent_buckets[1] = { { &sent.hlist } };
struct ftrace_hash sends = { .buckets = sent_buckets, .count = 1 }, *direct_functions = &nothing;
struct mutex direct_mutex;
struct dyn_ftrace record_of_read = { (u64)vfs_read + 4, 1UL << 31 | 1 };
struct ftrace_page page = { .records = &record_of_read, .index = 1 }, *ftrace_pages_start = &page;

struct kprobe probe = { .addr = (char *)vfs_write + 4, .pre_handler = on_probe };
struct kretprobe returns = { .kp = { .addr = vfs_read, .pre_handler = pre_handler_kretprobe }, .handler = on_return };
struct trace_event_class events = { .system = "grp" };
extern struct trace_probe_event event;
struct list_head ftrace_events = ALONE(event.call.list);
struct trace_probe_event event = { .call = { .class = &events, .name = "ev", .list = ALONE(ftrace_events) } };
char trace_kprobe_ops[8];
extern struct trace_kprobe event_probe;
struct list_head dyn_event_list = ALONE(event_probe.devent.list);
struct trace_kprobe event_probe = { .devent = { .list = ALONE(dyn_event_list), .ops = trace_kprobe_ops }, .rp.kp = { .addr = (char *)vfs_write + 8, .pre_handler = kprobe_dispatcher }, .tp.event = &event };
/* An event that a test may put into the table. */
TEXT int kretprobe_dispatcher(int x) { return x + 18; }
struct trace_probe_event returns_event = { .call = { .class = &events, .name = "end" } };
struct trace_kprobe returns_probe = {
	.rp = { .kp = { .addr = replaced, .pre_handler = pre_handler_kretprobe }, .handler = kretprobe_dispatcher }, .tp.event = &returns_event,
};
struct trace_probe_event second_event = { .call = { .class = &events, .name = "second" } };
struct trace_kprobe second_probe = {
	.rp = { .kp = { .addr = replaced, .pre_handler = pre_handler_kretprobe, .hlist = { &returns_probe.rp.kp.hlist } },
	.handler = kretprobe_dispatcher }, .tp.event = &second_event,
};
struct hlist_head kprobe_table[64] = {
	[3] = { &probe.hlist }, [4] = { &event_probe.rp.kp.hlist }, [60] = { &returns.kp.hlist },
};

struct tracepoint_func probes[4] = { { on_call, 0 } };
struct tracepoint made_tracepoint = { .name = "made", .funcs = probes };
asm(".section __tracepoints_ptrs, \"aw\"\n.globl __start___tracepoints_ptrs, __stop___tracepoints_ptrs\n"
    "__start___tracepoints_ptrs: .long made_tracepoint - .\n__stop___tracepoints_ptrs:\n.previous");
asm(".globl __start__bpf_raw_tp, __stop__bpf_raw_tp\n.set __start__bpf_raw_tp, raw_events\n.set __stop__bpf_raw_tp, raw_events + 24");
struct bpf_raw_event_map raw_events[] = { { 0, __bpf_trace_made, &made_tracepoint } }, loaded_events[] = { { 0, __bpf_trace_loaded } };

struct tracer nop_tracer = { "nop" }, own_tracer = { "function" };
extern struct trace_array second_trace;
struct list_head ftrace_trace_arrays;
struct trace_array first_trace = { .list = { &second_trace.list, &ftrace_trace_arrays }, .current_trace = &nop_tracer };
struct trace_array second_trace = { .list = { &ftrace_trace_arrays, &first_trace.list }, .name = "mine", .current_trace = &own_tracer };
struct list_head ftrace_trace_arrays = { &first_trace.list, &second_trace.list };

struct vm_struct orphan_vm = { 0, allocated_here };
struct vm_struct bpf_vm = { 0, (char *)bpf_jit_alloc_exec + 4 };
extern struct vmap_area orphan_area, bpf_area, pack_area;
struct list_head vmap_area_list = { &orphan_area.list, &pack_area.list };
struct vmap_area orphan_area = {
	.va_start = (u64)orphan_text, .va_end = (u64)orphan_text + sizeof(orphan_text), .list = { &bpf_area.list, &vmap_area_list }, .vm = &orphan_vm,
};
struct vmap_area bpf_area = {
	.va_start = (u64)bpf_text, .va_end = (u64)bpf_text + sizeof(bpf_text), .list = { &pack_area.list, &orphan_area.list }, .vm = &bpf_vm,
};
struct vmap_area pack_area = {
	.va_start = (u64)pack_text, .va_end = (u64)pack_text + sizeof(pack_text), .list = { &vmap_area_list, &bpf_area.list }, .vm = &bpf_vm,
};
/* A test may put them onto the lists: a pack whose first two chunks are in use, a name that no struct holds, a page of slots. */
extern struct bpf_prog_pack pack;
struct list_head pack_list = ALONE(pack_list), bpf_kallsyms = ALONE(bpf_kallsyms);
struct bpf_prog_pack pack = { .list = ALONE(pack_list), .ptr = pack_text, .bitmap = { 3 } };
struct bpf_ksym forged = { (u64)bpf_text + 1024, (u64)bpf_text + 1088, "bpf_prog_forged", ALONE(bpf_kallsyms), 1 };
struct mutex pack_mutex;
extern struct kprobe_insn_page slots;
struct kprobe_insn_cache kprobe_insn_slots = { .pages = ALONE(kprobe_insn_slots.pages), .insn_size = 2 };
struct kprobe_insn_page slots = { .list = ALONE(kprobe_insn_slots.pages), .insns = slot_text, .slot_used = { 2 } };
/* Nothing of a module is about to be freed; a test may say that the orphan is. */
struct llist_node *init_free_list;
struct mod_initfree leaving = { .init_text = orphan_text };
struct work_struct init_free_wq;
extern struct worker idle_worker;
struct worker_pool pool = { .workers = ALONE(idle_worker.node) };
struct worker idle_worker = { .node = ALONE(pool.workers) };
struct idr worker_pool_idr = { .idr_rt = { .xa_head = &pool } };

/* A program that a test may put into the empty idr. */
struct bpf_prog_aux filter_aux = { .id = 7, .name = "by_user" };
struct bpf_prog filter_program = { .type = 1, .bpf_func = orphan_text, .aux = &filter_aux, .jited_len = 64 };
struct idr prog_idr;

/* A program that a test may put on the event. */
struct bpf_prog_aux attached_aux = { .id = 8, .name = "attached" };
struct bpf_prog attached_program = { .type = 2, .bpf_func = bpf_text + 0, .aux = &attached_aux, .jited_len = 64 };
struct bpf_prog dummy_bpf_prog = { .bpf_func = on_call };
struct bpf_prog_array attached = { .items = { { .prog = &attached_program } } };

/* A trampoline of vfs_read with two programs of its entry, of which the second was attached first, and one of its end. */
struct bpf_prog_aux early_aux = { .id = 9, .name = "early" }, late_aux = { .id = 8, .name = "late" }, end_aux = { .id = 2, .name = "end" };
struct bpf_prog early_program = { .type = 26, .bpf_func = bpf_text + 64, .aux = &early_aux, .jited_len = 64 };
struct bpf_prog late_program = { .type = 26, .bpf_func = bpf_text + 128, .aux = &late_aux, .jited_len = 64 };
struct bpf_prog end_program = { .type = 26, .bpf_func = bpf_text + 192, .aux = &end_aux, .jited_len = 64 };
struct bpf_tramp_link late_link = ON_LIST(late_link, late_program, 0), end_link = ON_LIST(end_link, end_program, 0);
struct bpf_tramp_link early_link = ON_LIST(early_link, early_program, &late_link.LINKED);
struct bpf_trampoline trampoline = {
	.func = { vfs_read }, .progs_hlist = { { &early_link.LINKED }, { &end_link.LINKED } },
};
#ifdef FORMER
struct hlist_head trampoline_table[4];
#else
struct hlist_head trampoline_key_table[4];
#endif
struct bpf_prog_array also_attached = { .items = { { .prog = &early_program } } };

/* A probe of the tracepoint may have it, or its link. */
struct bpf_raw_tp_link raw_link = { .link = { .prog = &early_program } }, hidden_link = { .link = { .prog = &attached_program } };
/* Fprobes that a test may register: early at vfs_write only, late at vfs_read, too, and added before; a session at its end. */
#ifdef FORMER
struct ftrace_func_entry many_write = { .ip = (u64)vfs_write + 4 }, many_read = { .ip = (u64)vfs_read + 4 };
struct hlist_head many_buckets[2] = { { &many_write.hlist }, { &many_read.hlist } };
struct ftrace_hash early_filter = { .buckets = many_buckets, .count = 1 }, late_filter = { .size_bits = 1, .buckets = many_buckets, .count = 2 };
struct bpf_kprobe_multi_link late_many = {
	.fp = { .ops = { .func = fprobe_handler, .flags = 1, .local = { &nothing, &late_filter }, .func_hash = &late_many.fp.ops.local,
	.next = &ftrace_list_end }, .entry_handler = kprobe_multi_link_handler, .exit_handler = kprobe_multi_link_handler },
	.link = { .prog = &late_program },
};
struct bpf_kprobe_multi_link early_many = {
	.fp = { .ops = { .func = fprobe_handler, .flags = 1, .local = { &nothing, &early_filter }, .func_hash = &early_many.fp.ops.local,
	.next = &late_many.fp.ops }, .entry_handler = kprobe_multi_link_handler }, .link = { .prog = &early_program },
};
#else
struct bpf_kprobe_multi_link late_many = {
	.fp = { .entry_handler = kprobe_multi_link_handler, .exit_handler = kprobe_multi_link_exit_handler }, .link = { .prog = &late_program },
};
struct bpf_kprobe_multi_link early_many = { .fp.entry_handler = kprobe_multi_link_handler, .link.prog = &early_program };
struct fprobe_hlist late_functions = { .fp = &late_many.fp, .size = 3, .array = {
	{ .fp = &late_many.fp, .addr = (u64)vfs_read + 4 }, { .fp = &late_many.fp, .addr = (u64)vfs_write + 4 }, { .addr = (u64)module_text + 4 },
} };
struct fprobe_hlist early_functions = { .fp = &early_many.fp, .size = 1, .array = {
	{ .fp = &early_many.fp, .hlist.next = &late_functions.array[1].hlist, .addr = (u64)vfs_write + 4 },
} };
struct hlist_head fprobe_table[4];
#endif
struct xa_node programs = { .slots = { &early_program, &late_program, &end_program } };

extern struct klp_patch patch;
extern struct klp_object patched_object;
extern struct klp_func patched_function;
extern struct klp_ops patch_ops;
struct list_head klp_patches = ALONE(patch.list), klp_ops = ALONE(patch_ops.node);
struct klp_patch patch = {
	.mod = &loaded, .enabled = 1, .kobj = { .sd = &loaded }, .list = ALONE(klp_patches), .obj_list = ALONE(patched_object.node),
};
struct klp_object patched_object = { .node = ALONE(patch.obj_list), .func_list = ALONE(patched_function.node) };
struct klp_func patched_function = {
	.old_name = "replaced", .old_func = replaced, .new_func = on_call, .node = ALONE(patched_object.func_list),
	.stack_node = ALONE(patch_ops.func_stack),
};
struct klp_ops patch_ops = { .func_stack = ALONE(patched_function.stack_node), .node = ALONE(klp_ops) };
struct mutex klp_mutex;

/* Read-only data, the last of which boot chooses. */
#define READ_ONLY(section_name) __attribute__((section(section_name), used))
asm(".section .rodata.first, \"a\"\n.balign 8\n.globl __start_rodata\n__start_rodata:\n.previous");
void *const operations[3] READ_ONLY(".rodata.first") = { vfs_read, vfs_write, on_call };
asm(".section .rodata.later, \"a\"\n.balign 8\n.globl __start_ro_after_init\n__start_ro_after_init:\n.previous");
void *const chosen READ_ONLY(".rodata.later") = on_probe;
asm(".section .rodata.last, \"a\"\n.balign 8\n.globl __end_ro_after_init, __end_rodata\n"
    "__end_ro_after_init: .quad 0\n__end_rodata:\n.previous");

/* Page tables, which the test fills; the linear map has this image where it is. */
u64 swapper_pg_dir[512] __attribute__((aligned(4096))) = { 1 }, table_1[512] __attribute__((aligned(4096))) = { 1 };
u64 table_linear[512] __attribute__((aligned(4096))) = { 1 };
u64 table_2[512] __attribute__((aligned(4096))) = { 1 }, table_3[512] __attribute__((aligned(4096))) = { 1 };
u64 memstart_addr, kimage_voffset = 0xffff000000000000;
const char linux_banner[] = "Linux version 6.12.0 (made for a test)";
struct mutex ftrace_lock, kprobe_mutex, tracepoints_mutex;
u32 ftrace_disabled, ftrace_enabled = 1;
unsigned char sysctl_bootid[16] = "the first boot";
unsigned char kprobes_all_disarmed;
struct static_key unused_key;
struct rb_node unused_node;
char _end[8];

/* For their types. */
struct fgraph_ops unused_graph;
struct kretprobe *unused_return;
struct xa_node *unused_xa_node;

/* A task with an open socket, and what a filter of classic BPF in the pack may hang at; nothing leads to that. */
struct bpf_prog classic = { .type = 0, .bpf_func = pack_text + 4, .jited_len = 64 };
struct seccomp_filter filter_of_task = { .prog = &classic };
struct seccomp_filter empty_filter = { .moved = 1 };
struct sk_filter filter_of_socket = { .prog = &classic };
struct sock_reuseport reuseport = { .prog = &classic };
u64 socket_file_ops = 1;
struct sock sock = { .moved = 1 };
struct socket open_socket = { .sk = &sock };
struct file open_file = { .f_op = &socket_file_ops, .private_data = &open_socket };
struct file *open_files[4] = { 0, &open_file };
struct fdtable fdtable = { 4, open_files };
struct files_struct init_files = { .fdt = &fdtable };
extern struct task_struct init_task;
struct signal_struct init_signals = { .thread_head = { &init_task.thread_node, &init_task.thread_node } };
struct task_struct init_task = {
	.tasks = ALONE(init_task.tasks), .thread_node = ALONE(init_signals.thread_head), .signal = &init_signals, .files = &init_files,
};
