/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mini.h - what the files of the mini kernel share
 *
 * Build-time switches, all set by build.py:
 *   MINI_LAYOUT      "2" or "4,2", the argument of -fpatchable-function-entry
 *   MINI_CALL_OPS    defined for "4,2": an 8-byte literal stands before each function
 *   MINI_STOCK       defined: an unmodified kernel, no marker, records are always adjusted
 *   MINI_MARKER      version of the marker: 1 or 2
 *   MINI_PLAIN       defined: version 2 takes records as sorted addresses, not as offsets
 *   MINI_PARKED      how often parked.c swings its function; CPU 0 does nothing else then
 *   MINI_MAPPED      defined: runs at its link address, and says in memory what a dump of it needs (VMCOREINFO)
 *   MINI_REWRITTEN   how often rewritten.c writes its functions; nothing else is done then
 *   MINI_FORM, MINI_BTI, MINI_LINK_ADDR
 */
#ifndef MINI_H
#define MINI_H

#define REWRITTEN_FUNCTIONS	64	/* of rewritten.S, and the words of each */
#define REWRITTEN_WORDS		16
#ifdef MINI_MAPPED
#define MINI_VOFFSET	0xffff800000000000	/* from a physical address to the kernel's */
#else
#define MINI_VOFFSET	0
#endif
#define MINI_RELEASE	"6.12.0-mini"
#define X9_POISON	0xdead		/* no address: what x9 holds before a call and after a trampoline */

#ifndef __ASSEMBLER__

/* Everything is linked into one image: no symbol may go through a GOT. */
#pragma GCC visibility push(hidden)

typedef unsigned int u32;
typedef unsigned long u64;

#define __init		__attribute__((section(".init.text")))
#define noinline	__attribute__((__noinline__))
#define notrace		__attribute__((patchable_function_entry(0, 0)))
#define barrier()	asm volatile("" ::: "memory")
#ifdef __clang__
#define traced		noinline
#else
#define traced		__attribute__((noipa))
#endif
#define CALL(fn, ...)	({ asm volatile("mov x9, %0" :: "i"(X9_POISON) : "memory"); fn(__VA_ARGS__); })

#define INSN_NOP	0xd503201fu
#define INSN_BTI_C	0xd503245fu
#define INSN_MOV_X9_LR	0xaa1e03e9u

#define EIO		5
#define ENOMEM		12
#define EFAULT		14
#define EINVAL		22

/* ftrace.c */
struct module;
struct ftrace_ops {
	u64 flags;
};
#define FTRACE_FL_ENABLED	(1ul << 31)
struct dyn_ftrace {			/* as Linux has it, and so is the list of pages: an audit of memory reads them */
	unsigned long ip;		/* the second slot: NOP, or BL when traced */
	unsigned long flags;
};
struct ftrace_page {
	struct ftrace_page *next;
	struct dyn_ftrace *records;
	int index;			/* how many */
};

struct prologue_marker {
	u64 magic;			/* "PROLOGUE" */
	u32 version;			/* MINI_MARKER */
	u32 flags;
	u64 sites;			/* 0 until processed */
	u32 for_tools[4];		/* version 2 */
};
#define MARKER_PROCESSED	1u	/* in flags: first slots hold MOV, records point at second slots */
#define MARKER_OFFSETS		2u	/* version 2: processed records are 32-bit offsets from _text */

extern unsigned long __start_mcount_loc[], __stop_mcount_loc[];
extern struct prologue_marker __ftrace_prologue_marker;	/* the linker script makes version 1, ftrace.c version 2 */
#ifdef MINI_CALL_OPS
extern const struct ftrace_ops ftrace_nop_ops;	/* exists in CALL_OPS kernels only: the tool looks for it */
#endif
extern int ftrace_disabled;
#define MOST_FUNCTIONS	64
extern struct dyn_ftrace ftrace_records[MOST_FUNCTIONS];
extern struct ftrace_page *ftrace_pages_start;
extern char _text[], _stext[], _etext[], _sinittext[], _einittext[];

void ftrace_init(void);
int ftrace_init_nop(struct module *mod, struct dyn_ftrace *rec);
unsigned long ftrace_call_adjust(unsigned long addr);
int ftrace_records_moved(void);
unsigned long ftrace_slots(void);	/* records, zero ones too */
unsigned long ftrace_ip(unsigned long k);	/* second slot of a record; 0 for a zero one */
void ftrace_note(unsigned long ip, int on);	/* in its record */
int ftrace_first_use(void);
u64 *ftrace_literal(unsigned long ip);
void ftrace_bug(unsigned long ip, u32 expected);
void ftrace_caller(void);		/* head.S */

/* insn.c */
extern unsigned long text_writes, literal_writes;

int aarch64_insn_read(void *addr, u32 *insnp);
int aarch64_insn_patch_text_nosync(void *addr, u32 insn);
int aarch64_insn_write_literal_u64(void *addr, u64 val);
u32 aarch64_insn_gen_move_reg(int dst, int src, int variant);
u32 aarch64_insn_gen_branch_link(unsigned long pc, unsigned long addr);

/* main.c */
extern volatile int stop_work;
extern volatile unsigned long work_rounds, work_errors;
extern unsigned long kaslr_offset;	/* where it runs minus where it was linked */

void say(const char *fmt, ...);
void fail(const char *why) __attribute__((noreturn));
void die_exception(u64 esr, u64 elr);
void swing(unsigned long *record, int on);
void swing_ip(unsigned long ip, int on);

/* work.c */
void work_loop(void);

/* parked.c */
extern unsigned long parked_traced;	/* calls of its second slot's BL */
extern char parked_vectors[];		/* parked.S */
void swing_parked(unsigned long swings);
int is_parked_site(unsigned long ip);
void task_preempted(u64 esr, u64 elr);

/* rewritten.c */
void rewrite(unsigned long rounds);	/* CPU 0 */
void run_rewritten(void);		/* CPU 1 */

#endif /* __ASSEMBLER__ */
#endif /* MINI_H */
