// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's only process: asks the kernel for a kprobe event at each place of /places, and says what it answered.
 *
 * /places holds batches of 32-bit words: how many places (bit 31: count the pages of slots, too), then the distance of
 * each place from _stext. For each batch a line is printed, with a character for every place:
 *	+ accepted
 *	n EINVAL, and the kernel says that ftrace cannot trace the function
 *	e EINVAL for another reason
 *	? another error
 *
 * No event is enabled, so no text is written. A batch is removed before the next one.
 *
 * It needs no library: a cross compiler often comes without one.
 */
#include <stddef.h>
#include <stdint.h>

/* include/uapi/asm-generic/unistd.h */
#define __NR_mount 40
#define __NR_openat 56
#define __NR_close 57
#define __NR_read 63
#define __NR_write 64
#define __NR_reboot 142

/* include/uapi/linux/reboot.h */
#define LINUX_REBOOT_MAGIC1 0xfee1dead
#define LINUX_REBOOT_MAGIC2 672274793
#define LINUX_REBOOT_CMD_POWER_OFF 0x4321fedc

/* include/uapi/asm-generic/fcntl.h and errno-base.h */
#define AT_FDCWD -100
#define O_RDONLY 0
#define O_WRONLY 01
#define O_TRUNC 01000
#define O_APPEND 02000
#define O_NONBLOCK 04000
#define EINVAL 22
#define EPIPE 32

#define EVENTS "/sys/kernel/tracing/kprobe_events"
#define LARGEST 4096
#define PAGES (1u << 31)

static char token[64];

static long call(long number, long a, long b, long c, long d, long e)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0") = a;
	register long x1 asm("x1") = b;
	register long x2 asm("x2") = c;
	register long x3 asm("x3") = d;
	register long x4 asm("x4") = e;

	asm volatile("svc #0" : "+r"(x0)
		     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
}

static char *append(char *end, const char *text)
{
	while (*text)
		*end++ = *text++;
	*end = 0;
	return end;
}

static char *append_number(char *end, unsigned long value)
{
	char digits[24];
	int at = sizeof(digits) - 1;

	digits[at] = 0;
	do
		digits[--at] = '0' + value % 10;
	while (value /= 10);
	return append(end, digits + at);
}

/* One line for the host, in as few writes as the console allows, so that no message of the kernel tears it. */
static void emit(const char *members)
{
	static char line[LARGEST + 256];
	char *end = append(append(append(line, "@"), token), " {");
	long size, done;

	end = append(append(end, members), "}\n");
	for (size = 0; line + size < end; size += done) {
		done = call(__NR_write, 1, (long)(line + size), end - line - size, 0, 0);
		if (done <= 0)
			return;
	}
}

static void finish(const char *problem)
{
	char line[256];

	if (problem) {
		append(append(append(line, "\"event\": \"error\", \"what\": \""), problem), "\"");
		emit(line);
	}
	emit("\"event\": \"end\"");
	call(__NR_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF, 0, 0);
	for (;;)
		;
}

static long open_file(const char *path, long flags)
{
	long fd = call(__NR_openat, AT_FDCWD, (long)path, flags, 0, 0);

	if (fd < 0)
		finish(path);
	return fd;
}

static const char *find(const char *text, long size, const char *wanted)
{
	long at, k;

	for (at = 0; at < size; at++) {
		for (k = 0; wanted[k] && at + k < size && text[at + k] == wanted[k]; k++)
			;
		if (!wanted[k])
			return text + at + k;
	}
	return NULL;
}

/* Whether the kernel said since the last call that it was about ftrace. */
static int blamed_ftrace(long log)
{
	static char record[8192];
	long size;
	int found = 0;

	for (;;) {
		size = call(__NR_read, log, (long)record, sizeof(record), 0, 0);
		if (size == -EPIPE)
			continue; /* records were overwritten before we read them */
		if (size <= 0)
			return found;
		found |= find(record, size, "Could not probe notrace") != NULL;
	}
}

/* How many pages hold slots for instructions that are stepped: each is a symbol (kernel/kprobes.c). */
static unsigned long count_pages(void)
{
	static char part[65536];
	const char *wanted = " kprobe_insn_page", *next = wanted;
	long symbols = open_file("/proc/kallsyms", O_RDONLY), size, k;
	unsigned long count = 0;

	while ((size = call(__NR_read, symbols, (long)part, sizeof(part), 0, 0)) > 0) {
		for (k = 0; k < size; k++) {
			next = part[k] == *next ? next + 1 : wanted + (part[k] == *wanted);
			if (!*next) {
				count++;
				next = wanted;
			}
		}
	}
	call(__NR_close, symbols, 0, 0, 0, 0);
	return count;
}

static char ask(long events, long log, unsigned long number, uint32_t offset)
{
	char line[64], *end = append_number(append(line, "p:k/p"), number);
	long done;

	end = append(append_number(append(end, " _stext+"), offset), "\n");
	done = call(__NR_write, events, (long)line, end - line, 0, 0);
	if (done == end - line)
		return '+';
	if (done != -EINVAL)
		return '?';
	return blamed_ftrace(log) ? 'n' : 'e';
}

static void read_token(void)
{
	static char line[4096];
	long file = open_file("/proc/cmdline", O_RDONLY);
	long size = call(__NR_read, file, (long)line, sizeof(line) - 1, 0, 0);
	const char *found = find(line, size, "prologue.token=");
	int k;

	for (k = 0; found && found[k] > ' ' && k < (int)sizeof(token) - 1; k++)
		token[k] = found[k];
	call(__NR_close, file, 0, 0, 0, 0);
}

static long read_all(long file, void *buffer, long size)
{
	long done, total = 0;

	while (total < size) {
		done = call(__NR_read, file, (long)buffer + total, size - total, 0, 0);
		if (done <= 0)
			break;
		total += done;
	}
	return total;
}

static void ask_batch(const uint32_t *places, uint32_t count, int pages, long log)
{
	static char members[LARGEST + 128];
	long events = open_file(EVENTS, O_WRONLY | O_APPEND);
	char *end = append(members, "\"event\": \"batch\", \"answers\": \"");
	uint32_t k;

	for (k = 0; k < count; k++)
		*end++ = ask(events, log, k, places[k]);
	end = append(end, "\"");
	if (pages)
		append_number(append(end, ", \"pages\": "), count_pages());
	call(__NR_close, events, 0, 0, 0, 0);
	emit(members);
	call(__NR_close, open_file(EVENTS, O_WRONLY | O_TRUNC), 0, 0, 0, 0); /* removes all events */
}

void _start(void)
{
	static uint32_t places[LARGEST];
	uint32_t head, count;
	long asked, log;

	call(__NR_mount, (long)"proc", (long)"/proc", (long)"proc", 0, 0);
	call(__NR_mount, (long)"sysfs", (long)"/sys", (long)"sysfs", 0, 0);
	call(__NR_mount, (long)"devtmpfs", (long)"/dev", (long)"devtmpfs", 0, 0);
	read_token();
	if (call(__NR_mount, (long)"tracefs", (long)"/sys/kernel/tracing", (long)"tracefs", 0, 0))
		finish("tracefs cannot be mounted");
	asked = open_file("/places", O_RDONLY);
	log = open_file("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	blamed_ftrace(log);
	while (read_all(asked, &head, sizeof(head)) == sizeof(head)) {
		count = head & ~PAGES;
		if (count > LARGEST || read_all(asked, places, count * 4l) != count * 4l)
			finish("/places is damaged");
		ask_batch(places, count, !!(head & PAGES), log);
	}
	finish(NULL);
}
