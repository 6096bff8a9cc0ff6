"""PL109 warns only where the kernel's build is expected to zero the records of weak functions."""

from __future__ import annotations

import pytest

from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.rules.fixture import judged
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
    (finding,) = judged(elf.path, "PL109")
    assert finding.severity == severity
