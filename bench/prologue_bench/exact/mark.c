// SPDX-License-Identifier: GPL-2.0-only
/*
 * Marks what a recording is to begin and end with: plugin/record.c watches for
 * these functions by their address, which no other program uses.
 *
 *   mark PROGRAM ARGUMENT...   begin, then become that program
 *   mark                       end
 */
#define __NR_write 64
#define __NR_exit 93
#define __NR_getppid 173
#define __NR_execve 221

/* Nothing else runs these instructions. */
void mark_arm(void);
void mark_begin(void);
void mark_end(void);
asm(".globl mark_arm, mark_begin, mark_end\n"
    "mark_arm:		ret\n"
    "mark_begin:	ret\n"
    "mark_end:		ret\n");

static long call(long number, long a, long b, long c)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0") = a;
	register long x1 asm("x1") = b;
	register long x2 asm("x2") = c;

	asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}

static long run(char **argv)
{
	static const char failed[] = "mark: cannot be run\n";
	static char *environment[] = { "PATH=/bin", "HOME=/", 0 };

	mark_arm();
	/* The kernel says which task it is in when it is entered. */
	for (int k = 0; k < 4; k++)
		call(__NR_getppid, 0, 0, 0);
	mark_begin();
	call(__NR_execve, (long)argv[0], (long)argv, (long)environment);
	call(__NR_write, 2, (long)failed, sizeof(failed) - 1);
	return 127;
}

/* The stack that a program begins with: argc, then argv and a NULL. */
void begin(long *stack)
{
	long status = 0;

	if (stack[0] > 1)
		status = run((char **)stack + 2);
	else
		mark_end();
	for (;;)
		call(__NR_exit, status, 0, 0);
}

asm(".globl _start\n"
    "_start:	mov	x0, sp\n"
    "		b	begin\n");
