// SPDX-License-Identifier: GPL-2.0-only
/*
 * An init that runs programs one after the other, and powers off. Linked at an
 * address that no other program uses, so that a plugin that watches the guest from
 * outside knows by the address when a program begins (measure_begin) and when
 * it ended well (measure_end).
 *
 * /workloads holds their arguments: each ends with a NUL, and another NUL ends
 * each program's. What goes wrong is said on the console, after "measure: ",
 * and ends everything.
 */
#include <stddef.h>
#include <stdint.h>

#include "syscall.h"

/* include/uapi/asm-generic/unistd.h; no header of the kernel's is needed */
#define __NR_mount 40
#define __NR_openat 56
#define __NR_close 57
#define __NR_read 63
#define __NR_write 64
#define __NR_clock_gettime 113
#define __NR_clock_nanosleep 115
#define __NR_reboot 142
#define __NR_clone 220
#define __NR_execve 221
#define __NR_wait4 260

/* include/uapi/linux/reboot.h */
#define LINUX_REBOOT_MAGIC1 0xfee1dead
#define LINUX_REBOOT_MAGIC2 672274793
#define LINUX_REBOOT_CMD_POWER_OFF 0x4321fedc

#define SIGCHLD 17
#define CLOCK_MONOTONIC 1
#define TIMER_ABSTIME 1
#define AT_FDCWD -100
#define SETTLED 10	/* seconds, of the guest */

/* Nothing else runs these two instructions. */
void measure_begin(void);
void measure_end(void);
asm(".globl measure_begin, measure_end\n"
    "measure_begin:	ret\n"
    "measure_end:	ret\n");

static void say(const char *text)
{
	long size = 0;

	while (text[size])
		size++;
	call(__NR_write, 1, (long)text, size, 0, 0);
}

static void say_hex(const unsigned char *data, long size)
{
	char text[3] = "";

	for (long k = 0; k < size; k++) {
		text[0] = "0123456789abcdef"[data[k] >> 4];
		text[1] = "0123456789abcdef"[data[k] & 15];
		say(text);
	}
}

static void power_off(void)
{
	for (;;)
		call(__NR_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		     LINUX_REBOOT_CMD_POWER_OFF, 0, 0);
}

static void fail(const char *what, const char *why, long number)
{
	unsigned char bytes[2] = { number >> 8, number };

	say("measure: ");
	say(what);
	say(why);
	say_hex(bytes, 2);
	say("\n");
	power_off();
}

static void mount(const char *type, const char *where)
{
	long error = call(__NR_mount, (long)type, (long)where, (long)type, 0, 0);

	if (error)
		fail(where, ": cannot be mounted: error ", -error);
}

/* Returns how much of the file is in data, at most size bytes. */
static long read_file(const char *path, void *data, long size)
{
	long file = call(__NR_openat, AT_FDCWD, (long)path, 0, 0, 0);
	long got = call(__NR_read, file, (long)data, size, 0, 0);

	if (file < 0 || got < 0)
		fail(path, ": cannot be read: error ", file < 0 ? -file : -got);
	call(__NR_close, file, 0, 0, 0, 0);
	return got;
}

/*
 * Wait for a whole multiple of SETTLED seconds, so that programs begin at the
 * same moment and the same distance from the next tick, however long the boot
 * took, and nothing is left of it to do.
 */
static void settle(void)
{
	struct { int64_t seconds, nanoseconds; } time;

	call(__NR_clock_gettime, CLOCK_MONOTONIC, (long)&time, 0, 0, 0);
	time.seconds += SETTLED - time.seconds % SETTLED;
	time.nanoseconds = 0;
	call(__NR_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)&time,
	     0, 0);
}

static void run(char **argv)
{
	static char *environment[] = { "PATH=/bin", "HOME=/", NULL };
	int status = -1;
	long child;

	settle();
	measure_begin();
	child = call(__NR_clone, SIGCHLD, 0, 0, 0, 0);
	if (!child) {
		long error = call(__NR_execve, (long)argv[0], (long)argv,
				  (long)environment, 0, 0);

		fail(argv[0], ": cannot be run: error ", -error);
	}
	call(__NR_wait4, child, (long)&status, 0, 0, 0);
	if (status)
		fail(argv[0], ": wait status ", status);
	measure_end();
}

void _start(void)
{
	static char arguments[1 << 16];
	static unsigned char notes[4096];
	static char *argv[1 << 10];
	long size, count = 0, at = 0;

	mount("proc", "/proc");
	mount("sysfs", "/sys");
	mount("devtmpfs", "/dev");
	mount("tmpfs", "/tmp");
	size = read_file("/sys/kernel/notes", notes, sizeof(notes));
	say("\nnotes: ");
	say_hex(notes, size);
	say("\n");
	size = read_file("/workloads", arguments, sizeof(arguments));
	while (at < size) {
		if (arguments[at]) {
			argv[count++] = arguments + at;
			while (arguments[at])
				at++;
		} else {
			argv[count] = NULL;
			run(argv);
			count = 0;
		}
		at++;
	}
	power_off();
}
