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
    ("release", "wanted"),
    [
        ("6.6.104", False),
        ("6.6.105", True),
        ("6.12.45", False),
        ("6.12.46+deb13", True),
        ("6.14.11", False),
        ("6.16.5", False),
        ("6.16.6", True),
        ("6.17.0", True),
        ("7.2.0", True),
    ],
)
def test_the_loader_wants_the_twin_whether_there_is_init_text_or_not(mini: Mini, release: str, wanted: bool) -> None:
    ko = mini(ModuleSpec(release=release))
    assert list(check(Subject(open_binary(ko)))) == []
    change = ["--rename-section", ".init.text=.text.other", "--remove-section", ".init.text.ftrace_trampoline"]
    subprocess.run(["aarch64-linux-gnu-objcopy", *change, ko], check=True)
    messages = [hit.message for hit in check(Subject(open_binary(ko)))]
    assert messages == ["6 sites, but no section .init.text.ftrace_trampoline"] * wanted
