// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records every store that an arm64 kernel makes to its text, from reset to
 * power-off, on any number of CPUs, through whatever alias. From bottom to top: memory.h
 * and pages.h are the guest's memory and the copy of its text; modules.h says whose
 * it is, frames.h who called, first_runs.h how CPUs came to execute it; tables.h
 * follows what is text, maintenance.h and rows.h are what is recorded, flush.h what
 * a DC or an IC was for; places.h and watching.h watch instructions.
 *
 * -plugin libwrites.so,NAME=VALUE,... with numbers in hex; offsets are from the
 * start of the Image:
 *
 *   load=PHYS ram=SIZE size=SIZE    where the Image lies, of what size
 *   page=BITS                       12, 14 or 16
 *   text=OFFSET:END                 executable sections; repeated
 *   root=OFFSET modules=OFFSET      swapper_pg_dir; modules (0: unknown)
 *   stext=OFFSET                    _stext: before it is nothing but the header
 *   ctr=OFFSET                      where the kernel has CTR_EL0 (0: unknown)
 *   stop=OFFSET:END                 multi_cpu_stop
 *   graph=OFFSET                    return_to_handler (0: none)
 *   freed=OFFSET init=OFFSET:END    free_initmem, and the memory it gives away
 *   writer=OFFSET:END               functions that write and flush; repeated
 *   vectors=OFFSET:END              vector tables, 16 entries of 128 bytes each;
 *                                   repeated
 *   rows=PATH out=PATH              struct row each; one object of JSON at exit
 *   ns=1                            times are ns of CLOCK_MONOTONIC, as those of
 *                                   record.c, and not instructions
 *
 * What is not seen: stores of one instruction that QEMU does in a helper (DC
 * ZVA), devices. Every page of text is compared at the end with what the stores
 * made of it, so such a write is known by its words if the page is still text.
 */
#include "allocate.h"
#include "first_runs.h"
#include "flush.h"
#include "inside.h"
#include "modules.h"
#include "rows.h"
#include "tables.h"
#include "watching.h"

int qemu_plugin_version = PLUGIN_API;

/* Words of text that are not what the stores made of them */
static uint64_t count_unseen(uint64_t *first)
{
	uint64_t count = 0;

	for (uint64_t page = 0; ram && page < options.ram >> options.page_shift; page++) {
		struct text_page *text = text_page(page);

		for (uint64_t k = 0; text && k < page_size() / 4; k++) {
			uint64_t at = (page << options.page_shift) + 4 * k;

			if (memcmp(&text->copy[k], ram + at, 4) && !count++)
				*first = RAM_BASE + at;
		}
	}
	return count;
}

static void at_exit(uint64_t id, void *data)
{
	FILE *out;
	uint64_t unseen, first = 0, running = 0;

	pthread_mutex_lock(&lock);
	for (int k = 0; k < MAX_CPUS; k++)
		settle(k, NULL);
	close_rows();
	for (uint64_t page = 0; page < options.ram >> options.page_shift; page++) {
		if (text_page(page))
			end_watches(text_page(page));
	}
	write_outcomes(options.rows);
	unseen = count_unseen(&first);
	for (int k = 0; k < MAX_CPUS; k++)
		running |= (uint64_t)cpus[k].running << k;
	/* Last: that it is there says that the rows are whole */
	out = fopen(options.out, "w");
	if (!out)
		give_up(options.out);
	fprintf(out, "{\"rows\": %" PRIu64 ", \"not_returned\": %" PRIu64
		", \"unseen\": %" PRIu64 ", \"unseen_at\": %" PRIu64
		", \"executed_elsewhere\": %" PRIu64
		", \"image_vaddr\": %" PRIu64 ", \"va_bits\": %u, \"running\": %"
		PRIu64 ", \"instructions\": %" PRIu64 ", \"ctr\": %" PRIu64
		", \"registers\": %s, \"unaddressed\": %" PRIu64,
		row_count, not_returned, unseen, first,
		executed_elsewhere, image_vaddr, va_bits, running,
		instructions(), ctr_el0(), registers_known ? "true" : "false",
		unaddressed);
	print_regions(out);
	fprintf(out, "}\n");
	if (fclose(out))
		give_up(options.out);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	if (read_options(argc, argv))
		return -1;
	make_pages();
	open_rows_file();
	registers_known = !look_inside();
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
