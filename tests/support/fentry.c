// SPDX-License-Identifier: GPL-2.0-only
/*
 * fentry.c - attaches BPF programs that do nothing, and waits
 *
 * Usage: fentry PLACE...: each gets a program of its own
 *   BTF-ID           type id of a function in the kernel's own BTF: its entry
 *   TYPE:FUNCTION    a kprobe of perf, where /sys/bus/event_source/devices/kprobe has the type
 *   raw:TRACEPOINT   a raw tracepoint
 *   btf:BTF-ID       a raw tracepoint with types: the type id of its typedef, btf_trace_TRACEPOINT
 *   multi:FUNCTION[,FUNCTION...], return:..., session:...
 *                    entries of several functions by one fprobe, where they return, or both
 *   filter:seccomp, filter:socket, filter:reuseport
 *                    a filter of classic BPF, which no list has, of this task, a packet socket or sockets of one port
 *
 * It prints a + for each that the kernel took and a - for each other, and sleeps until it is killed: a program is attached
 * while its file is open. Without a C library, since the tests' machines have none for arm64.
 */
typedef unsigned int u32;
typedef unsigned long u64;

/* include/uapi/asm-generic/unistd.h */
enum { NR_ioctl = 29, NR_ppoll = 73, NR_write = 64, NR_exit = 93, NR_prctl = 167, NR_socket = 198, NR_setsockopt = 208 };
enum { NR_perf_event_open = 241, NR_seccomp = 277, NR_bpf = 280 };
/* include/uapi/linux/{filter,seccomp,prctl,if_packet}.h, asm-generic/socket.h */
enum { RETURN = 0x06, ALL = 0x7fff0000, SET_MODE_FILTER = 1, NO_NEW_PRIVS = 38 };
enum { AF_INET = 2, AF_PACKET = 17, DGRAM = 2, RAW = 3, SOL_SOCKET = 1, ATTACH_FILTER = 26, REUSEPORT = 15, ATTACH_REUSEPORT = 51 };
/* include/uapi/linux/bpf.h: commands, and offsets in union bpf_attr */
enum { PROG_LOAD = 5, RAW_TRACEPOINT_OPEN = 17, LINK_CREATE = 28, ATTR_SIZE = 128 };
enum { KPROBE = 2, RAW_TRACEPOINT = 17, TRACING = 26 };
enum { TRACE_RAW_TP = 23, TRACE_FENTRY = 24, TRACE_KPROBE_MULTI = 42, TRACE_KPROBE_SESSION = 56 };
enum { PROG_TYPE = 0, INSN_CNT = 4, INSNS = 8, LICENSE = 16, ATTACH_TYPE = 68, ATTACH_BTF_ID = 108 };
enum { RAW_NAME = 0, RAW_PROG_FD = 8 };
enum { LINK_PROG_FD = 0, LINK_ATTACH_TYPE = 8, MULTI_FLAGS = 16, MULTI_COUNT = 20, MULTI_NAMES = 24, MULTI_RETURN = 1 };
/* include/uapi/linux/perf_event.h: commands, and offsets in struct perf_event_attr */
enum { ENABLE = 0x2400, SET_BPF = 0x40042408 };
enum { TYPE = 0, SIZE = 4, KPROBE_FUNC = 56, PERF_SIZE = 72 };
enum { MOST_FUNCTIONS = 16 };

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

static int attach_raw(const char *tracepoint, u32 type, u32 attach_type, u32 id)
{
	u64 room[ATTR_SIZE / 8] = { 0 };
	char *attr = (char *)room;
	long program = load(type, attach_type, id);

	*(u64 *)(attr + RAW_NAME) = (u64)tracepoint;
	*(u32 *)(attr + RAW_PROG_FD) = program;
	return program >= 0 && call(NR_bpf, RAW_TRACEPOINT_OPEN, (long)attr, ATTR_SIZE, 0, 0) >= 0;
}

static int attach_to_many(char *functions, u32 attach_type, u32 flags)
{
	u64 room[ATTR_SIZE / 8] = { 0 };
	char *attr = (char *)room, *names[MOST_FUNCTIONS];
	long program = load(KPROBE, attach_type, 0);
	u32 count = 0;

	for (char *rest = functions; count < MOST_FUNCTIONS; *rest++ = 0) {
		names[count++] = rest;
		while (*rest && *rest != ',')
			rest++;
		if (!*rest)
			break;
	}
	*(u32 *)(attr + LINK_PROG_FD) = program;
	*(u32 *)(attr + LINK_ATTACH_TYPE) = attach_type;
	*(u32 *)(attr + MULTI_FLAGS) = flags;
	*(u32 *)(attr + MULTI_COUNT) = count;
	*(u64 *)(attr + MULTI_NAMES) = (u64)names;
	return program >= 0 && call(NR_bpf, LINK_CREATE, (long)attr, ATTR_SIZE, 0, 0) >= 0;
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

static int filter(const char *of)
{
	static const struct { unsigned short code; unsigned char jt, jf; u32 k; } all = { RETURN, 0, 0, ALL };
	struct { unsigned short count; const void *first; } program = { 1, &all };
	const int yes = 1;
	long socket;

	if (of[1] == 'e' && of[0] == 's')
		return !call(NR_prctl, NO_NEW_PRIVS, 1, 0, 0, 0) && !call(NR_seccomp, SET_MODE_FILTER, 0, (long)&program, 0, 0);
	if (*of == 's') {
		socket = call(NR_socket, AF_PACKET, RAW, 0, 0, 0);
		return !call(NR_setsockopt, socket, SOL_SOCKET, ATTACH_FILTER, (long)&program, sizeof(program));
	}
	socket = call(NR_socket, AF_INET, DGRAM, 0, 0, 0);
	return !call(NR_setsockopt, socket, SOL_SOCKET, REUSEPORT, (long)&yes, sizeof(yes)) &&
	       !call(NR_setsockopt, socket, SOL_SOCKET, ATTACH_REUSEPORT, (long)&program, sizeof(program));
}

static u32 number(const char *digits)
{
	u32 value = 0;

	for (; *digits >= '0' && *digits <= '9'; digits++)
		value = 10 * value + (*digits - '0');
	return value;
}

static int attach(char *place)
{
	char *rest = place;

	while (*rest && *rest != ':')
		rest++;
	if (!*rest)
		return attach_raw(0, TRACING, TRACE_FENTRY, number(place));
	rest++;
	switch (*place) {
	case 'b':
		return attach_raw(0, TRACING, TRACE_RAW_TP, number(rest));
	case 'f':
		return filter(rest);
	case 'm':
		return attach_to_many(rest, TRACE_KPROBE_MULTI, 0);
	case 'r':
		return place[1] == 'a' ? attach_raw(rest, RAW_TRACEPOINT, 0, 0)
				       : attach_to_many(rest, TRACE_KPROBE_MULTI, MULTI_RETURN);
	case 's':
		return attach_to_many(rest, TRACE_KPROBE_SESSION, 0);
	default:
		return attach_to_kprobe(number(place), rest);
	}
}

__attribute__((used)) void run(long *stack)
{
	int attached = 0;

	for (char **argument = (char **)(stack + 2); *argument; argument++) {
		int done = attach(*argument);

		attached += done;
		call(NR_write, 1, (long)(done ? "+" : "-"), 1, 0, 0);
	}
	call(NR_write, 1, (long)"\n", 1, 0, 0);
	if (attached)
		call(NR_ppoll, 0, 0, 0, 0, 0);
	call(NR_exit, !attached, 0, 0, 0, 0);
}

asm(".global _start\n_start: mov x0, sp\n\tb run\n");
