"""Variables at an instruction, as compilers describe them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from prologue.dwarf.debug_info import open_debug
from prologue.dwarf.dwarf_entries import readable_dwarf
from prologue.elf.image import ElfImage
from prologue.errors import InputError
from prologue.probe.arguments import find_arguments
from prologue.probe.language import parse_argument
from prologue.probe.scopes import Scope
from prologue.probe.storage import ADDRESS_ONLY, ENTRY_ONLY, LEFT, NO_FRAME
from tests.mini_kernel.build import run_command
from tests.probe.made_kernel import TEXT, TOOLS, make, symbol_of
from tests.support.needs import needs_tools

_SOURCE = """
enum kind { FIRST, LAST };
struct pair { long one, two, three; };
long traced(const char *name, int count, unsigned short flags, enum kind kind, struct pair by_value, _Bool on)
{
	long sum = by_value.two;
	while (*name++)
		sum += count * flags + kind + on;
	return sum;
}

struct two { long first; unsigned second; unsigned char third[4]; };
void of_two(struct two two)
{
	__asm__ volatile("nop" :: "r"(two.second));
	__asm__ volatile("nop" :: "r"(two.third[3]));
}

__attribute__((cold, noinline)) void complain(long error)
{
	__asm__ volatile("" :: "r"(error));
}

long in_two_parts(long first, long second)
{
	if (first > second) {
		complain(second);
		return second / first;
	}
	return first;
}

static inline int has_bit(unsigned int code, unsigned long *bits, unsigned int most)
{
	return code <= most && bits[0] >> code & 1;
}

struct pair numbers = { 1, 2, 3 };
char word[] = "text";
static inline long second_of(struct pair *pair, const char *text)
{
	__asm__ volatile("" :: "r"(pair->two));
	return pair->two + text[0];
}

long constant_pointers(void)
{
	return second_of(&numbers, word);
}

void slow(unsigned long *bits, unsigned int type, unsigned int code, int value);
void with_inlined(unsigned long *bits, unsigned int type, unsigned int code, int value)
{
	if (has_bit(type, bits, 31)) {
		complain(value);
		slow(bits, type, code, value);
	}
}

__attribute__((noinline)) void slow(unsigned long *bits, unsigned int type, unsigned int code, int value)
{
	__asm__ volatile("" :: "r"(bits), "r"(type), "r"(code), "r"(value));
}
"""


class NoData:
    """A file without variables outside of functions."""

    module = ""

    def symbol_at(self, vaddr: int) -> str:
        return ""

    def address_of(self, name: str) -> int | None:
        return None

    def knows(self, name: str) -> bool:
        return False

    def read_refusal(self, vaddr: int) -> str:
        return ""


class Everything(NoData):
    """A file with a variable of every name."""

    def symbol_at(self, vaddr: int) -> str:
        return "any"

    def address_of(self, name: str) -> int | None:
        return TEXT


class Somewhere(NoData):
    """A file whose symbols are not where its variables are."""

    def symbol_at(self, vaddr: int) -> str:
        return "any+16"


NO_DATA = NoData()


def arguments_at(
    path: Path, vaddr: int, *asked: str, data: NoData = NO_DATA
) -> tuple[list[str], dict[str, str]] | None:
    """Arguments as the kernel reads them, and what cannot be had; None if nothing describes the place."""
    with readable_dwarf(path, "debug information"):
        debug = open_debug(ElfImage(path))
        found = debug.function_at(vaddr) if debug is not None else None
        if found is None:
            return None
        requests = tuple(map(parse_argument, asked)) or None
        arguments, omitted = find_arguments(requests, Scope(*found, vaddr), data)
        return [str(argument) for argument in arguments], {each.asked: each.reason for each in omitted}


def described(directory: Path, version: int, text: str = _SOURCE, *more: str) -> Path:
    """Compile and link a source, with debug information."""
    needs_tools(*TOOLS)
    source, made, out = (directory / name for name in ("some.c", "some.o", "some"))
    source.write_text(text)
    flags = ["-O2", "-freorder-blocks-and-partition", "-g", f"-gdwarf-{version}", "-fno-pie", "-ffreestanding", *more]
    run_command(["aarch64-linux-gnu-gcc", *flags, "-c", str(source), "-o", str(made)])
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-e", "traced", "-o", str(out), str(made)])
    return out


def by_clang(directory: Path, text: str, *flags: str) -> Path:
    """Compile and link a source, with debug information."""
    needs_tools("clang", *TOOLS)
    source, made, out = (directory / name for name in ("some.c", "some.o", "some"))
    source.write_text(text)
    options = ["--target=aarch64-linux-gnu", "-g", "-gdwarf-5", "-ffreestanding", *flags]
    run_command(["clang", *options, "-c", str(source), "-o", str(made)])
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-e", "0", "-o", str(out), str(made)])
    return out


@pytest.fixture(scope="module", params=[4, 5])
def out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source as GCC describes it in both versions of DWARF that kernels have."""
    return described(tmp_path_factory.mktemp("some"), request.param)


