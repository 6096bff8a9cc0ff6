// SPDX-License-Identifier: GPL-2.0-only
/*
 * fentry.c - attaches BPF programs that do nothing to the entries of functions, and waits
 *
 * Usage: fentry BTF-ID|TYPE:FUNCTION...: type ids of functions in the kernel's own BTF; or, for a kprobe of perf, the type
 * that /sys/bus/event_source/devices/kprobe has, and a function. It prints a + for each function that the kernel took and
 * a - for each other, and sleeps until it is killed: a program is attached while its file is open. Without a C library,
 * since the tests' machines have none for arm64.
 */
typedef unsigned int u32;
typedef unsigned long u64;

/* include/uapi/asm-generic/unistd.h */
enum { NR_ioctl = 29, NR_ppoll = 73, NR_write = 64, NR_exit = 93, NR_perf_event_open = 241, NR_bpf = 280 };
/* include/uapi/linux/bpf.h: commands, and offsets in union bpf_attr */
enum { PROG_LOAD = 5, RAW_TRACEPOINT_OPEN = 17, KPROBE = 2, TRACING = 26, TRACE_FENTRY = 24, ATTR_SIZE = 128 };
enum { PROG_TYPE = 0, INSN_CNT = 4, INSNS = 8, LICENSE = 16, ATTACH_TYPE = 68, ATTACH_BTF_ID = 108, PROG_FD = 8 };
/* include/uapi/linux/perf_event.h: commands, and offsets in struct perf_event_attr */
enum { ENABLE = 0x2400, SET_BPF = 0x40042408 };
enum { TYPE = 0, SIZE = 4, KPROBE_FUNC = 56, PERF_SIZE = 72 };

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

static long load(u32 type, u32 attach_type, u32 id)
{
	/* r0 = 0; exit */
	static const u64 nothing[] = { 0x00000000000000b7, 0x0000000000000095 };
	u64 room[ATTR_SIZE / 8] = { 0 };
	char *attr = (char *)room;

	*(u32 *)(attr + PROG_TYPE) = type;
	*(u32 *)(attr + INSN_CNT) = 2;
	*(u64 *)(attr + INSNS) = (u64)nothing;
	*(u64 *)(attr + LICENSE) = (u64) "GPL";
	*(u32 *)(attr + ATTACH_TYPE) = attach_type;
	*(u32 *)(attr + ATTACH_BTF_ID) = id;
	return call(NR_bpf, PROG_LOAD, (long)attr, ATTR_SIZE, 0, 0);
}

static int attach(u32 id)
{
	u64 room[ATTR_SIZE / 8] = { 0 };
	long program = load(TRACING, TRACE_FENTRY, id);

	if (program < 0)
		return 0;
	*(u32 *)((char *)room + PROG_FD) = program;
	return call(NR_bpf, RAW_TRACEPOINT_OPEN, (long)room, ATTR_SIZE, 0, 0) >= 0;
}

static int attach_to_kprobe(u32 type, const char *function)
{
	u64 room[PERF_SIZE / 8] = { 0 };
	char *attr = (char *)room;
	long program = load(KPROBE, 0, 0), event;

	*(u32 *)(attr + TYPE) = type;
	*(u32 *)(attr + SIZE) = PERF_SIZE;
	*(u64 *)(attr + KPROBE_FUNC) = (u64)function;
	event = call(NR_perf_event_open, (long)attr, -1, 0, -1, 0);
	return program >= 0 && event >= 0 && !call(NR_ioctl, event, SET_BPF, program, 0, 0) &&
	       !call(NR_ioctl, event, ENABLE, 0, 0, 0);
}

__attribute__((used)) void run(long *stack)
{
	char **argument = (char **)(stack + 2);
	int attached = 0;

	for (; *argument; argument++) {
		u32 number = 0;
		char *rest = *argument;
		int done;

		for (; *rest && *rest != ':'; rest++)
			number = 10 * number + (*rest - '0');
		done = *rest ? attach_to_kprobe(number, rest + 1) : attach(number);
		attached += done;
		call(NR_write, 1, (long)(done ? "+" : "-"), 1, 0, 0);
	}
	call(NR_write, 1, (long)"\n", 1, 0, 0);
	if (attached)
		call(NR_ppoll, 0, 0, 0, 0, 0);
	call(NR_exit, !attached, 0, 0, 0, 0);
}

asm(".global _start\n_start: mov x0, sp\n\tb run\n");
