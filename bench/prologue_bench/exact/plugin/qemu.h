/* SPDX-License-Identifier: GPL-2.0-only */
/* What all plugins need: QEMU's plugin interface. */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The part of QEMU's plugin interface that is used here, declared by us since
 * distributions ship no header for it. QEMU refuses a plugin whose
 * qemu_plugin_version it does not support, and within a version the interface
 * does not change. All of this is the same in versions 1 to 5, if the version
 * is the only difference: inline counters and the instruction's bytes are not,
 * so they are not used.
 */
#ifndef PLUGIN_API
#define PLUGIN_API 1
#endif
#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

enum { CB_NO_REGS = 0 };	/* enum qemu_plugin_cb_flags */
enum { MEM_W = 2, MEM_RW = 3 };	/* enum qemu_plugin_mem_rw */

typedef void (*simple_cb)(uint64_t id);
typedef void (*tb_cb)(uint64_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_cb)(unsigned int cpu, void *data);
typedef void (*mem_cb)(unsigned int cpu, uint32_t info, uint64_t vaddr, void *data);
typedef void (*exit_cb)(uint64_t id, void *data);

void qemu_plugin_reset(uint64_t id, simple_cb cb);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, tb_cb cb);
void qemu_plugin_register_atexit_cb(uint64_t id, exit_cb cb, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);	/* version 1 */
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb cb,
					  int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    exec_cb cb, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb,
				      int flags, int rw, void *data);
unsigned int qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *where);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *where);

extern EXPORT int qemu_plugin_version;	/* each plugin defines it, as PLUGIN_API */
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);