def test_an_inlined_function_has_a_variable_of_the_same_name(out: Path) -> None:
    """Its code begins at the function's first instruction; what the function itself calls so is meant."""
    function = symbol_of(out, "with_inlined")
    own = ["bits=%x0", "type=%x1:u32", "code=%x2:u32", "value=%x3:s32"]
    assert arguments_at(out, function.vaddr) == (own, {})
    assert arguments_at(out, function.vaddr, "code", "most") == ([own[2], "most=\\31:u32"], {})
    listed, _ = arguments_at(out, function.vaddr, "$vars") or ([], {})
    assert listed == [*own, "most=\\31:u32"]


def test_arguments_by_name(out: Path) -> None:
    """Of a function as a compiler describes it: all are in place at the first instruction, and not at the last."""
    function = symbol_of(out, "traced")
    assert arguments_at(out, function.vaddr) == ([
        "name=%x0", "count=%x1:s32", "flags=%x2:u16", "kind=%x3:u32", "by_value=+0(%x4):x64[3]", "on=%x5:u8",
    ], {})  # fmt: skip
    assert arguments_at(out, function.vaddr, "by_value.two", "name:string", "$retval", "nane") == (
        ["two=+8(%x4):s64", "name=+0(%x0):string"],
        {
            "$retval": "$retval is of a return: FUNC%return",
            "nane": "traced has no variable nane here: did you mean name?",
        },
    )
    end = function.vaddr + function.size - 4
    last = arguments_at(out, end)
    assert last is not None
    assert last[1]
    # A global variable of the same name is another one.
    assert arguments_at(out, end, data=Everything()) == last
    assert arguments_at(out, TEXT - 4) is None


def test_a_pointer_that_is_a_known_address_is_not_what_is_there(out: Path) -> None:
    """The address itself is in no register and in no memory: only what it points to can be had."""
    function = symbol_of(out, "constant_pointers")
    lines, reasons = set(), set()
    for vaddr in range(function.vaddr, function.vaddr + function.size, 4):
        at = arguments_at(out, vaddr, "pair", "pair->two", "text:string", "text[1]", data=Somewhere())
        assert at is not None
        lines |= set(at[0])
        reasons |= {(asked, reason) for asked, reason in at[1].items() if "no variable" not in reason}
    assert lines == {"two=@any+24:s64", "text=@any+16:string", "text_1=@any+17:u8"}
    assert ("pair", ADDRESS_ONLY) in reasons


@pytest.mark.parametrize("version", [4, 5])
def test_a_static_variable_of_which_there_are_several(tmp_path: Path, version: int) -> None:
    """The function's own unit says which is meant, not the kernel's symbols."""
    out = described(tmp_path, version, "static volatile short state; int traced(void) { return state; }")
    function, state = symbol_of(out, "traced"), symbol_of(out, "state")

    class Ambiguous(NoData):
        def symbol_at(self, vaddr: int) -> str:
            return f"_stext+{vaddr - TEXT}"

    lines, reasons = arguments_at(out, function.vaddr, "state", "stale", data=Ambiguous()) or ([], {})
    assert lines == [f"state=@_stext+{state.vaddr - TEXT}:s16"]
    assert reasons == {"stale": "traced has no variable stale here"}


def test_a_parameter_in_two_registers(out: Path) -> None:
    """GCC gives the registers for the whole function, in which it overwrites them."""
    function = symbol_of(out, "of_two")
    assert arguments_at(out, function.vaddr, "two") == (["two=%x0:x64", "two_8=%x1:x64"], {})
    assert arguments_at(out, function.vaddr + function.size - 4, "two") == ([], {"two": ENTRY_ONLY})


