/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The files of a recording: docs/recordings.md describes them. Each CPU fills a
 * buffer of its own, and writes it out as one block.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {		/* flags of a range */
	GAP = 1, EXCEPTION = 2, RETURN = 4,
};

enum {		/* flags of an executed instruction */
	TRAPPED = 1, STALE = 2,
};

struct header {
	char magic[8];
	uint32_t version, record_size;
	uint64_t start_time;
	uint32_t flags, cpus;
	uint8_t build_id[20];
	uint32_t zero;
	uint64_t slide;
};

struct range {
	uint64_t time, start;
	uint32_t count;
	uint16_t cpu;
	uint8_t level, flags;
	int32_t vmid;
	uint32_t task;
};

struct executed {
	uint64_t vaddr;
	uint32_t word;
	uint16_t cpu;
	uint8_t level, flags;
};

struct file {
	const char *path;
	int fd;
	pthread_mutex_t lock;
};

/* These end the process if they fail. */
void open_file(struct file *file);
void put(struct file *file, const void *data, size_t size);

uint64_t nanoseconds(clockid_t clock);
