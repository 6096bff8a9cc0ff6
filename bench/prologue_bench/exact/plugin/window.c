// SPDX-License-Identifier: GPL-2.0-only
/* The window of a recording. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"
#include "window.h"

struct cpu cpus[MAX_CPUS];
struct file out = { .lock = PTHREAD_MUTEX_INITIALIZER };
struct file truth = { .lock = PTHREAD_MUTEX_INITIALIZER };
const char *status_path;
uint64_t places[PLACES];
uint64_t own_id, slide, stops;
bool slide_known, is_open, ending, finished;
uint8_t build_id[20];
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *why = "machine";

void write_ranges(struct cpu *c)
{
	put(&out, c->range, c->ranges * sizeof(*c->range));
	c->ranges = 0;
	c->unsure = NULL;
}

/* All but those of the block that runs: they may have to be marked or dropped. */
void write_executed(struct cpu *c)
{
	put(&truth, c->insn, c->whole * sizeof(*c->insn));
	memmove(c->insn, c->insn + c->whole, (c->executed - c->whole) * sizeof(*c->insn));
	c->executed -= c->whole;
	c->whole = 0;
}

void add_range(struct cpu *c, uint64_t start, uint32_t count, uint8_t flags)
{
	if (c->ranges == RANGES)
		write_ranges(c);
	if (!(c->ticks++ & 15) || flags & EXCEPTION)
		c->time = nanoseconds(CLOCK_MONOTONIC);
	c->range[c->ranges++] = (struct range) {
		.time = c->time, .start = start, .count = count,
		.cpu = c - cpus, .level = c->level, .flags = flags,
		.vmid = c->vmid, .task = c->task,
	};
	c->written += count != 0;	/* the others are notes */
}

void close_range(struct cpu *c)
{
	if (!c->count)
		return;
	add_range(c, c->start, c->count, c->flags);
	c->flags = 0;
	c->start += 4ull * c->count;
	c->written_to = c->start;
	c->count = 0;
}

/* The window began before the kernel moved: say the slide now, where the file can be written again. */
static void correct_header(void)
{
	const uint32_t flags = 3;

	if (!slide_known ||
	    pwrite(out.fd, &slide, sizeof(slide), offsetof(struct header, slide)) < 0)
		return;
	if (pwrite(out.fd, &flags, sizeof(flags), offsetof(struct header, flags)) < 0)
		perror(out.path);
}

/* No CPU runs. Of the block that each has run last it is not known what came of it: it is left out. */
void finish(void)
{
	FILE *file;

	if (finished)
		return;
	finished = true;
	for (struct cpu *c = cpus; is_open && c < cpus + MAX_CPUS; c++) {
		if (!c->range)
			continue;
		close_range(c);
		write_ranges(c);
		c->on = false;
		if (truth.path) {
			c->executed = c->whole;
			write_executed(c);
		}
	}
	if (is_open)
		correct_header();
	file = fopen(status_path, "w");
	if (!file)
		goto bad;
	fprintf(file, "{\"opened\": %s, \"why\": \"%s\", \"slide\": ",
		is_open ? "true" : "false", why);
	if (slide_known)
		fprintf(file, "%" PRIu64 ", \"cpus\": [", slide);
	else
		fprintf(file, "null, \"cpus\": [");
	for (int k = 0, n = 0; k < MAX_CPUS; k++) {
		if (cpus[k].range)
			fprintf(file, "%s[%d, %" PRIu64 ", %" PRIu64 "]",
				n++ ? ", " : "", k, cpus[k].instructions,
				cpus[k].written);
	}
	fprintf(file, "]}\n");
	if (!fclose(file))
		return;
bad:
	perror(status_path);
	_exit(1);
}

/* A CPU that runs on until the machine is stopped would change memory. */
static void wait_for_stop(unsigned int index, void *data)
{
	for (int k = 0; k < 50000 && machine_runs(); k++)
		usleep(100);
}

static void translated_after(uint64_t id, struct qemu_plugin_tb *tb)
{
	qemu_plugin_register_vcpu_tb_exec_cb(tb, wait_for_stop, CB_NO_REGS, NULL);
}

static void all_stopped(uint64_t id)
{
	finish();
	if (!stops)
		return;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated_after);
	stop_machine();
}

void end_window(const char *reason)
{
	pthread_mutex_lock(&lock);
	if (!ending) {
		ending = true;
		why = reason;
		qemu_plugin_reset(own_id, all_stopped);
	}
	pthread_mutex_unlock(&lock);
}

void open_window(void)
{
	struct header header = {
		.magic = "PROTRACE", .version = 1,
		.record_size = sizeof(struct range),
		.start_time = nanoseconds(CLOCK_REALTIME),
		.flags = 1 | (slide_known ? 2 : 0), .slide = slide,
	};
	struct { char magic[8]; uint32_t version, size; } truth_header = {
		"PTTRUTH", 1, sizeof(struct executed)
	};

	pthread_mutex_lock(&lock);
	if (!is_open && !ending) {
		memcpy(header.build_id, build_id, sizeof(build_id));
		put(&out, &header, sizeof(header));
		if (truth.path)
			put(&truth, &truth_header, sizeof(truth_header));
		__atomic_store_n(&is_open, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
}
