// SPDX-License-Identifier: GPL-2.0-only
/* Calls QEMU's own functions. */
#include <dlfcn.h>
#include <string.h>

#include "inside.h"

/* glib's; only its beginning is public */
struct bytes {
	uint8_t *data;
	unsigned int size;
};

static struct {
	void *(*get_cpu)(int index);
	int (*read_register)(void *cpu, struct bytes *to, int number);
	int (*memory)(void *cpu, uint64_t vaddr, void *data, uint64_t size, bool is_write);
	struct bytes *(*new_bytes)(void);
	struct bytes *(*set_size)(struct bytes *bytes, unsigned int size);
	int (*stop)(int state);
	bool (*is_running)(void);
} inside;

enum { RUN_STATE_PAUSED = 4 };	/* qapi/run-state.json */

const char *look_inside(void)
{
	const struct {
		const char *name;
		void *where;
	} wanted[] = {
		{ "qemu_get_cpu", &inside.get_cpu },
		{ "aarch64_cpu_gdb_read_register", &inside.read_register },
		{ "cpu_memory_rw_debug", &inside.memory },
		{ "g_byte_array_new", &inside.new_bytes },
		{ "g_byte_array_set_size", &inside.set_size },
		{ "vm_stop", &inside.stop },
		{ "runstate_is_running", &inside.is_running },
		{ "current_cpu", NULL },
	};

	for (size_t k = 0; k < sizeof(wanted) / sizeof(wanted[0]); k++) {
		void *found = dlsym(RTLD_DEFAULT, wanted[k].name);

		if (!found)
			return wanted[k].name;
		if (wanted[k].where)
			memcpy(wanted[k].where, &found, sizeof(found));
	}
	return NULL;
}

void *cpu_of(int index)
{
	return inside.get_cpu(index);
}

void *own_cpu(void)
{
	static __thread void **current;

	if (!current)
		current = dlsym(RTLD_DEFAULT, "current_cpu");
	return *current;
}

uint64_t read_register(void *cpu, unsigned int number)
{
	static __thread struct bytes *bytes;
	uint64_t value = 0;

	if (number == REGISTER_ZR)
		return 0;
	if (!bytes)
		bytes = inside.new_bytes();
	inside.set_size(bytes, 0);
	inside.read_register(cpu, bytes, number);
	memcpy(&value, bytes->data, bytes->size < 8 ? bytes->size : 8);
	return value;
}

unsigned int current_level(void *cpu)
{
	return read_register(cpu, REGISTER_CPSR) >> 2 & 3;
}

bool read_memory(void *cpu, uint64_t vaddr, void *data, uint64_t size)
{
	return !inside.memory(cpu, vaddr, data, size, false);
}

void stop_machine(void)
{
	inside.stop(RUN_STATE_PAUSED);
}

bool machine_runs(void)
{
	return inside.is_running();
}
