"""PL108: zero records in a kernel that does not skip them."""

from __future__ import annotations

from pathlib import Path

from tests.mini_kernel.build import Spec
from tests.rules.fixture import Arguments, Fixture
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit


def set_release(elf: ElfEdit, release: str) -> None:
    """Make it a kernel of some release."""
    banner = f"Linux version {release}-mini\0".encode()
    elf.rename_symbol("aarch64_insn_gen_branch_link", "linux_banner")
    at = elf.offset(elf.value("die_exception"))
    elf.set_symbol("aarch64_insn_gen_branch_link", value=elf.value("die_exception"))
    elf.data[at : at + len(banner)] = banner


def _of_release(vmlinux: Path, release: str) -> Path:
    """With an ftrace_call_adjust that is inline as before 6.3."""
    with edit(vmlinux) as elf:
        elf.rename_symbol("ftrace_call_adjust", "inlined")
        set_release(elf, release)
    return vmlinux


def broken(mini: Mini) -> Arguments:
    return [_of_release(mini(Spec(zeros=True, contract="stock")), "6.1.0")]


def healthy(mini: Mini) -> Arguments:
    return [_of_release(mini(Spec(zeros=True, contract="stock")), "6.15.0")]


FIXTURE = Fixture(broken, healthy, contract="stock")