def test_a_function_that_returns_nothing(out: Path) -> None:
    """It is a mistake to ask for what it returns, and none to ask for nothing."""
    debug, function = open_debug(ElfImage(out)), symbol_of(out, "complain")
    found = debug.function_at(function.vaddr) if debug is not None else None
    assert found is not None
    scope = Scope(*found, function.vaddr)
    assert find_arguments(None, scope, NO_DATA, returns=True) == ((), ())
    arguments, omitted = find_arguments((parse_argument("$retval"),), scope, NO_DATA, returns=True)
    assert not arguments
    assert omitted[0].is_mistake


def test_arguments_by_name_from_clang(tmp_path: Path) -> None:
    """It makes no table of compilation units, and puts addresses into a table of their own."""
    out = by_clang(tmp_path, _SOURCE, "-O2")
    expected: tuple[list[str], dict[str, str]] = (["first=%x0:s64", "second=%x1:s64"], {})
    assert arguments_at(out, symbol_of(out, "in_two_parts").vaddr) == expected


_FRAMES = """
void sink(void *box) { __asm__ volatile("" :: "r"(box) : "memory"); }
long framed(long first, long second)
{
	long box[3];
	box[0] = first;
	sink(box);
	return box[1] + second;
}
enum level { LOW = -3, HIGH = 3 };
enum kind { FIRST, LAST };
void typed(enum level level, enum kind kind)
{
	static long counted;
	sink((void *)(counted += level + kind));
}
long ninth(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	long box[3] = { i, j };
	sink(box);
	return i + j + box[1];
}
long tenth(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j)
{
	return j;
}
int leaf(int first, int second)
{
	volatile int four[4];
	four[first & 3] = second;
	return four[1];
}
"""


def test_stack_variables_from_clang(tmp_path: Path) -> None:
    """They count from X29 or SP, which have their values only when the function has made its frame."""
    out = by_clang(tmp_path, _FRAMES, "-O1", "-fno-omit-frame-pointer", "-fno-inline")
    framed, leaf, typed, ninth, tenth = (symbol_of(out, n) for n in ("framed", "leaf", "typed", "ninth", "tenth"))
    assert arguments_at(out, framed.vaddr, "box") == ([], {"box": NO_FRAME})
    assert arguments_at(out, framed.vaddr + 20, "box[1]") == (["box_1=+16(%sp):s64"], {})
    assert arguments_at(out, framed.vaddr + framed.size - 4, "box[1]") == ([], {"box[1]": LEFT})
    assert arguments_at(out, leaf.vaddr, "four") == ([], {"four": NO_FRAME})
    assert arguments_at(out, leaf.vaddr + 4, "four[1]") == (["four_1=+4(%sp):s32"], {})
    assert arguments_at(out, leaf.vaddr + leaf.size - 8, "four[1]") == (["four_1=+4(%sp):s32"], {})
    assert arguments_at(out, leaf.vaddr + leaf.size - 4, "four[1]") == ([], {"four[1]": LEFT})
    # Of an enumeration it gives the type of its values, of a static variable an index of its address.
    expected: tuple[list[str], dict[str, str]] = (["level=%x0:s32", "kind=%x1:u32", "counted=@any:s64"], {})
    assert arguments_at(out, typed.vaddr, "level", "kind", "counted", data=Everything()) == expected
    # The caller has made room for these.
    assert arguments_at(out, ninth.vaddr, "i", "j", "box") == (["i=+0(%sp):s64", "j=+8(%sp):s64"], {"box": NO_FRAME})
    assert arguments_at(out, tenth.vaddr, "j") == (["j=+8(%sp):s64"], {})


@pytest.mark.thorough
def test_damaged_debug_information_is_one_error(out: Path, tmp_path: Path) -> None:
    damaged, whole, refused = tmp_path / "damaged", out.read_bytes(), 0
    sections = [section for section in ElfImage(out).sections if section.name.startswith(".debug")]
    sections = [section for section in sections if not section.name.endswith(("str", "line"))]
    chance = random.Random(1)  # noqa: S311 - it guards nothing
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            section = chance.choice(sections)
            content[section.offset + chance.randrange(section.size)] = chance.randrange(256)
        damaged.write_bytes(content)
        try:
            arguments_at(damaged, TEXT + 4 * chance.randrange(3))
        except InputError as error:
            refused += "debug information cannot be read" in str(error)
    assert refused > 10


def test_no_debug_information(tmp_path: Path) -> None:
    assert arguments_at(make(tmp_path), TEXT) is None
