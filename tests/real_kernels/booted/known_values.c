// SPDX-License-Identifier: GPL-2.0
/*
 * A module whose functions are called with known arguments at each write to /proc/known_values.
 *
 * Comments say what test_probe_module.py asks for, and what comes out:
 *	// PROBE PLACE
 *	// ARGUMENT = VALUE; ARGUMENT ! REASON; ...
 * An argument has that value (a glob, in the kernel's own text; of two registers both), or cannot be had for that reason.
 * ARGUMENT ~ VALUE: or the compiler does not say where it is. Variables do not change: wherever they can be had, this is
 * their value.
 */
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/uaccess.h>
#include <linux/proc_fs.h>

#define PROBED(type, name, ...) type name(__VA_ARGS__); noinline __used type name(__VA_ARGS__)
/* An instruction before which all memory may be read, so that nothing that is passed can be left out. */
#define SEE(value) __asm__ volatile("nop" : : "r"(value) : "memory")
#define SEE_MEMORY(object) __asm__ volatile("nop" : : "m"(object) : "memory")
/* A number of which the compiler does not know that it is known. */
#define HIDDEN(type, number) ({ type hidden_ = (number); __asm__ volatile("" : "+r"(hidden_)); hidden_; })

enum colour { RED, GREEN = 7, BLUE = 0x80000000 };
enum level { LOW = -3, HIGH = 3 };
enum shade { PALE, DARK = 40 };

struct point { s16 x; u16 y; };			/* 4 bytes */
struct triple { u8 a, b, c; };			/* 3 bytes: one register, of which 5 bytes are undefined */
struct three { u32 a, b, c; };			/* 12 bytes: two registers */
struct pair { s64 first; u32 second; u8 third[4]; };	/* 16 bytes: two registers */
struct mixed { u64 whole; u32 first : 5, second : 9; u32 third : 20, : 3, fourth : 9; };	/* 16 bytes */
struct large { u64 a, b, c; };			/* by reference */
struct flags { u8 low : 3, high : 5; u16 : 4; u16 mid : 9; s32 sign : 12; u32 rest : 20; };	/* 8 bytes */

struct __packed tight { u8 head; u32 odd; u64 across : 40; u64 over : 37; u16 end; };

struct inner {
	struct point corner;
	union {
		u32 word;
		u8 bytes[4];
		struct { u16 lower, upper; };
	};
	const char *label;
};

struct outer {
	u8 first;
	bool on : 1;
	bool off : 1;
	enum shade shade : 6;
	enum level level;
	u64 wide : 50;
	s64 small : 10;
	u32 a : 1, b : 15, c : 16;
	struct inner inner;
	struct inner *link;
	struct inner **links;
	struct {
		int deep;
		struct { char deeper; signed char negative; };
	};
	union { long as_long; void *as_pointer; } named;
	struct point points[3];
	const struct point (*table)[2];
	s32 grid[2][3];
	char text[16];
	u64 many[70];
	int (*call)(long, u8);
	volatile const u16 *const constant;
	__int128 huge;
	atomic_t count;
	u32 length;
	struct point tail[];
};

struct named_tail { u32 length; char name[]; };

typedef struct outer *outer_t;
typedef u16 shorts_t[3];

static u32 sink;

// PROBE numbers
// a = -128; b = 200; c = -32768; d = 65000; e = -2147483648; f = 4000000000; g = -9223372036854775807
// h = 18446744073709551615; a:x8 = 0x80; b:s8 = -56; c:u16 = 32768; d:x16 = 0xfde8; e:x32 = 0x80000000
// f:s32 = -294967296; g:x64 = 0x8000000000000001; h:s64 = -1; %x1:u8 = 200; $arg4:u16 ! give %x3; $arg9 ! reads 0
PROBED(void, numbers, s8 a, u8 b, s16 c, u16 d, s32 e, u32 f, s64 g, u64 h)
{
	SEE(a); SEE(b); SEE(c); SEE(d); SEE(e); SEE(f); SEE(g); SEE(h);
}

// PROBE kinds
// yes ~ 1; letter = 65; negative = -65; byte = 191; colour = 2147483648; level = -3; size = -5
// pointer = 0xff*
PROBED(void, kinds, bool yes, char letter, signed char negative, unsigned char byte, enum colour colour,
       enum level level, long size, void *pointer)
{
	SEE(yes); SEE(letter); SEE(negative); SEE(byte); SEE(colour); SEE(level); SEE(size); SEE(pointer);
}

