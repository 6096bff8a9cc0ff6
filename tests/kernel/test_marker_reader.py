"""Whether a kernel reads its marker: those that do, whatever compilers made of it, and those with the symbol only."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.insn import a64
from prologue.kernel.held_address import loaded
from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import SYMBOL, Marker
from prologue.kernel.marker_reader import FLAGS, find_problem
from tests.flow.test_addresses import add, adrp
from tests.mini_kernel.build import Spec, all_specs
from tests.support.assembler import assemble
from tests.support.built import Mini
from tests.support.cases import pairs
from tests.support.elf_edit import edit

LAYOUTS, COMPILERS = ("2", "4,2"), ("gcc", "clang")
# What kernels are built with, and what makes compilers split functions or join them.
OPTIONS = (
    ("-O1",), ("-Os",), ("-O3",), ("-fno-inline",), ("-O1", "-fno-inline"),
    ("-fstack-protector-all", "-mstack-protector-guard=sysreg", "-mstack-protector-guard-reg=sp_el0",
     "-mstack-protector-guard-offset=1024"), ("-mbranch-protection=standard",),
    ("-fsanitize=shadow-call-stack", "-ffixed-x18"), ("-mcpu=neoverse-n1",), ("-fno-omit-frame-pointer",),
    ("-march=armv8.3-a", "-mbranch-protection=pac-ret"),
)  # fmt: skip
OF_GCC = (("-fno-section-anchors",), ("-fno-ipa-ra",), ("-freorder-blocks-and-partition",))
OUTLINED = (("-moutline",), ("-Oz", "-mllvm", "-enable-machine-outliner=always"), ("-Oz", "-fno-inline", "-moutline"))
NOTYPE, OBJECT = 0x10, 0x11  # st_info, global
NONE_LOADS = "no function that ftrace_init reaches loads its flags"


def _factors(spec: Spec) -> tuple[object, ...]:
    return spec.layout, spec.bti, spec.compiler, spec.form, (spec.marker, spec.plain)


def problem(vmlinux: Path) -> str | None:
    found = Kernel(vmlinux).native_problem
    return None if found is None else found.reason


@pytest.mark.thorough
@pytest.mark.parametrize("spec", pairs((s for s in all_specs() if s.contract == "native"), _factors), ids=str)
def test_every_form_reads_it_unprocessed_and_processed(mini: Mini, spec: Spec) -> None:
    vmlinux = mini(spec)
    assert problem(vmlinux) is None
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert Kernel(vmlinux).state == "processed"
    assert problem(vmlinux) is None


@pytest.mark.parametrize(
    ("layout", "compiler", "options"),
    pairs(
        (
            (layout, compiler, options)
            for layout in LAYOUTS
            for compiler, more in (("gcc", OF_GCC), ("clang", OUTLINED))
            for options in (*OPTIONS, *more)
        ),
        tuple,
    ),
)
def test_what_compilers_make_of_it(mini: Mini, layout: str, compiler: str, options: tuple[str, ...]) -> None:
    spec = Spec(layout=layout, compiler=compiler, options=options)  # type: ignore[arg-type]  # literals are lost
    assert problem(mini(spec)) is None


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("layout", "compiler", "options"), pairs(product(LAYOUTS, COMPILERS, [(), *OPTIONS[:5]]), tuple)
)
def test_a_kernel_that_has_the_symbol_only(
    mini: Mini, layout: str, compiler: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its marker begins where the table ends: ``ftrace_init`` forms that very address."""
    spec = Spec(layout=layout, compiler=compiler, options=options, ignores_marker=True)  # type: ignore[arg-type]  # lost
    vmlinux = mini(spec)
    kernel = Kernel(vmlinux)
    assert kernel.marker is not None
    stop = kernel.symbols.find("__stop_mcount_loc")
    assert stop is not None
    assert stop.vaddr == kernel.marker.vaddr
    assert problem(vmlinux) == NONE_LOADS
    before = vmlinux.read_bytes()
    assert main(["patch", str(vmlinux), "--in-place"]) == 2
    assert vmlinux.read_bytes() == before
    assert f"PL407 kernel-ignores-marker: the kernel does not read its marker: {NONE_LOADS}" in capsys.readouterr().err
    assert main(["verify", str(vmlinux)]) == 1


Form = Callable[[int, int], list[int]]  # (where it begins, what it has to load) to words


