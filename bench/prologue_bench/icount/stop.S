/* SPDX-License-Identifier: GPL-2.0-only */
/* The init of a counted boot: its first instruction is where the counting stops. It powers the machine off. */
	.globl	_start
_start:
	mov	x8, #142			/* reboot(2) */
	movz	w0, #0xdead			/* LINUX_REBOOT_MAGIC1 */
	movk	w0, #0xfee1, lsl #16
	movz	w1, #0x1969			/* LINUX_REBOOT_MAGIC2 */
	movk	w1, #0x2812, lsl #16
	movz	w2, #0xfedc			/* LINUX_REBOOT_CMD_POWER_OFF */
	movk	w2, #0x4321, lsl #16
	svc	#0
	b	.