// PROBE stacked
// a1 = 1; a2 = 2; a3 = 3; a4 = 4; a5 = 5; a6 = 6; a7 = 7; a8 = 8; s9 ~ -9; u10 ~ 65526; s11 = -11
// u12 = 4294967284; yes ~ 1; point ~ 0xefff2; last = 0xff*; last:string = "on the stack"; point.x ~ -14
// point.y ~ 14; last[3] = 116; +8(%sp):u16 = 65526
PROBED(u64, stacked, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5, u64 a6, u64 a7, u64 a8, s8 s9, u16 u10, s32 s11, u32 u12,
       bool yes, struct point point, const char *last)
{
	SEE(s9); SEE(u10); SEE(s11); SEE(u12); SEE(yes); SEE(point.x); SEE(point.y); SEE(last);
	return a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8;
}

// PROBE structs
// point ~ 0x2fffe; triple ~ 3351057; flags ~ *; three ~ 0xc0000000b 0xd; pair ~ 0xffffffffffffffeb 0x403020100000016
// point.x ~ -2; point.y ~ 2; triple.a ~ 17; triple.b ~ 34; triple.c ~ 51; three.a ~ 11; three.b ~ 12; three.c ~ 13
// pair.first ~ -21; pair.second ~ 22; pair.third[0] ~ 1; pair.third[3] ~ 4; pair.third ~ *
// flags.low ~ 5; flags.high ~ 30; flags.mid ~ 300; flags.sign ~ 3996; flags.rest ~ 1000000
PROBED(void, structs, struct point point, struct triple triple, struct flags flags, struct three three,
       struct pair pair)
{
	SEE(point.x); SEE(point.y); SEE(triple.a); SEE(triple.b); SEE(triple.c); SEE(three.a); SEE(three.b); SEE(three.c);
	SEE(pair.first); SEE(pair.second); SEE(pair.third[0]); SEE(pair.third[3]);
	SEE(flags.low); SEE(flags.high); SEE(flags.mid); SEE(flags.sign); SEE(flags.rest);
}

// PROBE in_memory
// triple ! has made no room for it yet; three.c ! has made no room for it yet; after = 44
// PROBE in_memory;SEE(after);*room*
// triple = {0x11,0x22,0x33}; triple.b = 34; three = {0xb,0xc,0xd}; three.c = 13; pair.first ~ -21; pair.third ~ {1,2,3,4}
PROBED(void, in_memory, struct triple triple, struct three three, struct pair pair, int after)
{
	SEE_MEMORY(triple); SEE_MEMORY(three); SEE_MEMORY(pair);
	SEE(after); /* there is room */
	SEE_MEMORY(triple); SEE_MEMORY(three); SEE_MEMORY(pair);
}

// PROBE mixed
// m ~ *; m.whole ~ 1311768467294899695; m.first ~ 21; m.second ~ 341; m.third ~ 999999; m.fourth ~ 300; by_bits.high ~ 30
PROBED(void, mixed, struct mixed m, struct flags by_bits)
{
	SEE(m.whole); SEE(m.first); SEE(m.second); SEE(m.third); SEE(m.fourth); SEE(by_bits.high);
}

// PROBE spilled
// a = 1; b = 2; c = 3; d = 4; e = 5; f = 6; g = 7; pair ~ {0xffffffffffffffeb,0x403020100000016}; h = 8
// pair.first ~ -21; pair.second ~ 22; pair.third ~ {1,2,3,4}; pair.third[1] ~ 2
PROBED(u64, spilled, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, struct pair pair, u64 h)
{
	SEE_MEMORY(pair); SEE(h);
	return a + b + c + d + e + f + g;
}

// PROBE by_reference
// large = {0xa1,0xb2,0xc3}; large.b = 178; after = 44
PROBED(void, by_reference, struct large large, int after)
{
	SEE_MEMORY(large); SEE(after);
}

// PROBE huge
// before = 1; value ! events cannot show; after = 3
PROBED(void, huge, int before, __int128 value, int after)
{
	SEE(before); SEE_MEMORY(value); SEE(after);
}