def ldr(register: int, base: int, offset: int, *, wide: bool = False) -> int:
    return (0xF9400000 | offset // 8 << 10 if wide else 0xB9400000 | offset // 4 << 10) | base << 5 | register


def call(place: int, target: int, *, link: bool = True) -> int:
    return a64.encode_b(place, target, link=link)


def offset_in_the_load(place: int, flags: int) -> list[int]:
    return [adrp(1, place, flags), ldr(1, 1, flags & 0xFFF), a64.RET]


def whole_address(place: int, flags: int) -> list[int]:
    return [adrp(1, place, flags), add(1, 1, flags), assemble("ldrb w2, [x1]"), a64.RET]


def version_and_flags_as_one(place: int, flags: int) -> list[int]:
    marker = flags - FLAGS
    return [adrp(1, place, marker), add(1, 1, marker), assemble("ldr x2, [x1, #8]"), a64.RET]


def by_a_pair(place: int, flags: int) -> list[int]:
    marker = flags - FLAGS
    return [adrp(1, place, marker), add(1, 1, marker), assemble("ldp x2, x3, [x1]"), a64.RET]


def by_a_pair_of_words(place: int, flags: int) -> list[int]:
    marker = flags - FLAGS
    return [adrp(1, place, marker), add(1, 1, marker), assemble("ldp w2, w3, [x1, #8]!"), a64.RET]


def after_writeback(place: int, flags: int) -> list[int]:
    marker = flags - FLAGS
    return [
        adrp(1, place, marker), add(1, 1, marker), assemble("ldr x2, [x1], #12"), assemble("ldr w2, [x1]"), a64.RET
    ]  # fmt: skip


def by_an_anchor_below(place: int, flags: int) -> list[int]:
    anchor = flags - 2048
    return [adrp(1, place, anchor), add(1, 1, anchor), ldr(2, 1, 2048), a64.RET]


def by_an_anchor_above(place: int, flags: int) -> list[int]:
    return [adrp(1, place, flags + 200), add(1, 1, flags + 200), assemble("ldur w2, [x1, #-200]"), a64.RET]


def with_acquire(place: int, flags: int) -> list[int]:
    """READ_ONCE with link-time optimisation (asm/rwonce.h)."""
    return [adrp(1, place, flags), add(1, 1, flags), assemble("ldar w2, [x1]"), a64.RET]


def by_a_copy(place: int, flags: int) -> list[int]:
    moves = [assemble("mov x19, x1"), assemble("mov x1, #0"), assemble("mov x2, x19")]
    return [adrp(1, place, flags), *moves, ldr(2, 2, flags & 0xFFF), a64.RET]


def after_a_branch(place: int, flags: int) -> list[int]:
    return [adrp(1, place, flags), assemble("cbz x0, #12", 0), a64.RET, a64.NOP, ldr(1, 1, flags & 0xFFF), a64.RET]


def in_a_part_that_was_moved_away(place: int, flags: int) -> list[int]:
    """As GNU ld moves the load after an ADRP at the end of a page (erratum 843419)."""
    there = place + 32
    return [
        adrp(1, place, flags), call(place + 4, there, link=False), a64.RET, *[a64.NOP] * 5,
        ldr(1, 1, flags & 0xFFF), call(there + 4, place + 8, link=False),
    ]  # fmt: skip


def by_an_argument(place: int, flags: int) -> list[int]:
    return [
        adrp(0, place, flags), add(0, 0, flags), call(place + 8, place + 32), a64.RET, *[a64.NOP] * 4,
        ldr(0, 0, 0), a64.RET,
    ]  # fmt: skip


def by_a_result(place: int, flags: int) -> list[int]:
    return [
        call(place, place + 32), ldr(1, 0, 0), a64.RET, *[a64.NOP] * 5, adrp(0, place + 32, flags), add(0, 0, flags),
        a64.RET,
    ]  # fmt: skip


def kept_over_a_call(place: int, flags: int) -> list[int]:
    return [adrp(19, place, flags), call(place + 4, place + 32), ldr(1, 19, flags & 0xFFF), a64.RET, *[a64.RET] * 8]


def by_a_veneer(place: int, flags: int) -> list[int]:
    there = place + 64
    return [
        call(place, place + 32), a64.RET, *[a64.NOP] * 6, adrp(16, place + 32, there), add(16, 16, there), a64.BR_X16,
        *[a64.NOP] * 5, adrp(1, there, flags), ldr(1, 1, flags & 0xFFF), a64.RET,
    ]  # fmt: skip


READING = (
    offset_in_the_load, whole_address, version_and_flags_as_one, by_a_pair, by_a_pair_of_words, after_writeback,
    by_an_anchor_below, by_an_anchor_above, with_acquire, by_a_copy, after_a_branch, in_a_part_that_was_moved_away,
    by_an_argument, by_a_result, kept_over_a_call, by_a_veneer,
)  # fmt: skip


def formed_and_not_loaded(place: int, flags: int) -> list[int]:
    return [adrp(1, place, flags), add(1, 1, flags), a64.RET]


def the_neighbour_in_its_page(place: int, flags: int) -> list[int]:
    return [adrp(1, place, flags), ldr(1, 1, flags + 4 & 0xFFF), ldr(2, 1, flags - 4 & 0xFFF), a64.RET]


def stored(place: int, flags: int) -> list[int]:
    uses = [assemble(text) for text in ("str w2, [x1]", "prfm pldl1keep, [x1]", "prfum pldl1keep, [x1, #-4]")]
    return [adrp(1, place, flags), add(1, 1, flags), *uses, a64.RET]


def overwritten(place: int, flags: int) -> list[int]:
    return [adrp(1, place, flags), assemble("mov x1, #0"), ldr(1, 1, flags & 0xFFF), a64.RET]


def a_result_of_another_function(place: int, flags: int) -> list[int]:
    return [
        adrp(0, place, flags), add(0, 0, flags), call(place + 8, place + 32), ldr(1, 0, 0), a64.RET, *[a64.NOP] * 3,
        assemble("mov x0, #0"), a64.RET,
    ]  # fmt: skip


def through_an_array(place: int, flags: int) -> list[int]:
    """A loop whose pointer comes by: not what forms the address."""
    start = flags - 4
    return [
        adrp(1, place, start), add(1, 1, start), ldr(2, 1, 0), assemble("add x1, x1, #4"),
        assemble("cbnz x2, #-8", 8), a64.RET,
    ]  # fmt: skip


def after_the_end(place: int, flags: int) -> list[int]:
    return [adrp(1, place, flags), a64.RET, ldr(1, 1, flags & 0xFFF), a64.RET]


NOT_READING = (
    formed_and_not_loaded, the_neighbour_in_its_page, stored, overwritten, a_result_of_another_function,
    through_an_array, after_the_end,
)  # fmt: skip


def planted(mini: Mini, form: Form) -> str | None:
    """What is said of a kernel whose ``ftrace_dyn_arch_init`` has that code."""
    with edit(mini(Spec(ignores_marker=True))) as elf:
        # Of the functions of this file, the longest one has room, and ends where the code is left by a jump.
        place, flags = elf.value("start_kernel"), elf.value(SYMBOL) + FLAGS
        reader = elf.value("ftrace_dyn_arch_init")
        elf.set_word(reader, call(reader, place, link=False))
        for k, word in enumerate(form(place, flags)):
            elf.set_word(place + 4 * k, word)
    return problem(elf.path)


@pytest.mark.parametrize("form", READING)
def test_a_way_to_load_the_flags(mini: Mini, form: Form) -> None:
    assert planted(mini, form) is None


@pytest.mark.parametrize("form", NOT_READING)
def test_no_way_to_load_the_flags(mini: Mini, form: Form) -> None:
    assert planted(mini, form) == NONE_LOADS


@pytest.mark.parametrize("name", ["OUTLINED_FUNCTION_0", ""])
def test_part_of_an_address_in_an_outlined_function(mini: Mini, name: str) -> None:
    """Any register hands it over; what has no name may be such a part."""

    def form(place: int, flags: int) -> list[int]:
        return [
            call(place, place + 32), call(place + 4, place + 48), a64.RET, *[a64.NOP] * 5, adrp(11, place + 32, flags),
            a64.RET, *[a64.NOP] * 2, ldr(12, 11, flags & 0xFFF), a64.RET,
        ]  # fmt: skip

    with edit(mini(Spec(ignores_marker=True))) as elf:
        place, flags = elf.value("start_kernel"), elf.value(SYMBOL) + FLAGS
        reader = elf.value("ftrace_dyn_arch_init")
        elf.set_word(reader, call(reader, place, link=False))
        for k, word in enumerate(form(place, flags)):
            elf.set_word(place + 4 * k, word)
        if name:  # on two symbols that nothing here needs
            for other, distance in (("aarch64_insn_gen_move_reg", 32), ("aarch64_insn_gen_branch_link", 48)):
                elf.set_symbol(other, value=place + distance)
                elf.rename_symbol(other, name)
    assert problem(elf.path) is None


@pytest.mark.parametrize("code", ["ldr w2, [x1, #12]", "ldr x2, [x1, #8]", "ldp w2, w3, [x1, #12]", "ldar w2, [x1]"])
def test_what_a_load_reads(code: str) -> None:
    word = assemble(code)
    number = int(code.partition("#")[2].partition("]")[0] or 0)
    width = 8 if "ldp" in code or "x2" in code else 4
    assert loaded(word, 1, 0x1000) == (0x1000 + number, width)
    assert loaded(word, 2, 0x1000)[1] == 0


def test_a_marker_that_is_not_in_init_data(mini: Mini) -> None:
    kernel = Kernel(mini(Spec(contract="stock")))
    place = kernel.symbols.find("ftrace_disabled")
    assert place is not None
    found = find_problem(kernel, kernel.bounds, Marker(place.vaddr, 0, 0, 0))
    assert found is not None
    assert re.fullmatch(r"it is in \.\w+, not in \.init\.data", found.reason)
    found = find_problem(kernel, kernel.bounds, Marker(0x1000, 0, 0, 0))
    assert found is not None
    assert found.reason == "it is in no section, not in .init.data"


@pytest.mark.parametrize(
    ("distance", "size", "info", "owned"),
    [
        (0, 4, OBJECT, True),
        (-8, 16, OBJECT, True),
        (-4, 4, OBJECT, False),
        (8, 0, NOTYPE, True),
        (12, 4, OBJECT, True),
        (0, 0, NOTYPE, False),  # where the records' table ends
        (24, 8, OBJECT, False),
    ],
)
def test_a_marker_on_another_object(mini: Mini, distance: int, size: int, info: int, *, owned: bool) -> None:
    with edit(mini(Spec())) as elf:
        elf.set_symbol("ftrace_records", value=elf.value(SYMBOL) + distance, info=info)
        at = elf.symbol_offset("ftrace_records")
        elf.data[at + 6 : at + 8] = elf.data[elf.symbol_offset(SYMBOL) + 6 : elf.symbol_offset(SYMBOL) + 8]  # st_shndx
        struct.pack_into("<Q", elf.data, at + 16, size)
    assert problem(elf.path) == ("it shares its bytes with ftrace_records" if owned else None)


def test_a_boot_without_its_symbol(mini: Mini) -> None:
    with edit(mini(Spec())) as elf:
        elf.rename_symbol("ftrace_init", "x")
    with pytest.raises(InputError, match="the symbol ftrace_init is gone"):
        problem(elf.path)


@pytest.mark.parametrize("name", ["ftrace_dyn_arch_init", "ftrace_call_adjust", "ftrace_init_nop"])
def test_other_names_do_not_matter(mini: Mini, name: str) -> None:
    with edit(mini(Spec())) as elf:
        elf.rename_symbol(name, "x")
    assert problem(elf.path) is None


def test_symbols_without_sizes(mini: Mini) -> None:
    """As an assembler leaves them."""
    with edit(mini(Spec())) as elf:
        for name in ("ftrace_init", "ftrace_dyn_arch_init"):
            at = elf.symbol_offset(name) + 16
            elf.data[at : at + 8] = bytes(8)
    assert problem(elf.path) is None


def test_a_reader_that_the_boot_does_not_call(mini: Mini) -> None:
    with edit(mini(Spec())) as elf:
        elf.set_word(elf.value("ftrace_init"), a64.RET)
        for slot in elf.live_slots():  # a kernel whose boot is cut, and that has no prologue, is PL408's
            elf.set_word(elf.first_slot(slot, call_ops=False), a64.MOV_X9_X30)
    assert problem(elf.path) == NONE_LOADS


def test_a_loop_without_end_is_no_trap(mini: Mini) -> None:
    with edit(mini(Spec())) as elf:
        entry = elf.value("ftrace_dyn_arch_init")
        elf.set_word(entry, call(entry, entry, link=False))
    assert problem(elf.path) == NONE_LOADS
