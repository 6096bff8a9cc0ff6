// SPDX-License-Identifier: GPL-2.0-only
/*
 * fentry.c - attaches BPF programs that do nothing to the entries of functions, and waits
 *
 * Usage: fentry BTF-ID...: type ids of functions in the kernel's own BTF. It prints a + for each function that the kernel
 * took and a - for each other, and sleeps until it is killed: a program is attached while its file is open. Without a C
 * library, since the tests' machines have none for arm64.
 */
typedef unsigned int u32;
typedef unsigned long u64;

/* include/uapi/asm-generic/unistd.h */
enum { NR_ppoll = 73, NR_write = 64, NR_exit = 93, NR_bpf = 280 };
/* include/uapi/linux/bpf.h: commands, and offsets in union bpf_attr */
enum { PROG_LOAD = 5, RAW_TRACEPOINT_OPEN = 17, TRACING = 26, TRACE_FENTRY = 24, ATTR_SIZE = 128 };
enum { PROG_TYPE = 0, INSN_CNT = 4, INSNS = 8, LICENSE = 16, ATTACH_TYPE = 68, ATTACH_BTF_ID = 108, PROG_FD = 8 };

static long call(long number, long a, long b, long c, long d, long e)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0") = a;
	register long x1 asm("x1") = b;
	register long x2 asm("x2") = c;
	register long x3 asm("x3") = d;
	register long x4 asm("x4") = e;

	asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
}

static int attach(u32 id)
{
	/* r0 = 0; exit */
	static const u64 nothing[] = { 0x00000000000000b7, 0x0000000000000095 };
	u64 room[ATTR_SIZE / 8] = { 0 };
	char *attr = (char *)room;
	long program;

	*(u32 *)(attr + PROG_TYPE) = TRACING;
	*(u32 *)(attr + INSN_CNT) = 2;
	*(u64 *)(attr + INSNS) = (u64)nothing;
	*(u64 *)(attr + LICENSE) = (u64) "GPL";
	*(u32 *)(attr + ATTACH_TYPE) = TRACE_FENTRY;
	*(u32 *)(attr + ATTACH_BTF_ID) = id;
	program = call(NR_bpf, PROG_LOAD, (long)attr, ATTR_SIZE, 0, 0);
	if (program < 0)
		return 0;
	for (int k = 0; k < ATTR_SIZE / 8; k++)
		room[k] = 0;
	*(u32 *)(attr + PROG_FD) = program;
	return call(NR_bpf, RAW_TRACEPOINT_OPEN, (long)attr, ATTR_SIZE, 0, 0) >= 0;
}

__attribute__((used)) void run(long *stack)
{
	char **argument = (char **)(stack + 2);
	int attached = 0;

	for (; *argument; argument++) {
		u32 id = 0;
		int done;

		for (char *digit = *argument; *digit; digit++)
			id = 10 * id + (*digit - '0');
		done = attach(id);
		attached += done;
		call(NR_write, 1, (long)(done ? "+" : "-"), 1, 0, 0);
	}
	call(NR_write, 1, (long)"\n", 1, 0, 0);
	if (attached)
		call(NR_ppoll, 0, 0, 0, 0, 0);
	call(NR_exit, !attached, 0, 0, 0, 0);
}

asm(".global _start\n_start: mov x0, sp\n\tb run\n");
