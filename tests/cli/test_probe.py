"""``prologue probe`` as its users run it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.kernel.kernel import Kernel
from prologue.live.probe.arguments import Argument, arguments_at
from tests.live.probe.made_kernel import TEXT, TOOLS, Form, make
from tests.mini_kernel.build import run_command
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
"""


@pytest.fixture(scope="module")
def vmlinux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tools(*TOOLS)
    return make(tmp_path_factory.mktemp("made"))


def test_answers_and_status(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(vmlinux), "hidden"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("hidden (.text+0x")
    assert ": yes, stepped" in said.out
    assert "the first slot" in said.out
    assert said.err == ""
    assert main(["probe", str(vmlinux), "hidden", "hidden+4", "untraced"]) == 1
    said = capsys.readouterr()
    assert "no: the second slot of a patch site, which belongs to ftrace; nearest: hidden+0x0" in said.out
    assert "register_kprobe() of a module may: stepped" in said.out
    assert main(["probe", str(vmlinux), "far+12"]) == 1  # the CPU decides
    assert "depends: what alternatives boot applies decides (stepped if it can)" in capsys.readouterr().out


def test_json(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(vmlinux), "hidden+4", hex(TEXT), "--json", "--event"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "prologue.probe/1"
    assert (data["release"], data["rules"]) == ("6.12.107-made", "6.12")
    slot, first = data["places"]
    assert (slot["symbol"], slot["offset"], slot["answer"], slot["how"]) == ("hidden", 4, "no", None)
    assert [reason["reason"] for reason in slot["reasons"]] == ["second_slot"]
    assert slot["nearest"]["symbol"] == "hidden"
    assert slot["nearest"]["offset"] == 0
    assert (slot["event"], first["event"]) == (None, "p:traced traced")
    assert (first["address"], first["answer"], first["how"]) == (hex(TEXT), "yes", "stepped")


def test_events_are_lines_for_the_kernel(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", str(vmlinux), "--event", "hidden+8", "hidden+4", "far+12"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "p:hidden_0x8 hidden+0x8"
    assert lines[1].startswith("# hidden+0x4 ")
    assert lines[2].startswith("# far+0xc ")  # the kernel may refuse the next one
    assert lines[3] == "p:far_0xc far+0xc"


def test_a_release_that_was_not_compared_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_tools(*TOOLS)
    assert main(["probe", str(make(tmp_path, Form(release="5.15.1"))), "hidden"]) == 0
    assert "5.15.1 is judged by the rules of 6.1" in capsys.readouterr().err


def test_errors_are_one_line(vmlinux: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("trased", "hidden+1", "0x10"):
        assert main(["probe", str(vmlinux), place]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    module = tmp_path / "some.o"
    (tmp_path / "some.c").write_text("int some;")
    run_command(["aarch64-linux-gnu-gcc", "-c", str(tmp_path / "some.c"), "-o", str(module)])
    assert main(["probe", str(module), "some"]) == 2
    assert "a vmlinux is needed" in capsys.readouterr().err


def described(directory: Path, version: int) -> Path:
    needs_tools(*TOOLS)
    source, made, out = (directory / name for name in ("some.c", "some.o", "some"))
    source.write_text(_SOURCE)
    flags = ["-O2", "-freorder-blocks-and-partition", "-g", f"-gdwarf-{version}", "-fno-pie", "-ffreestanding"]
    run_command(["aarch64-linux-gnu-gcc", *flags, "-c", str(source), "-o", str(made)])
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-e", "traced", "-o", str(out), str(made)])
    return out


@pytest.mark.parametrize("version", [4, 5])
def test_arguments_by_name(tmp_path: Path, version: int) -> None:
    """Of a function as a compiler describes it: all are in place at the first instruction, and not at the last."""
    out = described(tmp_path, version)
    function = Kernel(out).symbols.find("traced")
    assert function is not None
    found = arguments_at(out, function.vaddr)
    assert found is not None
    assert found[:4] == [
        Argument("name", 0, ""), Argument("count", 1, "s32"), Argument("flags", 2, "u16"), Argument("kind", 3, "u32"),
    ]  # fmt: skip
    assert found[4] == Argument("by_value", None, "")  # in memory, by a pointer of the caller's
    assert found[5] == Argument("on", 5, "u8")
    last = arguments_at(out, function.vaddr + function.size - 4)
    assert last is not None
    assert last != found
    assert arguments_at(out, function.vaddr - 4) is None


def test_arguments_by_name_from_clang(tmp_path: Path) -> None:
    """It makes no table of compilation units, and puts addresses into a table of their own."""
    needs_tools("clang", *TOOLS)
    source, made, out = (tmp_path / name for name in ("some.c", "some.o", "some"))
    source.write_text(_SOURCE)
    flags = ["--target=aarch64-linux-gnu", "-O2", "-g", "-gdwarf-5", "-ffreestanding"]
    run_command(["clang", *flags, "-c", str(source), "-o", str(made)])
    run_command(["aarch64-linux-gnu-ld", f"-Ttext={TEXT:#x}", "-e", "traced", "-o", str(out), str(made)])
    function = Kernel(out).symbols.find("in_two_parts")
    assert function is not None
    expected = [Argument("first", 0, "s64"), Argument("second", 1, "s64")]
    assert arguments_at(out, function.vaddr) == expected


@pytest.mark.parametrize("version", [4, 5])
def test_arguments_of_a_function_in_two_parts(tmp_path: Path, version: int) -> None:
    """Its unlikely part stands elsewhere, so that DWARF gives ranges and no single start."""
    out = described(tmp_path, version)
    symbols = Kernel(out).symbols
    function, cold = symbols.find("in_two_parts"), symbols.find("in_two_parts.cold")
    assert function is not None
    assert cold is not None
    expected = [Argument("first", 0, "s64"), Argument("second", 1, "s64")]
    assert arguments_at(out, function.vaddr) == expected
    assert arguments_at(out, cold.vaddr) == expected


@pytest.mark.parametrize("version", [4, 5])
def test_damaged_debug_information_is_one_error(tmp_path: Path, version: int) -> None:
    out, damaged, refused = described(tmp_path, version), tmp_path / "damaged", 0
    whole, image = out.read_bytes(), Kernel(out).image
    sections = [s for s in image.sections if s.name.startswith(".debug") and not s.name.endswith(("str", "line"))]
    chance = random.Random(version)  # noqa: S311 - it guards nothing
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
    assert refused > 20


def test_no_debug_information(vmlinux: Path) -> None:
    assert arguments_at(vmlinux, TEXT) is None