// PROBE members
// o->first = 11; o->on = 1; o->off = 0; o->shade = 40; o->level = -3; o->wide = 1125899906842623; o->small = 1004
// o->a = 1; o->b = 32767; o->c = 65535; o->inner = {0x785634120003ffff,0xff*}; o->inner.corner.x = -1
// o->inner.corner = 0x3ffff; o->inner.word = 2018915346; o->inner.bytes = {18,52,86,120}; o->inner.bytes[1] = 52
// o->inner.lower = 13330; o->inner.upper = 30806; o->inner.label = 0xff*; o->inner.label:string = "inner"
// o->inner.label[1] = 110; o->link->label:string = "linked"; o->link->corner.y = 400; o->links[1]->word = 3735928559
// o->links[1]->label:string = "second"; o->links[0]->bytes[3] = 4; o->deep = -77; o->deeper = 90; o->negative = -90
// PROBE members
// o->named.as_long = -1; o->named = 0xffffffffffffffff; o->points[2].x = -3; o->points[0].y = 1
// o->points[1] = 0x2fffe; o->table[0][1].y = 22; o->grid[1] = {10,11,12}; o->grid[1][2] = 12
// o->text:string = "in a struct"; o->text[2] = 32; o->call:symbol = returns_int+0x0/0x*; o->call = 0xff*
// o->constant = 0xff*; o->constant[0] = 16; o->count.counter = 42; o->length = 2; o->tail[1].x = -2
// o->tail[0] = 0x1ffff; o->tail ! name an element; o->huge ! events cannot show; o->nothing ! has no member nothing
// o->first->x ! is not a pointer; o->on.x ! a bit field has no members; o->inner->word ! is not a pointer
// o.first ! is a pointer; o->many[69] = 70; o->many[70] ! is beyond
// o->many = {1,2,3,0,*,0,0}
PROBED(long, members, outer_t o)
{
	SEE(o);
	return o->first;
}

// PROBE packed
// t->head = 1; t->odd = 3735928559; t->across = 1099511627774; t->over = 4886718345; t->end = 4660; t = 0xff*
PROBED(void, packed, const struct tight *t)
{
	SEE(t);
}

// PROBE pointers
// pp[0]->x = -5; pp[1]->y = 6; numbers[2] = -33; shorts = 0xff*; shorts[1] = 21; text:string = "a string"
// texts[1]:string = "two"; texts[0][2] = 101; any = 0xff*; f = 0xff*; f:symbol = returns_int+0x0/0x*; numbers[0] = -11
// any->x ! void has no member x; any[0] ! the size of void is not known; text->x ! has no member x
PROBED(void, pointers, struct point **pp, const s32 *numbers, shorts_t shorts, const char *text,
       const char *const *texts, void *any, int (*f)(long, u8))
{
	SEE(pp); SEE(numbers); SEE(shorts); SEE(text); SEE(texts); SEE(any); SEE(f);
}

// PROBE tailed
// tail->length = 6; tail->name:string = "flexed"; tail->name[1] = 108
PROBED(void, tailed, struct named_tail *tail)
{
	SEE(tail);
}

// PROBE from_user
// text:ustring = "ABCDname"; text:string@user = "ABCDname"; text->name:ustring = "name"
// text->length@user = 1145258561; length = 8; text->name[3]@user = 101
PROBED(void, from_user, const struct named_tail __user *text, size_t length)
{
	SEE(text); SEE(length);
}

