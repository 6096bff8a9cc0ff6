"""Every rule fires on its fixture and on nothing else; every rule is documented and registered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import prologue.rules
from prologue.cli.main import main
from prologue.rules.base import INPUTS, SEVERITIES
from prologue.rules.registry import RULES
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixtures import FIXTURES, Fixture, prepare
from tests.support.elf_edit import NOP, ElfEdit

Mini = Callable[[Spec | ModuleSpec], Path]


def _decides_writing(fixture: Fixture) -> bool:
    """Whether ``patch`` must refuse the file: it looks at PL1, PL2 and PL4 of a vmlinux alone (decision 4)."""
    alone = not fixture.pair and not fixture.stale_image and isinstance(fixture.spec, Spec)
    rule = next(rule for rule in RULES if rule.code == fixture.code)
    return alone and rule.severity in ("fatal", "error") and not fixture.code.startswith("PL3")


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.code)
def test_the_fixture_fires_exactly_its_rule(mini: Mini, fixture: Fixture, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = prepare(fixture, mini(fixture.spec), twin=False)
    capsys.readouterr()
    rule = next(rule for rule in RULES if rule.code == fixture.code)
    assert main(["verify", "--format", "json", *arguments]) == (1 if rule.severity in ("fatal", "error") else 0)
    report = json.loads(capsys.readouterr().out)
    assert {finding["code"] for finding in report["findings"]} == {fixture.code}
    finding = report["findings"][0]
    assert finding["slug"] == rule.slug
    assert finding["message"]
    assert finding["fix"] == rule.fix
    if fixture.symbol is not None:
        assert finding["symbol"] == fixture.symbol


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda f: f.code)
def test_the_twin_fires_nothing(mini: Mini, fixture: Fixture, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = prepare(fixture, mini(fixture.twin_spec or fixture.spec), twin=True)
    capsys.readouterr()
    assert main(["verify", "--format", "json", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


@pytest.mark.parametrize(
    "fixture",
    [f for f in FIXTURES if _decides_writing(f)],
    ids=lambda f: f.code,
)
def test_patch_refuses_what_is_broken_or_finishes_it(mini: Mini, fixture: Fixture) -> None:
    assert isinstance(fixture.spec, Spec)
    vmlinux = mini(fixture.spec)
    prepare(fixture, vmlinux, twin=False)
    before = vmlinux.read_bytes()
    status = main(["patch", str(vmlinux), "--in-place", "--contract", fixture.spec.contract])
    if fixture.code == "PL202":
        assert status == 0
        assert main(["verify", str(vmlinux)]) == 0
    else:
        assert status == 2
        assert vmlinux.read_bytes() == before


@pytest.mark.parametrize("layout", ["2", "4,2"])
def test_a_neutralised_init_without_prologues_is_fatal(
    mini: Mini, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tracing such a kernel would lose LR in every function, so no gate may let it through."""
    vmlinux = mini(Spec(layout=layout, contract="stock"))  # type: ignore[arg-type]  # parametrize loses the literal
    sites = ElfEdit(vmlinux)
    places = [sites.first_slot(slot, call_ops=layout == "4,2") for slot in sites.live_slots()]
    assert main(["patch", str(vmlinux), "--in-place", "--contract", "stock"]) == 0
    elf = ElfEdit(vmlinux)
    for place in places:
        elf.set_word(place, NOP)
    elf.save(vmlinux)
    capsys.readouterr()
    assert main(["verify", str(vmlinux), "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["symbol"]) == ("PL202", "ftrace_init_nop")
    assert main(["patch", str(vmlinux), "--in-place", "--contract", "stock"]) == 2


@pytest.mark.parametrize("layout", ["2", "4,2"])
def test_a_moved_record_is_known_by_its_function(mini: Mini, layout: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Not by what comes behind the pair: a body may begin with a NOP, a jump label for one."""
    vmlinux = mini(Spec(layout=layout))  # type: ignore[arg-type]  # parametrize loses the literal
    elf = ElfEdit(vmlinux)
    start = elf.value("work_leaf")
    slot = next(s for s in elf.live_slots() if elf.first_slot(s, call_ops=layout == "4,2") == start)
    elf.set_word(start + 8, NOP)
    elf.set_record(slot, start + 4)
    elf.save(vmlinux)
    assert main(["verify", str(vmlinux), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(finding["code"], finding["symbol"]) for finding in found] == [("PL110", "work_leaf")]


def test_registry_is_complete_and_in_order() -> None:
    files = sorted(p.stem for p in Path(prologue.rules.__path__[0]).glob("pl*.py"))
    assert [f"{r.code.lower()}_{r.slug.replace('-', '_')}" for r in RULES] == files
    assert [f.code for f in FIXTURES] == [r.code for r in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_every_rule_is_documented(rule: prologue.rules.base.Rule) -> None:
    assert rule.severity in SEVERITIES
    assert set(rule.inputs) <= set(INPUTS)
    for text in (rule.what, rule.why, rule.example, rule.fix, rule.citation):
        assert len(text) > 15
    assert not rule.fix.endswith(".")  # it follows "to do: " in reports
