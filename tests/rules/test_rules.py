"""Every rule fires on its fixture and on nothing else; every rule is documented and registered."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import prologue.rules
from prologue.cli.main import main
from prologue.rules.base import FINISH, INPUTS, SEVERITIES, Rule
from prologue.rules.engine import DECIDING
from prologue.rules.registry import RULES
from tests.mini_kernel.build import Spec
from tests.rules.fixture import fixture_of, fixtures
from tests.support.built import Mini
from tests.support.elf_edit import NOP, ElfEdit, edit
from tests.support.tool import Tool

TESTS = Path(__file__).parents[1]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


@pytest.mark.thorough
@every_rule
def test_the_fixture_fires_exactly_its_rule(mini: Mini, rule: Rule, tool: Tool) -> None:
    fixture = fixture_of(rule)
    arguments = fixture.broken(mini)
    status = (1 if rule.severity in ("fatal", "error") else 0) if fixture.status is None else fixture.status
    findings = tool(*fixture.command, "--json", *arguments, status=status).json["findings"]
    assert {finding["code"] for finding in findings} == {rule.code}
    finding = findings[0]
    assert finding["slug"] == rule.slug
    assert finding["message"]
    assert finding["fix"] == (FINISH if fixture.finished else fixture.fix or rule.fix)
    if fixture.symbol is not None:
        assert finding["symbol"] == fixture.symbol


@pytest.mark.thorough
@every_rule
def test_the_twin_fires_nothing(mini: Mini, rule: Rule, tool: Tool) -> None:
    fixture = fixture_of(rule)
    arguments = fixture.healthy(mini)
    assert tool(*fixture.command, "--json", *arguments).json["findings"] == []


def _decides_writing(rule: Rule) -> bool:
    """Whether ``patch`` must refuse the rule's vmlinux: PL3 judges the rest of the text (decision 4)."""
    decides = "V" in rule.inputs and rule.severity in ("fatal", "error") and not rule.release_may_leave_out
    assert (rule in DECIDING) == decides or "V" not in rule.inputs, rule.code
    return decides


@pytest.mark.thorough
@pytest.mark.parametrize("rule", [rule for rule in RULES if _decides_writing(rule)], ids=lambda rule: rule.code)
def test_patch_refuses_what_is_broken_or_finishes_it(mini: Mini, rule: Rule) -> None:
    fixture = fixture_of(rule)
    (vmlinux,) = map(Path, fixture.broken(mini))
    before = vmlinux.read_bytes()
    status = main(["patch", str(vmlinux), "--in-place", "--contract", fixture.contract])
    if fixture.finished:
        assert rule.open_while_unfinished
        assert status == 0
        assert main(["verify", str(vmlinux)]) == 0
    else:
        assert status == 2
        assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("layout", ["2", "4,2"])
def test_a_neutralised_init_without_prologues_is_fatal(mini: Mini, layout: str, tool: Tool) -> None:
    """Tracing such a kernel would lose LR in every function, so no gate may let it through."""
    vmlinux = mini(Spec(layout=layout, contract="stock"))  # type: ignore[arg-type]  # parametrize loses the literal
    sites = ElfEdit(vmlinux)
    places = [sites.first_slot(slot, call_ops=layout == "4,2") for slot in sites.live_slots()]
    assert main(["patch", str(vmlinux), "--in-place", "--contract", "stock"]) == 0
    with edit(vmlinux) as elf:
        for place in places:
            elf.set_word(place, NOP)
    (finding,) = tool("verify", vmlinux, "--json", status=1).json["findings"]
    assert (finding["code"], finding["symbol"]) == ("PL202", "ftrace_init_nop")
    assert main(["patch", str(vmlinux), "--in-place", "--contract", "stock"]) == 2


@pytest.mark.parametrize("layout", ["2", "4,2"])
def test_a_moved_record_is_known_by_its_function(mini: Mini, layout: str, tool: Tool) -> None:
    """Not by what comes after the pair: a body may begin with a NOP, a jump label for one."""
    vmlinux = mini(Spec(layout=layout))  # type: ignore[arg-type]  # parametrize loses the literal
    with edit(vmlinux) as elf:
        start = elf.value("work_leaf")
        slot = next(s for s in elf.live_slots() if elf.first_slot(s, call_ops=layout == "4,2") == start)
        elf.set_word(start + 8, NOP)
        elf.set_record(slot, start + 4)
    found = tool("verify", vmlinux, "--json", status=1).json["findings"]
    assert [(finding["code"], finding["symbol"]) for finding in found] == [("PL110", "work_leaf")]


def test_registry_is_complete_and_in_order() -> None:
    files = sorted(p.stem for p in Path(prologue.rules.__path__[0]).glob("pl*.py"))
    checked = [f"{r.code.lower()}_{r.slug.replace('-', '_')}" for r in RULES if r.check is not None]
    assert checked == files
    assert [r.code for r in RULES] == sorted({r.code for r in RULES})


@pytest.mark.thorough
def test_patch_loads_the_rules_that_decide_writing_and_no_others() -> None:
    code = (
        "import sys, prologue.patching.patch;"
        "print(*(name for name in sys.modules if name.startswith('prologue.rules.pl')))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert sorted(loaded) == [rule.check.__module__ for rule in RULES if rule in DECIDING]


def test_every_rule_has_its_fixture_and_its_mutation() -> None:
    """A fixture in its group's table, a mutation in that of its group; and there is none without a rule."""
    codes = {rule.code for rule in RULES}
    groups = {path.stem.upper(): path.read_text() for path in (TESTS / "mutation").glob("pl*.py")}
    mutated = {code for group, text in groups.items() for code in re.findall(rf'mutation\("({group}\d\d)"', text)}
    assert {code for group in groups for code in fixtures(group)} == mutated == codes


@every_rule
def test_every_rule_is_documented(rule: Rule) -> None:
    assert rule.severity in SEVERITIES
    assert set(rule.inputs) <= set(INPUTS)
    for text in (rule.what, rule.why, rule.example, rule.fix, rule.citation):
        assert len(text) > 15
    assert not rule.fix.endswith(".")  # it follows "to do: " in reports
