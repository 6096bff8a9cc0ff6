"""PL205: call-ops literals in a kernel that has kCFI."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import edit


def broken(mini: Mini) -> Arguments:
    with edit(mini(Spec(layout="4,2"))) as elf:
        elf.rename_symbol("aarch64_insn_gen_branch_link", "report_cfi_failure")
    return [elf.path]


def healthy(mini: Mini) -> Arguments:
    return [mini(Spec(layout="4,2"))]


FIXTURE = Fixture(broken, healthy, symbol="report_cfi_failure")
