// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who called: the frame records of the guest's stacks (AAPCS64, "The frame
 * pointer"), from the x29 that each CPU has.
 *
 * The plugin interface of QEMU 7.2 gives no registers. But the kernel sets x29
 * in few ways: a frame record is stored through sp and x29 becomes its address
 * (a prologue, and the entry from an exception), or x29 is loaded (an epilogue,
 * the return from an exception, cpu_switch_to), so the addresses of these
 * stores and what these loads read say what it is. Nothing has to be guessed
 * from calls and returns, which exceptions and switched tasks interrupt.
 */
#include "encodings.h"
#include "frames.h"
#include "memory.h"

enum { OWNERS = 1 << 18 };

/* Which code stored a frame record, by the record's address */
static struct owner {
	uint64_t frame, pc;
} owners[OWNERS];

static struct owner *owner_of(uint64_t frame)
{
	return &owners[(frame >> 4) * 0x9e3779b97f4a7c15ull >> 46];
}

bool is_add_x29_sp(uint32_t insn)
{
	return (insn & 0xff8003ff) == 0x910003fd;
}

/* Any other instruction that changes sp: ADD, SUB, AND with Rd 31 */
static bool may_change_sp(uint32_t insn)
{
	return rt(insn) == 31 && (insn & 0x1c000000) == 0x10000000;
}

static bool is_ldr_x29(uint32_t insn)
{
	return rt(insn) == 29 && ((insn & 0xffc00000) == 0xf9400000 ||
				  (insn & 0xffe00000) == 0xf8400000 ||
				  (insn & 0xffe00c00) == 0xf8600800);
}

int find_push(const uint32_t *insns, int add)
{
	uint32_t imm = insns[add] >> 10 & 0xfff;

	for (int k = add; k--;) {
		uint32_t insn = insns[k], mode = insn >> 23 & 3;

		if (is_pair(insn) && rn(insn) == 31) {
			if (!loads(insn) && ((mode == 3 && !imm) ||
			    (mode == 2 && 8 * (insn >> 15 & 127) == imm)))
				return k;
			if (mode != 2)
				return -1;
		}
		if (may_change_sp(insn))
			return -1;
	}
	return -1;
}

unsigned int use_of(uint32_t insn)
{
	if (is_ldr_x29(insn))
		return LOAD_FIRST | LOAD_SECOND;
	if (is_pair(insn) && loads(insn))
		return rt(insn) == 29 ? LOAD_FIRST : rt2(insn) == 29 ? LOAD_SECOND : 0;
	if (is_pair(insn) && rt(insn) == 29 && rn(insn) == 31)
		return PUSH_PART;
	return 0;
}

/*
 * Whether this is the first access of a pair: QEMU 7.2 makes two of 8 bytes,
 * later ones make one of 16.
 */
static bool first_half(struct cpu *cpu, uint64_t pc, uint64_t vaddr)
{
	if (cpu->pair_pc == pc && cpu->pair_vaddr + 8 == vaddr) {
		cpu->pair_pc = 0;
		return false;
	}
	cpu->pair_pc = pc;
	cpu->pair_vaddr = vaddr;
	return true;
}

void pushed(struct cpu *cpu, uint64_t pc, uint64_t vaddr, bool whole)
{
	struct owner *owner;

	if (!first_half(cpu, pc, vaddr))
		return;
	owner = owner_of(vaddr);
	owner->frame = vaddr;
	owner->pc = pc;
	if (whole) {
		cpu->x29 = vaddr;
	} else {
		cpu->pushed_pc = pc;
		cpu->pushed = vaddr;
	}
}

/* What x29 becomes by a load */
void loaded(struct cpu *cpu, uint64_t pc, uint64_t vaddr, uint64_t paddr,
		   unsigned int use, unsigned int shift)
{
	if (shift == 4)
		paddr += use & LOAD_SECOND ? 8 : 0;
	else if (use != (LOAD_FIRST | LOAD_SECOND) &&
		 first_half(cpu, pc, vaddr) != !!(use & LOAD_FIRST))
		return;
	cpu->x29 = in_ram(paddr, 8) ? read64(paddr) : 0;
}

/* ADD x29, sp, #imm whose STP is in an earlier block */
void set_x29(unsigned int index, void *data)
{
	struct cpu *cpu = &cpus[index];
	uint64_t pc = (uint64_t)data;

	cpu->x29 = pc - cpu->pushed_pc <= 64 ? cpu->pushed : 0;
}

/* Data processing that writes x29: assembly that uses it for something else */
bool changes_x29(uint32_t insn)
{
	return rt(insn) == 29 && !is_add_x29_sp(insn) && ((insn & 0x1c000000) == 0x10000000 ||
		(insn & 0x0e000000) == 0x0a000000);
}

/* x29 became something else, by an instruction that is no load */
void forget_x29(unsigned int index, void *data)
{
	cpus[index].x29 = 0;
}

/*
 * The function that a BL before a return address calls, 0 if there is no BL:
 * for a frame record whose owner was forgotten, since another record has its
 * place in the table.
 */
static uint64_t called_from(uint64_t return_address)
{
	uint32_t insn;

	if (!read_guest(return_address - 4, &insn, 4) || (insn & 0xfc000000) != 0x94000000)
		return 0;
	return return_address - 4 + ((int64_t)((uint64_t)insn << 38) >> 36);
}

/*
 * The function graph tracer has put its return_to_handler where a return address
 * was: the code that stored the caller's frame record is in the same function.
 */
static uint64_t under_graph(uint64_t return_address, uint64_t frame)
{
	struct owner *owner = owner_of(frame);

	if (!options.graph || return_address != image_vaddr + options.graph ||
	    owner->frame != frame || !owner->pc)
		return return_address;
	return owner->pc;
}

/*
 * Return addresses, and where the frame records are; how many. The first is the
 * code that stored the first record, which is the caller where the function at
 * pc has no record of its own. A pointer that is signed (PAC) is stripped.
 */
int chain(struct cpu *cpu, uint64_t *callers, uint64_t *frames, bool *whole)
{
	uint64_t frame = cpu->x29, record[2];
	struct owner *owner = owner_of(frame);
	int n = 0;

	*whole = false;
	if (!frame)
		return 0;
	frames[n] = frame;
	callers[n++] = owner->frame == frame ? owner->pc : 0;
	while (n < CALLERS) {
		if (frame % 8 || !read_guest(frame, record, sizeof(record)))
			return n;
		if (!record[1]) {	/* the end of every stack */
			*whole = !record[0];
			return n;
		}
		if (record[1] >> 55 & 1)
			record[1] |= 0xff80000000000000ull | (va_bits ? ~0ull << va_bits : 0);
		if (n == 1 && !callers[0])
			callers[0] = called_from(record[1]);
		frame = record[0];
		frames[n] = frame;
		callers[n++] = under_graph(record[1], frame);
		if (!frame) {
			*whole = true;
			return n;
		}
	}
	return n;
}