// PROBE returns_s8%return
// $retval = -100
PROBED(s8, returns_s8, void) { return HIDDEN(s8, -100); }
// PROBE returns_u8%return
// $retval = 200
PROBED(u8, returns_u8, void) { return HIDDEN(u8, 200); }
// PROBE returns_s16%return
// $retval = -30000
PROBED(s16, returns_s16, void) { return HIDDEN(s16, -30000); }
// PROBE returns_u16%return
// $retval = 60000
PROBED(u16, returns_u16, void) { return HIDDEN(u16, 60000); }
// PROBE returns_int%return
// $retval = -7
PROBED(int, returns_int, long a, u8 b) { SEE(a); SEE(b); return HIDDEN(int, -7); }
// PROBE returns_u32%return
// $retval = 4294967289
PROBED(u32, returns_u32, void) { return HIDDEN(u32, -7); }
// PROBE returns_long%return
// $retval = -70000000000
PROBED(long, returns_long, void) { return HIDDEN(long, -70000000000); }
// PROBE returns_bool%return
// $retval = 1
PROBED(bool, returns_bool, void) { return HIDDEN(u8, 1); }
// PROBE returns_level%return
// $retval = -3
PROBED(enum level, returns_level, void) { return HIDDEN(enum level, LOW); }
// PROBE returns_text%return
// $retval = 0xff*; $retval:string = "returned"; $retval[1] = 101
PROBED(const char *, returns_text, void) { return HIDDEN(const char *, "returned"); }
// PROBE returns_inner%return
// $retval->word = 3735928559; $retval->corner.x = -8; $retval->label:string = "second"; inner ! at a return
PROBED(struct inner *, returns_inner, struct inner *inner) { SEE(inner); return HIDDEN(struct inner *, inner); }
// PROBE returns_point%return
// $retval = 0x2fffe; $retval.x = -2; $retval.y = 2
PROBED(struct point, returns_point, struct point *p) { SEE(p); return *p; }
// PROBE returns_triple%return
// $retval = 3351057; $retval.c = 51
PROBED(struct triple, returns_triple, struct triple *p) { SEE(p); return *p; }
// PROBE returns_three%return
// $retval = 0xc0000000b 0xd; $retval.b = 12; $retval.c = 13
PROBED(struct three, returns_three, struct three *p) { SEE(p); return *p; }
// PROBE returns_pair%return
// $retval = 0xffffffffffffffeb 0x403020100000016; $retval.first = -21; $retval.second = 22; $retval.third[3] = 4
PROBED(struct pair, returns_pair, struct pair *p) { SEE(p); return *p; }
// PROBE returns_large%return
// $retval ! is returned in memory; $retval.a ! is returned in memory
PROBED(struct large, returns_large, struct large *p) { SEE(p); return *p; }
// PROBE returns_huge%return
// $retval ! events cannot show
PROBED(__int128, returns_huge, int a) { SEE(a); return HIDDEN(u64, 5); }
// PROBE returns_nothing%return
// $retval ! returns nothing
PROBED(void, returns_nothing, int a) { SEE(a); }

static __always_inline u32 inlined(u32 doubled, const struct point *where)
{
	u32 tripled = doubled + doubled / 2;

	SEE(where->x);
	SEE(tripled);
	return tripled;
}

// PROBE locals;SEE(seed);*seen*
// seed = 21; array = {1,21,42}; array[1] = 21
// PROBE inlined;SEE(tripled)*
// doubled ~ 42; tripled ~ 63; where->y ~ 21
// PROBE locals;SEE(sum*
// sum ~ 77; here.x = -21; here.y = 21; array[2] = 42
PROBED(u32, locals, const u32 seed)
{
	const u32 twice = 2 * seed;
	u32 array[3] = { 1, seed, twice };
	struct point here = { -21, 21 };

	SEE_MEMORY(array);
	SEE(seed); /* seen */
	SEE_MEMORY(here);
	{
		const u32 sum = returns_int(twice, 3) + inlined(twice, &here) + seed;

		SEE(sum);
		SEE(array); SEE(&here); SEE(twice); SEE(seed);
		return sum;
	}
}

u32 known_global = 123456789;
struct pair known_pair = { -5, 6, { 7, 8, 9, 10 } };
static s16 known_static = -1234;
static const char known_text[] = "static text";
static const char *known_pointer = "pointed to";
static u32 kprobe_table = 99; /* the kernel has a variable of this name */
DEFINE_PER_CPU(int, known_per_cpu) = 5;
static u32 freed __initdata = 6;

// PROBE globals
// known_global ~ 123456789; known_pair.second ~ 6; known_pair.third[2] ~ 9; known_static ~ -1234
// known_text:string ~ "static text"; known_pointer:string ~ "pointed to"; local_static ~ 31; mine = 0xff*; mine[0] = 5
// known_per_cpu ! per-CPU; kprobe_table ~ 99; freed ! init data
PROBED(void, globals, int *mine)
{
	static u32 local_static = 31;

	SEE(mine); SEE(&local_static); SEE(&kprobe_table); SEE(&known_static); SEE(&known_text); SEE(&known_pointer);
}

/* The upper parts of registers and of stack slots are undefined by the ABI, and have something in them here. */
#define DIRTY(number, bits) HIDDEN(u64, (0xA5A5A5A5A5A5A5A5 << (bits)) | ((u64)(number) & ((1ULL << (bits)) - 1)))

