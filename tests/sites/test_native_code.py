"""Whether a kernel obeys its marker, by its code: mini kernels that do, and that do not in one way each."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.errors import InputError
from prologue.insn import a64
from prologue.sites.kernel import Kernel
from tests.mini_kernel import build
from tests.mini_kernel.build import Spec, all_specs
from tests.support.assembler import assemble
from tests.support.built import Mini
from tests.support.elf_edit import edit

LAYOUTS, COMPILERS = ("2", "4,2"), ("gcc", "clang")
# What kernels are built with, and what instruments them.
OPTIONS = (
    ("-O1",), ("-Os",), ("-O3",), ("-fstack-protector-all", "-mstack-protector-guard=sysreg",
    "-mstack-protector-guard-reg=sp_el0", "-mstack-protector-guard-offset=1024"), ("-mbranch-protection=standard",),
    ("-fsanitize=shadow-call-stack", "-ffixed-x18"), ("-mcpu=neoverse-n1",), ("-fno-omit-frame-pointer",),
)  # fmt: skip


def problem(vmlinux: Path) -> str | None:
    found = Kernel(vmlinux).native_problem
    return None if found is None else found.reason


@pytest.mark.parametrize("spec", [spec for spec in all_specs() if spec.contract == "native"], ids=str)
def test_every_form_is_recognised_unprocessed_and_processed(mini: Mini, spec: Spec) -> None:
    vmlinux = mini(spec)
    assert problem(vmlinux) is None
    assert main(["patch", str(vmlinux), "--in-place"]) == 0
    assert Kernel(vmlinux).state == "processed"
    assert problem(vmlinux) is None


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_compilers_make_of_it(mini: Mini, layout: str, compiler: str, options: tuple[str, ...]) -> None:
    spec = Spec(layout=layout, compiler=compiler, options=options)  # type: ignore[arg-type]  # literals are lost
    assert problem(mini(spec)) is None


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (build.INVERTED_FLAG, "ftrace_call_adjust does not return records as they are with the marker set"),
        (build.OTHER_BIT, "ftrace_call_adjust does not return records as they are with the marker set"),
        (build.WRITES_ANYWAY, "ftrace_init_nop calls aarch64_insn_patch_text_nosync with the marker set"),
        (build.MOVES_ANYWAY, "ftrace_call_adjust does not return records as they are with the marker set"),
        (build.BYPASSED, "record is"),
        (build.NEVER_WRITES, "ftrace_init_nop writes no prologue with the marker clear"),
        (build.REFUSES, "ftrace_init_nop does not return 0 with the marker set"),
        (build.ONLY_TEXT, "ftrace_call_adjust does not return records as they are with the marker set"),
    ],
)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_does_not_obey_is_refused(mini: Mini, layout: str, compiler: str, way: int, said: str) -> None:
    _require_refused(mini(Spec(layout=layout, compiler=compiler, broken=way)), said)  # type: ignore[arg-type]  # lost


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_literal_that_is_not_written_is_refused(mini: Mini, compiler: str) -> None:
    """Only layout 4,2 has literals."""
    vmlinux = mini(Spec(layout="4,2", compiler=compiler, broken=build.FORGETS_LITERAL))  # type: ignore[arg-type]  # lost
    _require_refused(vmlinux, "ftrace_init_nop does not write the site's literal with the marker set")


def _require_refused(vmlinux: Path, said: str) -> None:
    reason = problem(vmlinux)
    assert reason is not None
    assert said in reason
    before = vmlinux.read_bytes()
    assert main(["patch", str(vmlinux), "--in-place"]) == 2
    assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_section_is_asked_anew_also_where_nothing_is_inlined(mini: Mini, compiler: str) -> None:
    healthy = Spec(compiler=compiler, options=("-fno-inline",))  # type: ignore[arg-type]  # the literal is lost
    assert problem(mini(healthy)) is None
    reason = problem(mini(replace(healthy, broken=build.ONLY_TEXT)))
    assert reason == "ftrace_call_adjust does not return records as they are with the marker set"


def test_the_refusal_names_the_instruction_and_shows_the_function(
    mini: Mini, capsys: pytest.CaptureFixture[str]
) -> None:
    vmlinux = mini(Spec(broken=build.WRITES_ANYWAY))
    assert main(["patch", str(vmlinux), "--in-place"]) == 2
    said = capsys.readouterr().err
    assert "PL407 kernel-ignores-marker: the native contract is not recognised: ftrace_init_nop calls" in said
    assert "aarch64_insn_patch_text_nosync with the marker set" in said
    assert main(["verify", str(vmlinux)]) == 1
    said = capsys.readouterr().out
    assert re.search(r" \[ldr x\d, \[x1\]; .*; bl #0x.*; ret;", said)


def test_an_instruction_that_cannot_be_followed_is_refused(mini: Mini) -> None:
    with edit(mini(Spec())) as elf:
        entry = elf.value("ftrace_init_nop")
        elf.set_word(entry, assemble("fmov x9, d0"))
    assert problem(elf.path) == "9e660009 is not an instruction that can be followed"
    with edit(elf.path) as elf:
        elf.set_word(entry, assemble("br x9"))
    assert problem(elf.path) == "an indirect branch to where is not known"


@pytest.mark.parametrize("name", ["ftrace_init", "ftrace_dyn_arch_init", "ftrace_call_adjust", "ftrace_init_nop"])
def test_a_function_without_its_symbol_is_not_guessed(mini: Mini, name: str) -> None:
    with edit(mini(Spec())) as elf:
        elf.rename_symbol(name, "x")
    if name == "ftrace_init":
        with pytest.raises(InputError, match="the symbol ftrace_init is gone"):
            problem(elf.path)
    else:  # a name that it has, and not the one that is looked for
        assert problem(elf.path) is not None


def test_a_symbol_without_size_is_not_guessed(mini: Mini) -> None:
    vmlinux = mini(Spec())
    with edit(vmlinux) as elf:
        at = elf.symbol_offset("ftrace_init_nop") + 16
        elf.data[at : at + 8] = bytes(8)
    assert "is 0 bytes" in (problem(vmlinux) or "")


def test_records_that_are_nowhere_are_no_crash(mini: Mini) -> None:
    with edit(mini(Spec())) as elf:
        for slot in elf.live_slots():
            elf.set_record(slot, elf.value("__ftrace_prologue_marker"))
    assert problem(elf.path) == "no record is in text"


def test_a_loop_without_end_is_no_trap(mini: Mini) -> None:
    with edit(mini(Spec())) as elf:
        entry = elf.value("ftrace_init_nop")
        elf.set_word(entry, a64.encode_b(entry, entry))
    assert problem(elf.path) == "ftrace_init_nop does not return 0 with the marker set"
