"""The data of a module, which events name as if it were the kernel's, and its init text."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.probe.arguments import find_arguments
from prologue.probe.event import EventOptions, make_event
from prologue.probe.language import parse_argument, parse_request
from prologue.probe.places import ProbePlace, find_places
from prologue.probe.probe_target import ProbeTarget
from prologue.probe.verdict import verdict_on
from tests.mini_kernel.build import run_command
from tests.probe.made_kernel import TOOLS, module_target
from tests.support.needs import needs_tools

# The kernel has functions of the names traced and far.
_SOURCE = """
	.text
start:	nop
	ret
both:	nop
	ret
	.data
edge:
mine:	.quad 1, 2
traced:	.quad 3
	.section .rodata, "a"
far:	.quad 4
	.section .init.data, "aw"
early:	.quad 5
	.section .init.text, "ax"
begin:	nop
	ret
"""
_OTHER = """
	.section .rodata, "a"
both:	.quad 6
"""


@pytest.fixture
def target(tmp_path: Path) -> ProbeTarget:
    needs_tools(*TOOLS)
    source, made = tmp_path / "some.S", tmp_path / "some.ko"
    objects = [str(tmp_path / name) for name in ("some.o", "other.o")]
    for text, out in zip((_SOURCE, _OTHER), objects, strict=True):
        source.write_text(text)
        run_command(["aarch64-linux-gnu-gcc", "-c", str(source), "-o", out])
    run_command(["aarch64-linux-gnu-ld", "-r", "-o", str(made), *objects])
    return module_target(made)


def _place(target: ProbeTarget, name: str) -> int:
    vaddr = target.address_of(name)
    assert vaddr is not None
    return vaddr


def test_the_kernel_has_no_other_symbol_of_that_name(target: ProbeTarget) -> None:
    """It would read that one: the module's is named by one before it, if there is any in its section."""
    assert target.symbol_at(_place(target, "mine") + 8) == "mine+8"
    assert target.symbol_at(_place(target, "traced")) == "mine+16"
    assert target.symbol_at(_place(target, "far")) == ""


def test_data_that_no_event_can_read(target: ProbeTarget) -> None:
    assert "is freed" in target.read_refusal(_place(target, "early"))
    assert "CONFIG_KALLSYMS_ALL" in target.read_refusal(_place(target, "mine"))  # the kernel has no linux_banner


def test_a_variable_has_the_name_of_a_function(target: ProbeTarget) -> None:
    """Only one of the two is code, but the kernel knows both."""
    (place,) = find_places(target, parse_request("some:both"))
    assert (target.place_text(place.vaddr), place.ambiguous) == ("some:start+0x8", False)


def test_init_text_is_there_until_the_module_is_loaded(target: ProbeTarget) -> None:
    for name, notes in (("begin", 1), ("start", 0)):
        vaddr = _place(target, name)
        verdict = verdict_on(target.judge_at(vaddr), ProbePlace(asked=name, vaddr=vaddr))
        assert len([note for note in verdict.notes if "before" in note]) == notes


def test_a_parameter_by_number(target: ProbeTarget) -> None:
    """The kernel does not know that a function begins there, as long as the module is not loaded."""
    arguments, omitted = find_arguments((parse_argument("$arg4"), parse_argument("%x3")), None, target)
    assert [str(argument) for argument in arguments] == ["x3=%x3"]
    assert "give %x3" in omitted[0].reason


def test_a_function_of_a_module_has_no_fprobe_event(target: ProbeTarget) -> None:
    """The kernel looks for a function of that name, and none has a colon in its (fprobe.c, get_ips_from_filter)."""
    vaddr = _place(target, "start")
    verdict = verdict_on(target.judge_at(vaddr), ProbePlace(asked="some:start", vaddr=vaddr))
    assert make_event(target, verdict, (), (), EventOptions()).line == "p:start some:start"
    with pytest.raises(InputError, match="no module"):
        make_event(target, verdict, (), (), EventOptions(fprobe=True))
