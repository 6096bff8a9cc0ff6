"""Every protocol: each variant ends as its file says, for its own reason, and safe ones need their barriers; spin."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from prologue.errors import InternalError
from prologue.protocol import form, spin
from prologue.protocol.assembly import Line, Operation
from prologue.protocol.form import ProtocolVariant, barriers_of, protocol_names
from prologue.protocol.spin import check_model
from prologue.protocol.trail import events_of, why
from tests.support.needs import needs_tools

load_protocol = cache(form.load_protocol)
ALL = [(name, each.name) for name in protocol_names() for each in load_protocol(name).variants]
SAFE = [(name, variant) for name, variant in ALL if load_protocol(name).variant(variant).expect == "safe"]
NEEDED = [
    (*each, barrier.name) for each in SAFE for barrier in barriers_of(load_protocol(each[0]).variant(each[1]))
    if not barrier.spare
]  # fmt: skip
# No barrier matters in these: whichever words a CPU executes, the call returns. What does matter is where the MOV is.
WITHOUT_BARRIERS = {
    ("mov-at-boot", "as-in-the-kernel"),
    ("skip-branch", "either"),
    ("skip-branch", "three-words"),
    ("two-writes-live", "mov-in-place"),
}

pytestmark = pytest.mark.usefixtures("_checker")


@pytest.fixture
def _checker() -> None:
    needs_tools("spin", "tcc")


def variant_of(name: str, variant: str) -> ProtocolVariant:
    return load_protocol(name).variant(variant)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "variant"), ALL)
def test_verdict(name: str, variant: str) -> None:
    found = variant_of(name, variant)
    outcome = check_model(found.model)
    assert outcome.reason == ("" if found.expect == "safe" else found.expect)
    assert bool(outcome.trail) == bool(outcome.reason)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "variant"), SAFE)
def test_a_safe_protocol_finishes(name: str, variant: str) -> None:
    """A model that cannot reach its end would be safe for nothing."""
    model = variant_of(name, variant).model
    last = Line(Operation("die", ('"finished"',)))
    tasks = tuple(replace(t, program=(*t.program, last)) if t.place is not None else t for t in model.tasks)
    assert check_model(replace(model, tasks=tasks)).reason == "dies"


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "variant", "barrier"), NEEDED)
def test_without_a_needed_barrier_it_is_unsafe(name: str, variant: str, barrier: str) -> None:
    (found,) = (each for each in barriers_of(variant_of(name, variant)) if each.name == barrier)
    assert check_model(found.without).reason


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "variant"), SAFE)
def test_without_all_spare_barriers_it_is_safe(name: str, variant: str) -> None:
    """All together, which says more than one by one; and each has its reason in the file."""
    found = variant_of(name, variant)
    barriers = list(barriers_of(found))
    assert barriers
    assert any(not each.spare for each in barriers) != ((name, variant) in WITHOUT_BARRIERS)
    assert not [key for key in found.spare if not any(key in each.names for each in barriers)]
    bare = found.model
    for each in reversed(barriers):
        bare = bare.without(each.task, each.index) if each.spare else bare
    assert check_model(bare).reason == ""


@pytest.mark.parametrize(("name", "variant"), sorted(WITHOUT_BARRIERS - {("skip-branch", "either")}))
def test_without_its_mov_it_loses_the_return_address(name: str, variant: str) -> None:
    model = variant_of(name, variant).model
    assert str(model.code[0].operation) == "MOV X9, X30"
    code = (replace(model.code[0], operation=Operation("NOP")), *model.code[1:])
    assert check_model(replace(model, code=code)).reason == "lr-lost"


def test_the_skip_branch_needs_its_branch() -> None:
    model = variant_of("skip-branch", "either").model
    code = (replace(model.code[0], operation=Operation("NOP")), *model.code[1:])
    assert check_model(replace(model, code=code)).reason == "lr-lost"


def test_unsafe_protocols_differ_in_their_reasons() -> None:
    reasons = {variant_of(*each).expect for each in ALL} - {"safe"}
    assert reasons == {"unpredictable", "lr-lost", "untraced", "decoded-wrong", "dies"}


# What spin says, and what it must not be taken for.


def test_a_search_that_ran_out_of_memory_is_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    model = variant_of("mov-at-boot", "as-in-the-kernel").model
    small = tuple("-DMEMLIM=10" if option.startswith("-DMEMLIM") else option for option in spin._CHECKER)
    assert small != spin._CHECKER
    monkeypatch.setattr(spin, "_CHECKER", small)
    with pytest.raises(InternalError, match="did not explore everything"):
        check_model(model)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "variant"), [("mov-at-boot", "traced-on-all"), ("int3-scheme", "as-proposed")])
def test_both_compilers_make_the_same_checker(name: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_tools("spin", *spin._COMPILERS)
    model = variant_of(name, variant).model
    outcomes = []
    for compiler in spin._COMPILERS:
        monkeypatch.setattr(spin, "_COMPILERS", (compiler,))
        outcomes.append(check_model(model))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].states > 1000


def test_the_shortest_way_needs_no_preemption_and_a_stop_does() -> None:
    for name, variant, preempted in (("two-writes-live", "either", 0), ("stop-machine", "preemptible", 1)):
        model = variant_of(name, variant).model
        outcome = check_model(model)
        events = events_of(model, outcome)
        assert [event.text for event in events].count("(preempted)") == preempted
        assert events[-1].text == "body: RET"
        assert "X30" in why(model, outcome)


def test_the_word_that_is_executed_is_shown() -> None:
    """The first slot is executed as it was, the second as it became: that is the whole failure."""
    model = variant_of("two-writes-live", "either").model
    texts = [event.text for event in events_of(model, check_model(model)) if event.cpu == 1]
    assert texts[2:4] == ["first: NOP", "second: BL tracer"]
