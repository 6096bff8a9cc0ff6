"""The protocols as litmus files: up to date, and worth reading."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prologue.protocol.assembly import Operation
from prologue.protocol.form import barriers_of, load_protocol, protocol_names
from prologue.protocol.spin import check_model
from tests.protocol.herd7 import FIGURES, FILES, litmus_files, litmus_model, litmus_text
from tests.support.needs import needs_tools


@pytest.mark.thorough
def test_the_files_are_up_to_date() -> None:
    needs_tools("spin", "tcc")
    made = litmus_files()
    assert {path.name: path.read_text() for path in FILES.glob("*.litmus")} == made
    said = {name.split(".")[-2] for name in made}
    assert said == {"never", "sometimes"}
    # What herd7 said of these two when they were written by hand.
    assert "two-writes-live.as-proposed.sometimes.litmus" in made
    assert "two-writes-live.mov-in-place.never.litmus" in made
    assert len(made) == 28


def test_a_branch_in_a_register_has_its_distance() -> None:
    model = litmus_model(load_protocol("two-writes-live").variants[0].model)
    assert model is not None
    text = litmus_text("two", model)
    assert '0:X2=instr:"BL .+8";' in text  # from second to tracer: two words
    assert "0:X3=P1:second;" in text
    assert text.endswith("exists (1:X27=1)\n")


def test_all_but_the_decoder_have_a_litmus_form() -> None:
    """A decoder's state is about an order in time of all CPUs, which no litmus test can ask for."""
    without = {name for name in protocol_names() for each in load_protocol(name).variants
               if litmus_model(each.model) is None}  # fmt: skip
    assert without == {"jump-label-decoder"}


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "variant", "wait"), [
    ("brk-owner", "one-address-and-ipi", "sync_cores"), ("brk-owner", "many-addresses", "sync_cores"),
    ("call-ops", "as-in-the-kernel", "rcu_tasks_wait"), ("int3-scheme", "drained-either", "rcu_tasks_wait"),
    ("mov-at-boot", "traced-on-all", "sync_cores"), ("rcu-tasks", "either", "sync_cores"),
    ("rcu-tasks", "stopped", "rcu_tasks_wait"), ("stop-machine", "two-stops-and-a-wait", "rcu_tasks_wait"),
])  # fmt: skip
def test_without_a_wait_the_test_reaches_its_failure(name: str, variant: str, wait: str) -> None:
    """What stands for a wait of the kernel is there for something, as the wait is."""
    needs_tools("spin", "tcc")
    found = load_protocol(name).variant(variant)
    whole = litmus_model(found.model)
    less = next(each.without for each in barriers_of(found) if wait in each.names)
    without = litmus_model(less)
    assert whole is not None
    assert without is not None
    assert check_model(whole).reason == ""
    assert check_model(without).reason == "reached"


def test_an_interrupt_that_does_not_synchronise_is_seen() -> None:
    needs_tools("spin", "tcc")
    model = litmus_model(load_protocol("mov-at-boot").variant("traced-on-all").model)
    assert model is not None
    writing, calling = model.tasks
    lines = tuple(replace(line, operation=Operation("NOP")) if line.operation.name == "ISB" else line
                  for line in calling.program)  # fmt: skip
    assert lines != calling.program
    assert check_model(replace(model, tasks=(writing, replace(calling, program=lines)))).reason == "reached"


def test_the_figures_of_herd7_are_those_of_these_files() -> None:
    """Each file was judged, and as its name says; the names are spin's."""
    head, _, *lines = FIGURES.read_text().splitlines()
    assert head.startswith("# herd7 7.")
    figures = dict(line.split(": ") for line in lines)
    files = {path.name.rsplit(".", 2)[0]: path.name.rsplit(".", 2)[1] for path in FILES.glob("*.litmus")}
    assert figures.keys() == files.keys()
    for name, said in files.items():
        observed, positive, negative = figures[name].split()[:3]
        assert observed.lower() == said
        assert (int(positive) > 0) == (observed != "Never")
        assert int(negative) > 0
