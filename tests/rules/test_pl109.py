"""PL109 warns only where the kernel's build is expected to zero the records of weak functions."""

from __future__ import annotations

import pytest

from prologue.kernel.load import open_binary
from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import find_rule
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.records import lose_symbol
from tests.support.built import Mini
from tests.support.elf_edit import edit


@pytest.mark.parametrize(
    ("spec", "function", "severity"),
    [(Spec(zeros=True), "work_leaf", "warn"), (Spec(), "work_leaf", "info"), (ModuleSpec(), "module_leaf", "info")],
)
def test_severity(mini: Mini, spec: Spec | ModuleSpec, function: str, severity: str) -> None:
    with edit(mini(spec)) as elf:
        lose_symbol(elf, function)
    (finding,) = run_rules(Subject(open_binary(elf.path)), (find_rule("PL109"),))
    assert finding.severity == severity
