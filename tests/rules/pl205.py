"""PL205: call-ops literals in a kernel that has kCFI."""

from __future__ import annotations

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Fixture, made

FIXTURE = Fixture(
    made(Spec(layout="4,2"), lambda elf: elf.rename_symbol("aarch64_insn_gen_branch_link", "report_cfi_failure")),
    made(Spec(layout="4,2")),
    symbol="report_cfi_failure",
)
