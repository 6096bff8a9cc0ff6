// SPDX-License-Identifier: GPL-2.0-only
/* Writes the files of a recording. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "output.h"

void open_file(struct file *file)
{
	file->fd = open(file->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (file->fd < 0) {
		perror(file->path);
		_exit(1);
	}
}

void put(struct file *file, const void *data, size_t size)
{
	const char *from = data;

	pthread_mutex_lock(&file->lock);
	while (size) {
		ssize_t done = write(file->fd, from, size);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0) {
			perror(file->path);
			_exit(1);
		}
		from += done;
		size -= done;
	}
	pthread_mutex_unlock(&file->lock);
}

uint64_t nanoseconds(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}
