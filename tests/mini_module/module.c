// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module that is never loaded: functions in .text, .init.text and .exit.text that call each other, and pointers
 * to them, so that every kind of relocation that a real module has to its own functions is there.
 */
#define noinline __attribute__((noinline))
#define section(name) __attribute__((section(name), used))

int outside(int a);	/* some other module's */

noinline int module_leaf(int a)
{
	return a * 3;
}

noinline int module_middle(int a)
{
	return module_leaf(a) + outside(a);
}

static noinline int module_local(int a)	/* its address is never taken */
{
	return a + 1;
}

noinline int module_caller(int a)
{
	return module_local(a) - module_middle(a);
}

int (*module_table[])(int) = { module_leaf, module_middle };

section(".init.text") int init_module(void)
{
	return module_caller(1) != 0;
}

section(".exit.text") void cleanup_module(void)
{
	module_table[0](2);
}

section(".modinfo") static const char vermagic[] = "vermagic=" MINI_RELEASE " SMP mod_unload aarch64";
