"""What spin says, and what it must not be taken for."""

from __future__ import annotations

import pytest

from prologue.errors import InternalError
from prologue.protocol import spin
from prologue.protocol.form import load_protocol
from prologue.protocol.spin import check_model
from prologue.protocol.trail import events_of, why
from tests.support.needs import needs_tools


def test_a_search_that_ran_out_of_memory_is_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_tools("spin", "tcc")
    model = load_protocol("mov-at-boot").variant("as-in-the-kernel").model
    small = tuple("-DMEMLIM=10" if option.startswith("-DMEMLIM") else option for option in spin._CHECKER)
    assert small != spin._CHECKER
    monkeypatch.setattr(spin, "_CHECKER", small)
    with pytest.raises(InternalError, match="did not explore everything"):
        check_model(model)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "variant"), [("mov-at-boot", "traced-on-all"), ("int3-scheme", "as-proposed")])
def test_both_compilers_make_the_same_checker(name: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_tools("spin", *spin._COMPILERS)
    model = load_protocol(name).variant(variant).model
    outcomes = []
    for compiler in spin._COMPILERS:
        monkeypatch.setattr(spin, "_COMPILERS", (compiler,))
        outcomes.append(check_model(model))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].states > 1000


def test_the_shortest_way_needs_no_preemption_and_a_stop_does() -> None:
    needs_tools("spin", "tcc")
    for name, variant, preempted in (("two-writes-live", "either", 0), ("stop-machine", "preemptible", 1)):
        model = load_protocol(name).variant(variant).model
        outcome = check_model(model)
        events = events_of(model, outcome)
        assert [event.text for event in events].count("(preempted)") == preempted
        assert events[-1].text == "body: RET"
        assert "X30" in why(model, outcome)


def test_the_word_that_is_executed_is_shown() -> None:
    """The first slot is executed as it was, the second as it became: that is the whole failure."""
    needs_tools("spin", "tcc")
    model = load_protocol("two-writes-live").variant("either").model
    texts = [event.text for event in events_of(model, check_model(model)) if event.cpu == 1]
    assert texts[2:4] == ["first: NOP", "second: BL tracer"]
