"""Whether a kernel reads its marker: those that do, whatever compilers made of it, and those with the symbol only."""

from __future__ import annotations

import re
import struct
from itertools import product
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import SYMBOL, Marker
from prologue.kernel.marker_reader import FLAGS, find_problem, loaded
from tests.mini_kernel.build import Spec, all_specs
from tests.support.assembler import assemble, assemble_at
from tests.support.built import Mini
from tests.support.cases import pairs
from tests.support.elf_edit import ElfEdit, edit
from tests.support.tool import Tool

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
    mini: Mini, layout: str, compiler: str, options: tuple[str, ...], tool: Tool
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
    said = tool("patch", vmlinux, "--in-place", status=2).err
    assert vmlinux.read_bytes() == before
    assert f"PL407 kernel-ignores-marker: the kernel does not read its marker: {NONE_LOADS}" in said
    assert main(["verify", str(vmlinux)]) == 1


WHOLE, MARKER = "adrp x1, flags; add x1, x1, :lo12:flags; ", "adrp x1, flags-12; add x1, x1, :lo12:flags-12; "
READING = {
    "offset in the load": "adrp x1, flags; ldr w1, [x1, :lo12:flags]; ret",
    "whole address": f"{WHOLE}ldrb w2, [x1]; ret",
    "version and flags as one": f"{MARKER}ldr x2, [x1, #8]; ret",
    "by a pair": f"{MARKER}ldp x2, x3, [x1]; ret",
    "by a pair of words": f"{MARKER}ldp w2, w3, [x1, #8]!; ret",
    "after writeback": f"{MARKER}ldr x2, [x1], #12; ldr w2, [x1]; ret",
    "by an anchor below": "adrp x1, flags-2048; add x1, x1, :lo12:flags-2048; ldr w2, [x1, #2048]; ret",
    "by an anchor above": "adrp x1, flags+200; add x1, x1, :lo12:flags+200; ldur w2, [x1, #-200]; ret",
    "with acquire: READ_ONCE with link-time optimisation (asm/rwonce.h)": f"{WHOLE}ldar w2, [x1]; ret",
    "by a copy": "adrp x1, flags; mov x19, x1; mov x1, #0; mov x2, x19; ldr w2, [x2, :lo12:flags]; ret",
    "after a branch": "adrp x1, flags; cbz x0, #12; ret; nop; ldr w1, [x1, :lo12:flags]; ret",
    # As GNU ld moves the load after an ADRP at the end of a page (erratum 843419).
    "in a part that was moved away": "adrp x1, flags; b +32; ret; +32; ldr w1, [x1, :lo12:flags]; b +8",
    "by an argument": "adrp x0, flags; add x0, x0, :lo12:flags; bl +32; ret; +32; ldr w0, [x0]; ret",
    "by a result": "bl +32; ldr w1, [x0]; ret; +32; adrp x0, flags; add x0, x0, :lo12:flags; ret",
    "kept over a call": "adrp x19, flags; bl +32; ldr w1, [x19, :lo12:flags]; ret; +32; ret",
    "by a veneer": "bl +32; ret; +32; adrp x16, +64; add x16, x16, :lo12:+64; br x16; +64; adrp x1, flags;"
    " ldr w1, [x1, :lo12:flags]; ret",
}
NOT_READING = {
    "formed and not loaded": f"{WHOLE}ret",
    "the neighbour in its page": "adrp x1, flags; ldr w1, [x1, :lo12:flags+4]; ldr w2, [x1, :lo12:flags-4]; ret",
    "stored": f"{WHOLE}str w2, [x1]; prfm pldl1keep, [x1]; prfum pldl1keep, [x1, #-4]; ret",
    "overwritten": "adrp x1, flags; mov x1, #0; ldr w1, [x1, :lo12:flags]; ret",
    "a result of another function": "adrp x0, flags; add x0, x0, :lo12:flags; bl +32; ldr w1, [x0]; ret;"
    " +32; mov x0, #0; ret",
    # A loop whose pointer comes by: not what forms the address.
    "through an array": "adrp x1, flags-4; add x1, x1, :lo12:flags-4; ldr w2, [x1]; add x1, x1, #4; cbnz x2, #-8; ret",
    "after the end": "adrp x1, flags; ret; ldr w1, [x1, :lo12:flags]; ret",
}


def plant(elf: ElfEdit, text: str) -> int:
    """Have ``ftrace_dyn_arch_init`` jump to that code: of the functions of this file, the longest one has room for it.

    It ends where the code is left by a jump. Returns where the code is.
    """
    place, reader = elf.value("start_kernel"), elf.value("ftrace_dyn_arch_init")
    elf.set_word(reader, a64.encode_b(reader, place, link=False))
    for k, word in enumerate(assemble_at(place, text, flags=elf.value(SYMBOL) + FLAGS)):
        elf.set_word(place + 4 * k, word)
    return place


@pytest.mark.parametrize("form", READING)
def test_a_way_to_load_the_flags(mini: Mini, form: str) -> None:
    with edit(mini(Spec(ignores_marker=True))) as elf:
        plant(elf, READING[form])
    assert problem(elf.path) is None


@pytest.mark.parametrize("form", NOT_READING)
def test_no_way_to_load_the_flags(mini: Mini, form: str) -> None:
    with edit(mini(Spec(ignores_marker=True))) as elf:
        plant(elf, NOT_READING[form])
    assert problem(elf.path) == NONE_LOADS


@pytest.mark.parametrize("name", ["OUTLINED_FUNCTION_0", ""])
def test_part_of_an_address_in_an_outlined_function(mini: Mini, name: str) -> None:
    """Any register hands it over; what has no name may be such a part."""
    with edit(mini(Spec(ignores_marker=True))) as elf:
        text = "bl +32; bl +48; ret; +32; adrp x11, flags; ret; +48; ldr w12, [x11, :lo12:flags]; ret"
        place = plant(elf, text)
        if name:  # on two symbols that nothing here needs
            for other, distance in (("aarch64_insn_gen_move_reg", 32), ("aarch64_insn_gen_branch_link", 48)):
                elf.set_symbol(other, value=place + distance)
                elf.rename_symbol(other, name)
    assert problem(elf.path) is None


@pytest.mark.parametrize("load", ["ldr w2, [x1, #12]", "ldr x2, [x1, #8]", "ldp w2, w3, [x1, #12]", "ldar w2, [x1]"])
def test_what_a_load_reads(load: str) -> None:
    word = assemble(load)
    number = int(load.partition("#")[2].partition("]")[0] or 0)
    width = 8 if "ldp" in load or "x2" in load else 4
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
        elf.set_word(entry, a64.encode_b(entry, entry, link=False))
    assert problem(elf.path) == NONE_LOADS