static struct point a_point = { -2, 2 };
static struct triple a_triple = { 0x11, 0x22, 0x33 };
static struct three a_three = { 11, 12, 13 };
static struct pair a_pair = { -21, 22, { 1, 2, 3, 4 } };
static struct large a_large = { 0xa1, 0xb2, 0xc3 };
static struct inner linked = { { 4, 400 }, { 0x04030201 }, "linked" };
static struct inner second = { { -8, 8 }, { 0xdeadbeef }, "second" };
static struct inner *links[] = { &linked, &second };
static const struct point table[2] = { { 1, 11 }, { 2, 22 } };
static const u16 constant = 16;
static struct tight a_tight = { 1, 0xdeadbeef, 0xfffffffffe, 0x123456789, 0x1234 };
static struct named_tail a_tail = { .length = 6, .name = "flexed" };
static struct outer an_outer = {
	.first = 11, .on = 1, .shade = DARK, .level = LOW, .wide = (1ULL << 50) - 1, .small = -20,
	.a = 1, .b = 32767, .c = 65535,
	.inner = { { -1, 3 }, { 0x78563412 }, "inner" }, .link = &linked, .links = links,
	.deep = -77, .deeper = 'Z', .negative = -90, .named = { -1 },
	.points = { { -1, 1 }, { -2, 2 }, { -3, 3 } }, .table = &table,
	.grid = { { 1, 2, 3 }, { 10, 11, 12 } }, .text = "in a struct", .many = { 1, 2, 3, [69] = 70 },
	.call = returns_int, .constant = &constant, .count = ATOMIC_INIT(42), .length = 2,
	.tail = { { -1, 1 }, { -2, 2 } },
};

static void call_values(void)
{
	void (*wide)(u64, u64, u64, u64, u64, u64, u64, u64) = HIDDEN(void *, (void *)numbers);
	u64 (*wider)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, const char *) =
		HIDDEN(void *, (void *)stacked);
	void (*in_registers)(u64, u64, struct flags, struct three, struct pair) = HIDDEN(void *, (void *)structs);
	struct flags flags = { 5, 30, 300, -100, 1000000 };
	struct point *two[] = { &(struct point){ -5, 5 }, &(struct point){ -6, 6 } };
	u64 point_bits = 0x000efff2;

	wide(DIRTY(-128, 8), DIRTY(200, 8), DIRTY(-32768, 16), DIRTY(65000, 16), DIRTY(0x80000000, 32),
	     DIRTY(4000000000U, 32), -S64_MAX, U64_MAX);
	wide = HIDDEN(void *, (void *)kinds);
	wide(1, DIRTY('A', 8), DIRTY(-65, 8), DIRTY(191, 8), DIRTY(BLUE, 32), DIRTY(LOW, 32), -5, (u64)&sink);
	wider(1, 2, 3, 4, 5, 6, 7, 8, DIRTY(-9, 8), DIRTY(65526, 16), DIRTY(-11, 32), DIRTY(-12, 32), 1,
	      DIRTY(point_bits, 32), "on the stack");
	in_registers(DIRTY(0x2fffe, 32), DIRTY(0x332211, 24), flags, a_three, a_pair);
	mixed((struct mixed){ 0x1234567890abcdef, 21, 341, 999999, 300 }, flags);
	in_memory(a_triple, a_three, a_pair, 44);
	spilled(1, 2, 3, 4, 5, 6, 7, a_pair, 8);
	by_reference(a_large, 44);
	huge(1, -2, 3);
	members(&an_outer);
	packed(&a_tight);
	pointers(two, (s32[]){ -11, -22, -33 }, (shorts_t){ 11, 21, 31 }, "a string", (const char *[]){ "one", "two" },
		 &sink, returns_int);
	tailed(&a_tail);
	sink += returns_s8() + returns_u8() + returns_s16() + returns_u16() + returns_u32() + returns_long();
	sink += returns_bool() + returns_level() + returns_text()[0] + returns_inner(&second)->word;
	sink += returns_point(&a_point).x + returns_triple(&a_triple).a + returns_three(&a_three).a;
	sink += returns_pair(&a_pair).second + returns_large(&a_large).a + returns_huge(3);
	returns_nothing(1);
	sink += locals(21);
	globals(get_cpu_ptr(&known_per_cpu));
	put_cpu_ptr(&known_per_cpu);
}

static ssize_t written(struct file *file, const char __user *text, size_t length, loff_t *offset)
{
	call_values();
	from_user((const struct named_tail __user *)text, length);
	return length;
}

static const struct proc_ops operations = { .proc_write = written };

static int __init known_init(void)
{
	SEE(&freed);
	return proc_create("known_values", 0200, NULL, &operations) ? 0 : -ENOMEM;
}

static void __exit known_exit(void)
{
	remove_proc_entry("known_values", NULL);
}

module_init(known_init);
module_exit(known_exit);
MODULE_DESCRIPTION("Functions that are called with known arguments");
MODULE_LICENSE("GPL");
