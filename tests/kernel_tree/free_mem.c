// SPDX-License-Identifier: GPL-2.0
/*
 * Runs ftrace_free_mem() of a kernel source, which the build puts into
 * "free_mem.h", on random blocks of records, and prints what it did.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MCOUNT_INSN_SIZE 4
#define ROUNDS 3000
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define list_for_each_entry_safe(func, next, list, member) for (; (void)func, (void)next, false; )
#define LIST_HEAD(name) struct list_head name
#define INIT_LIST_HEAD(list) ((void)(list))
#define mutex_lock(lock)
#define mutex_unlock(lock)
#define synchronize_rcu()
#define kfree(p)

struct module;
struct list_head { int unused; };
struct dyn_ftrace { unsigned long ip, flags; };
struct ftrace_page { struct ftrace_page *next; struct dyn_ftrace *records; int index; };
struct ftrace_mod_map { int unused; };
struct ftrace_init_func { struct list_head list; };

static struct ftrace_page *ftrace_pages_start, *ftrace_pages;
static unsigned long ftrace_update_tot_cnt;
static int ftrace_list_end, *ftrace_ops_list;
static unsigned long cleared[4096], saved[4096];
static int n_cleared, n_saved, n_pages;

static void add_to_clear_hash_list(struct list_head *list, struct dyn_ftrace *rec)
{
	cleared[n_cleared++] = rec->ip;
}

static void clear_func_from_hashes(struct ftrace_init_func *func)
{
}

static void save_ftrace_mod_rec(struct ftrace_mod_map *map, struct dyn_ftrace *rec)
{
	saved[n_saved++] = rec->ip;
}

static struct ftrace_mod_map *allocate_ftrace_mod_map(struct module *mod, unsigned long start, unsigned long end)
{
	static struct ftrace_mod_map map;

	return &map;
}

static void ftrace_free_pages(struct ftrace_page *pages)
{
	for (; pages; pages = pages->next)
		n_pages++;
}

#include "free_mem.h"

static int compare(const void *a, const void *b)
{
	return *(unsigned long *)a < *(unsigned long *)b ? -1 : *(unsigned long *)a > *(unsigned long *)b;
}

static void print(const char *what, unsigned long *list, int n)
{
	qsort(list, n, sizeof(*list), compare);
	printf(" %s", what);
	for (int k = 0; k < n; k++)
		printf(" %lx", list[k]);
}

int main(void)
{
	static struct ftrace_page pages[8];
	static struct dyn_ftrace records[8][64];

	srand(1);
	for (int round = 0; round < ROUNDS; round++) {
		struct ftrace_page **link = &ftrace_pages_start;
		unsigned long ip = 0x1000, start, end;

		n_cleared = n_saved = n_pages = 0;
		ftrace_update_tot_cnt = 0;
		for (int p = rand() % 8; p >= 0; p--) {
			ftrace_pages = *link = &pages[p];
			pages[p] = (struct ftrace_page){ .records = records[p], .index = 1 + rand() % 64 };
			for (int k = 0; k < pages[p].index; k++) {
				ip += 4 * (1 + rand() % 5);
				records[p][k] = (struct dyn_ftrace){ ip, ip };
			}
			ftrace_update_tot_cnt += pages[p].index;
			link = &pages[p].next;
		}
		/* Also ranges that hold nothing, cut an instruction, or hold all. */
		start = 0xff0 + rand() % (ip - 0xfe0);
		end = start + rand() % (rand() % 2 ? 64 : ip + 32 - start);
		ftrace_ops_list = rand() % 2 ? &ftrace_list_end : NULL;
		ftrace_free_mem(rand() % 2 ? (void *)pages : NULL, (void *)start, (void *)end);

		printf("%lx-%lx total %lu pages freed %d", start, end, ftrace_update_tot_cnt, n_pages);
		print("cleared", cleared, n_cleared);
		print("saved", saved, n_saved);
		for (struct ftrace_page *page = ftrace_pages_start; page; page = page->next) {
			printf(" %s", page == ftrace_pages ? "last" : "page");
			for (int k = 0; k < page->index; k++)
				printf(" %lx/%lx", page->records[k].ip, page->records[k].flags);
		}
		printf("\n");
	}
	return 0;
}
