// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the flat Image in the file guest as a KVM guest with one CPU and 64 MiB,
 * and prints what it writes to its PL011. No library: the numbers are those of
 * include/uapi/linux/kvm.h and arch/arm64/include/uapi/asm/kvm.h.
 */
#include <stdint.h>

#define __NR_openat 56
#define __NR_read 63
#define __NR_write 64
#define __NR_ioctl 29
#define __NR_exit 93
#define __NR_mmap 222

#define KVM_CREATE_VM			0xae01
#define KVM_GET_VCPU_MMAP_SIZE		0xae04
#define KVM_CREATE_VCPU			0xae41
#define KVM_SET_USER_MEMORY_REGION	0x4020ae46
#define KVM_RUN				0xae80
#define KVM_SET_ONE_REG			0x4010aeac
#define KVM_ARM_VCPU_INIT		0x4020aeae
#define KVM_ARM_PREFERRED_TARGET	0x8020aeaf
#define KVM_EXIT_MMIO			6
#define KVM_EXIT_SYSTEM_EVENT		24
#define KVM_ARM_VCPU_PSCI_0_2		2
#define PC				0x6030000000100040

#define RAM	0x40000000ul
#define IMAGE	0x40200000ul
#define SIZE	(64ul << 20)

struct memory { uint32_t slot, flags; uint64_t guest, size, user; };
struct vcpu_init { uint32_t target, features[7]; };
struct one_reg { uint64_t id, address; };
struct run {
	uint8_t request[8];
	uint32_t exit_reason, ready;
	uint64_t padding[2];
	struct { uint64_t address; uint8_t data[8]; uint32_t size; uint8_t write; } mmio;
};

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0") = a;
	register long x1 asm("x1") = b;
	register long x2 asm("x2") = c;
	register long x3 asm("x3") = d;
	register long x4 asm("x4") = e;
	register long x5 asm("x5") = f;

	asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}

static long must(long result, char what)
{
	char text[] = "kvm: ? failed\n";

	text[5] = what;
	if (result < 0) {
		call(__NR_write, 1, (long)text, sizeof(text) - 1, 0, 0, 0);
		call(__NR_exit, 1, 0, 0, 0, 0, 0);
	}
	return result;
}

static long map(long size, long file)
{
	return must(call(__NR_mmap, 0, size, 3, file < 0 ? 0x22 : 1, file, 0), 'm');
}

void _start(void)
{
	long kvm = must(call(__NR_openat, -100, (long)"/dev/kvm", 2, 0, 0, 0), 'k');
	long file = must(call(__NR_openat, -100, (long)"guest", 0, 0, 0, 0), 'g');
	long vm = must(call(__NR_ioctl, kvm, KVM_CREATE_VM, 0, 0, 0, 0), 'v');
	char *ram = (char *)map(SIZE, -1), *to = ram + IMAGE - RAM;
	struct memory memory = { 0, 0, RAM, SIZE, (uint64_t)ram };
	struct vcpu_init init = { 0 };
	uint64_t pc = IMAGE;
	struct one_reg reg = { PC, (uint64_t)&pc };
	struct run *run;
	long vcpu, got;

	while ((got = call(__NR_read, file, (long)to, 1 << 20, 0, 0, 0)) > 0)
		to += got;
	must(call(__NR_ioctl, vm, KVM_SET_USER_MEMORY_REGION, (long)&memory, 0, 0, 0), 'r');
	vcpu = must(call(__NR_ioctl, vm, KVM_CREATE_VCPU, 0, 0, 0, 0), 'c');
	must(call(__NR_ioctl, vm, KVM_ARM_PREFERRED_TARGET, (long)&init, 0, 0, 0), 't');
	init.features[0] |= 1 << KVM_ARM_VCPU_PSCI_0_2;
	must(call(__NR_ioctl, vcpu, KVM_ARM_VCPU_INIT, (long)&init, 0, 0, 0), 'i');
	must(call(__NR_ioctl, vcpu, KVM_SET_ONE_REG, (long)&reg, 0, 0, 0), 'p');
	run = (struct run *)map(call(__NR_ioctl, kvm, KVM_GET_VCPU_MMAP_SIZE, 0, 0, 0, 0), vcpu);
	for (;;) {
		must(call(__NR_ioctl, vcpu, KVM_RUN, 0, 0, 0, 0), 'x');
		if (run->exit_reason == KVM_EXIT_SYSTEM_EVENT)
			call(__NR_exit, 0, 0, 0, 0, 0, 0);
		if (run->exit_reason != KVM_EXIT_MMIO)
			must(-1, 'e');
		if (run->mmio.write)
			call(__NR_write, 1, (long)run->mmio.data, 1, 0, 0, 0);
	}
}
