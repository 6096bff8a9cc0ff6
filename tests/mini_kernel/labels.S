/* SPDX-License-Identifier: GPL-2.0-only */
/* A jump label that is never flipped, and its entry as include/linux/jump_label.h lays it out (6.1). */
	.text
	.globl	label_user
	.type	label_user, %function
label_user:
	nop
	ret
label_target:
	ret
	.size	label_user, . - label_user
	.section __jump_table, "aw"
	.long	label_user - ., label_target - .
	.quad	0
