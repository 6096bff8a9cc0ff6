"""The sections that ``module_init_ftrace_plt`` wants, whatever else a module has."""

from __future__ import annotations

import subprocess

import pytest

from prologue.kernel.load import open_binary
from prologue.rules.base import Subject
from prologue.rules.pl307_module_without_trampoline import check
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini


@pytest.mark.parametrize(
    ("release", "wanted"), [("6.12.106", False), ("6.12.107+deb13", True), ("6.14.11", False), ("7.2.0", True)]
)
def test_the_loader_wants_the_twin_whether_there_is_init_text_or_not(mini: Mini, release: str, wanted: bool) -> None:
    ko = mini(ModuleSpec(release=release))
    assert list(check(Subject(open_binary(ko)))) == []
    change = ["--rename-section", ".init.text=.text.other", "--remove-section", ".init.text.ftrace_trampoline"]
    subprocess.run(["aarch64-linux-gnu-objcopy", *change, ko], check=True)
    messages = [hit.message for hit in check(Subject(open_binary(ko)))]
    assert messages == ["6 sites, but no section .init.text.ftrace_trampoline"] * wanted
