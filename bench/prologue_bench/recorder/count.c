// SPDX-License-Identifier: GPL-2.0-only
/*
 * count REPORT COMMAND
 *
 * Runs /bin/sh -c COMMAND, and counts what perf stat would: each event of the
 * command and of all that it starts, in the kernel and outside of it, from the
 * command's exec until it has ended. REPORT gets a line for each event:
 *
 *	cycles 123456 2000000 1000000	counted, ns enabled, ns on a counter
 *	iTLB-load-misses - ENOENT	why there is no such counter
 *
 * The exit status is the command's, 128 and the number of a signal that ended
 * it, or 125 if nothing could be run.
 */
#include <stddef.h>
#include <stdint.h>

#include "syscall.h"

/* include/uapi/asm-generic/unistd.h; no header of the kernel's is needed */
#define __NR_openat 56
#define __NR_close 57
#define __NR_pipe2 59
#define __NR_read 63
#define __NR_write 64
#define __NR_exit_group 94
#define __NR_clone 220
#define __NR_execve 221
#define __NR_perf_event_open 241
#define __NR_wait4 260

#define SIGCHLD 17
#define AT_FDCWD -100
#define O_WRONLY 1
#define O_CREAT 0100
#define O_TRUNC 01000
#define O_CLOEXEC 02000000
#define EIO 5
#define NOTHING_RAN 125

/* include/uapi/linux/perf_event.h: the first version of the structure has all that is needed */
struct event_attr {
	uint32_t type, size;
	uint64_t config, sample_period, sample_type, read_format, flags;
	uint32_t wakeup_events, bp_type;
	uint64_t bp_addr;
};

#define TYPE_HARDWARE 0
#define TYPE_CACHE 3
#define CACHE_MISS_OF_READ (1 << 16)
#define FORMAT_TIMES 3		/* TOTAL_TIME_ENABLED, TOTAL_TIME_RUNNING */
#define FLAG_DISABLED (1 << 0)
#define FLAG_INHERIT (1 << 1)
#define FLAG_ENABLE_ON_EXEC (1 << 12)
#define FLAG_FD_CLOEXEC 8

/* Names as perf list has them. */
static const struct {
	char name[24];
	uint32_t type;
	uint64_t config;
} events[] = {
	{ "instructions", TYPE_HARDWARE, 1 },
	{ "cycles", TYPE_HARDWARE, 0 },
	{ "stalled-cycles-frontend", TYPE_HARDWARE, 7 },
	{ "stalled-cycles-backend", TYPE_HARDWARE, 8 },
	{ "L1-icache-load-misses", TYPE_CACHE, 1 | CACHE_MISS_OF_READ },
	{ "iTLB-load-misses", TYPE_CACHE, 4 | CACHE_MISS_OF_READ },
};

#define EVENTS ((int)(sizeof(events) / sizeof(events[0])))

static const struct {
	int number;
	char name[12];
} errors[] = {
	{ 1, "EPERM" }, { 2, "ENOENT" }, { EIO, "EIO" }, { 13, "EACCES" }, { 16, "EBUSY" },
	{ 19, "ENODEV" }, { 22, "EINVAL" }, { 38, "ENOSYS" }, { 95, "EOPNOTSUPP" },
};

static char report[1024];	/* EVENTS lines, none of 100 characters */
static long length;

/* The compiler may call it for a structure that begins with zeros. */
void *memset(void *data, int value, size_t size)
{
	for (volatile char *at = data; size--; at++)
		*at = value;
	return data;
}

static void say(const char *text)
{
	while (*text)
		report[length++] = *text++;
}

static void say_number(uint64_t number)
{
	char digits[21];
	int at = sizeof(digits) - 1;

	digits[at] = 0;
	do
		digits[--at] = '0' + number % 10;
	while (number /= 10);
	say(digits + at);
}

static void say_error(int error)
{
	for (size_t k = 0; k < sizeof(errors) / sizeof(errors[0]); k++)
		if (errors[k].number == error) {
			say(errors[k].name);
			return;
		}
	say("errno-");
	say_number(error);
}

/* Returns a descriptor of the event, of a task that has not begun its program; or a negative error. */
static long open_event(int k, long task)
{
	struct event_attr attr = {
		.type = events[k].type,
		.size = sizeof(attr),
		.config = events[k].config,
		.read_format = FORMAT_TIMES,
		.flags = FLAG_DISABLED | FLAG_INHERIT | FLAG_ENABLE_ON_EXEC,
	};

	return call(__NR_perf_event_open, (long)&attr, task, -1, -1, FLAG_FD_CLOEXEC);
}

/* With FLAG_INHERIT a read sums the task and all that it has started, those that ended too. */
static void say_event(int k, long event)
{
	uint64_t numbers[3];	/* the count, ns enabled, ns running */
	long got = event;

	if (event >= 0)
		got = call(__NR_read, event, (long)numbers, sizeof(numbers), 0, 0);
	say(events[k].name);
	if (got != sizeof(numbers)) {
		say(" - ");
		say_error(got < 0 ? -got : EIO);	/* an event in error has no count to read */
	} else {
		for (int n = 0; n < 3; n++) {
			say(" ");
			say_number(numbers[n]);
		}
	}
	say("\n");
}

static void leave(long status)
{
	for (;;)
		call(__NR_exit_group, status, 0, 0, 0, 0);
}

/* The child: waits for a byte, so that its events are there before its program. */
static void run(int go, char *command, char **environment)
{
	char *argv[] = { "sh", "-c", command, NULL };
	char byte;

	if (call(__NR_read, go, (long)&byte, 1, 0, 0) == 1)
		call(__NR_execve, (long)"/bin/sh", (long)argv, (long)environment, 0, 0);
	leave(NOTHING_RAN);
}

__attribute__((used)) static void count(long *stack)
{
	long argc = stack[0], opened[EVENTS], file, child;
	char **argv = (char **)(stack + 1), **environment = argv + argc + 1;
	int status = 0, go[2];

	if (argc != 3)
		leave(NOTHING_RAN);
	file = call(__NR_openat, AT_FDCWD, (long)argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600, 0);
	if (file < 0 || call(__NR_pipe2, (long)go, O_CLOEXEC, 0, 0, 0))
		leave(NOTHING_RAN);
	child = call(__NR_clone, SIGCHLD, 0, 0, 0, 0);
	if (child < 0)
		leave(NOTHING_RAN);
	if (!child) {
		call(__NR_close, go[1], 0, 0, 0, 0);	/* or it would wait for itself if its parent died */
		run(go[0], argv[2], environment);
	}
	for (int k = 0; k < EVENTS; k++)
		opened[k] = open_event(k, child);
	call(__NR_write, go[1], (long)"g", 1, 0, 0);
	while (call(__NR_wait4, child, (long)&status, 0, 0, 0) == -4 /* EINTR */)
		;
	for (int k = 0; k < EVENTS; k++)
		say_event(k, opened[k]);
	if (call(__NR_write, file, (long)report, length, 0, 0) != length)
		leave(NOTHING_RAN);
	leave(status & 127 ? 128 + (status & 127) : status >> 8 & 255);
}

/* A program's arguments are where its stack begins. */
asm(".globl _start\n"
    "_start:	mov x29, #0\n"
    "	mov x30, #0\n"
    "	mov x0, sp\n"
    "	b count\n");
