// SPDX-License-Identifier: GPL-2.0-only
/*
 * An init that powers the machine off at once. Linked at a fixed address, so
 * that a plugin that watches the guest from outside knows user space by its _start.
 */
	.globl	_start
_start:
	movz	w0, #0xdead		// LINUX_REBOOT_MAGIC1
	movk	w0, #0xfee1, lsl #16
	movz	w1, #0x1969		// LINUX_REBOOT_MAGIC2
	movk	w1, #0x2812, lsl #16
	movz	w2, #0xfedc		// LINUX_REBOOT_CMD_POWER_OFF
	movk	w2, #0x4321, lsl #16
	mov	x3, #0
	mov	x8, #142		// reboot
	svc	#0
	b	.
