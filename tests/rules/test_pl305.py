"""PL305 on the tables that a mini kernel does not have.

Runtime constants, the unwind table of dynamic SCS, and the exception table in both of its forms.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.kernel.kernel import Kernel
from prologue.rules.base import Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import find_rule
from tests.mini_kernel.build import run_command
from tests.support.needs import needs_mini_kernel_tools

SOURCE = Path(__file__).parent / "patchers" / "kernel.S"


def fired(directory: Path, *defines: str) -> list[tuple[int, str]]:
    """Words of the traced function that the rule names, by number, and how severe that is."""
    needs_mini_kernel_tools()
    compiled, vmlinux = directory / "kernel.o", directory / "vmlinux"
    defined = [f"-D{define}" for define in defines]
    run_command(["aarch64-linux-gnu-gcc", *defined, "-c", str(SOURCE), "-o", str(compiled)])
    run_command(["aarch64-linux-gnu-ld", "-shared", "-Bsymbolic", "-o", str(vmlinux), str(compiled)])
    kernel = Kernel(vmlinux)
    start = kernel.symbols.find("traced")
    assert start is not None
    assert kernel.sites is not None
    assert kernel.sites.first.tolist() == [start.vaddr]
    found = run_rules(Subject(kernel), (find_rule("PL305"),))
    return [((finding.where.vaddr or 0) - start.vaddr >> 2, finding.severity) for finding in found]


@pytest.mark.parametrize(
    ("section", "named", "words"),
    [
        ("runtime_ptr_dentry_hashtable", -4, []),
        ("runtime_ptr_dentry_hashtable", -3, [0]),
        ("runtime_ptr_dentry_hashtable", -1, [0, 1]),
        ("runtime_ptr_dentry_hashtable", 1, [1]),
        ("runtime_ptr_dentry_hashtable", 3, []),
        ("runtime_shift_d_hash_shift", -1, []),
        ("runtime_shift_d_hash_shift", 0, [0]),
        ("runtime_shift_d_hash_shift", 1, [1]),
        ("runtime_shift_d_hash_shift", 7, []),
        ("runtime_mask___futex_mask", -1, []),
        ("runtime_mask___futex_mask", 1, [1]),
    ],
)
def test_runtime_constants(tmp_path: Path, section: str, named: int, words: list[int]) -> None:
    """A pointer takes four instructions, a shift or a mask one."""
    assert fired(tmp_path, f"RUNTIME={section}", f"NAMED={named}") == [(word, "fatal") for word in words]


@pytest.mark.parametrize(("named", "words"), [(0, [0]), (1, [1]), (2, [])])
def test_what_dynamic_scs_would_rewrite(tmp_path: Path, named: int, words: list[int]) -> None:
    assert fired(tmp_path, "SIGNING", f"NAMED={named}") == [(word, "error") for word in words]


@pytest.mark.parametrize("size", [8, 12])
@pytest.mark.parametrize(("named", "words"), [(0, [0]), (1, [1]), (2, [])])
def test_entries_of_the_exception_table(tmp_path: Path, size: int, named: int, words: list[int]) -> None:
    """8 bytes before 5.16, 12 since then; every word of a table of the shorter ones leads to text."""
    assert fired(tmp_path, f"EXCEPTIONS={size}", f"NAMED={named}") == [(word, "fatal") for word in words]


@pytest.mark.parametrize("size", [8, 12])
def test_an_entry_that_names_no_text_hides_no_other(tmp_path: Path, size: int) -> None:
    assert fired(tmp_path, f"EXCEPTIONS={size}", "STRAY", "NAMED=1") == [(1, "fatal")]
