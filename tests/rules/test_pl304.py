"""PL304 on callers that keep X9 over a call of a traced function, in code of real compilers and in assembly."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.rules.base import Finding
from tests.mini_kernel.build import run_command
from tests.mini_module.build import link_module
from tests.rules.fixture import judged
from tests.support.needs import needs_mini_kernel_tools

HERE = Path(__file__).parent / "x9"
CLANG = ["clang", "--target=aarch64-linux-gnu", "-fpatchable-function-entry=2"]
GCC = ["aarch64-linux-gnu-gcc"]
UNTRACED = "-DTRACED=__attribute__((patchable_function_entry(0)))"


@pytest.fixture(autouse=True)
def _compilers() -> None:
    needs_mini_kernel_tools()


def findings(directory: Path, compiler: list[str], source: str, *flags: str) -> tuple[Finding, ...]:
    """What the rule says of a module of one file."""
    compiled, ko = directory / "one.o", directory / "one.ko"
    general = ["-O2", "-ffreestanding", "-fno-pie", "-fno-asynchronous-unwind-tables"]
    run_command([*compiler, *general, *flags, "-c", str(HERE / source), "-o", str(compiled)])
    link_module(compiled, ko)
    return judged(ko, "PL304")


def test_preserve_most(tmp_path: Path) -> None:
    """A leaf saves nothing, so that nothing but the call shows that X9 is expected to survive."""
    (finding,) = findings(tmp_path, CLANG, "preserve_most.c")
    assert finding.where.symbol == "fast"
    assert "this call of slow_path" in finding.message
    assert findings(tmp_path, CLANG, "preserve_most.c", UNTRACED) == ()


def test_a_compiler_that_knows_the_callee(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, GCC, "ipa_ra.c")
    assert finding.where.symbol == "hold"
    assert "this call of leaf" in finding.message
    assert findings(tmp_path, GCC, "ipa_ra.c", "-DTRACED=") == ()  # only hold() has NOPs then
    # With the option, which is how kernels are built, GCC keeps nothing there.
    assert findings(tmp_path, GCC, "ipa_ra.c", "-fpatchable-function-entry=2") == ()


# The entry of a jump label at 6 that leads to 8.
_LABEL = '.pushsection __jump_table, "aw"; .long 6b - ., 8b - .; .quad 0; .popsection'
CASES = {
    "read": ("bl traced; mov x0, x9", 1),
    "half of it read": ("bl traced; add w0, w0, w9", 1),
    "read on one path": ("bl traced; cbz x0, 9f; mov x0, x9", 1),
    "read where BC.EQ goes": ("bl traced; .inst 0x54000050; b 9f; mov x0, x9", 1),
    "read after a loop": ("8: bl traced; cbnz x0, 8b; str x9, [x0]", 1),
    "read further up": ("b 7f; 8: mov x0, x9; b 9f; 7: bl traced; b 8b", 1),
    "kept by another call, too": ("bl traced; bl plain; mov x0, x9", 1),
    "two calls": ("bl traced; bl traced; mov x0, x9", 2),
    "a callee that returns with a signed address": ("bl signed; mov x0, x9", 1),
    "a callee that jumps to it": ("bl jumps; mov x0, x9", 1),
    "a veneer": ("bl distant; mov x0, x9", 1),
    "after a callee that jumps elsewhere": ("bl leaves; bl traced; mov x0, x9", 1),
    "kept by a callee that jumps elsewhere": ("bl traced; bl leaves; mov x0, x9", 1),
    "read where a jump label leads": (f"bl traced; 6: nop; mov x9, #0; b 9f; 8: mov x0, x9; {_LABEL}", 1),
    "read after a jump label that is on": (f"bl traced; 6: b 8f; mov x0, x9; b 9f; 8: mov x9, #0; {_LABEL}", 1),
    "written before a jump label": (f"bl traced; mov x9, #0; 6: nop; b 9f; 8: mov x0, x9; {_LABEL}", 0),
    "written after the call": ("bl traced; mov x9, x0; mov x0, x9", 0),
    "read before the call": ("mov x0, x9; bl traced", 0),
    "a callee without a site": ("bl plain; mov x0, x9", 0),
    "a callee that does not return": ("cbz x0, 8f; bl dies; 8: mov x0, x9", 0),
    "every register stored": ("bl traced; stp x6, x7, [x1, #48]; stp x8, x9, [x1, #64]; stp x10, x11, [x1, #80]", 0),
    "nearly every register stored": ("bl traced; stp x6, x7, [x1]; stp x8, x9, [x1, #64]; stp x10, x11, [x1, #80]", 1),
    # As Clang leaves a variable undefined where a flag says so (ovl_tmpfile() of 7.2 with thin LTO).
    "a flag that leads past it": ("bl traced; mov w2, #1; tbnz w2, #0, 9f; mov x0, x9", 0),
    "a flag that leads to it": ("bl traced; mov w2, #2; tbnz w2, #0, 9f; mov x0, x9", 1),
    "a flag that is zero": ("bl traced; mov x2, xzr; cbz w2, 9f; mov x0, x9", 0),
    "a flag that is read anew": ("bl traced; mov w2, #1; ldr w2, [x1]; tbnz w2, #0, 9f; mov x0, x9", 1),
    "a flag on one path": ("bl traced; cbz x0, 8f; mov w2, #1; 8: tbnz w2, #0, 9f; mov x0, x9", 1),
    "half of it copied": ("bl traced; mov w25, w9; mov w0, #0", 0),
    "half of it copied, and read": ("bl traced; mov w25, w9; add w0, w0, w25", 1),
    "half of it copied over a call, and read": ("bl traced; mov w25, w9; bl plain; mov w0, w25", 1),
    "half of it copied over a call and back": ("bl traced; mov w25, w9; bl plain; mov w9, w25; mov w0, w9", 1),
    "half of it copied, and lost": ("bl traced; mov w25, w9; mov w9, #0; mov w25, w9; mov w0, w25", 0),
    "half of it copied twice": ("bl traced; mov w25, w9; mov w25, w9; mov w9, #0; mov w0, w25", 1),
    "half of it copied to and fro": ("bl traced; mov w25, w9; mov w9, w25; mov w25, #0; mov w0, w9", 1),
    "half of it copied to where no call keeps it": ("bl traced; mov w3, w9", 1),
    "all of it copied": ("bl traced; mov x25, x9", 1),
    "an indirect call": ("adr x1, traced; blr x1; mov x0, x9", 0),  # left out: decision 6
    "a function elsewhere, which may not return": ("mov x9, x0; bl traced; bl outside; mov x0, x9", 0),
    "a function elsewhere": ("bl outside; mov x0, x9", 0),  # left out: decision 6
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", [case for case in CASES if case != "a veneer"])
def test_a_module(tmp_path: Path, case: str) -> None:
    code, count = CASES[case]
    found = findings(tmp_path, GCC, "calls.S", f"-DCASE={code}")
    assert [finding.where.symbol for finding in found] == ["caller"] * count


@pytest.mark.thorough
@pytest.mark.parametrize("case", [case for case, (code, _) in CASES.items() if "outside" not in code])
def test_a_vmlinux(tmp_path: Path, case: str) -> None:
    """Linked, so that calls and veneers have their targets."""
    code, count = CASES[case]
    compiled, vmlinux = tmp_path / "one.o", tmp_path / "vmlinux"
    run_command([*GCC, f"-DCASE={code}", "-c", str(HERE / "calls.S"), "-o", str(compiled)])
    bounds = [f"--defsym=__{end}_mcount_loc=__{end}___patchable_function_entries" for end in ("start", "stop")]
    link = ["aarch64-linux-gnu-ld", "-shared", "-Bsymbolic", "--unresolved-symbols=ignore-all", *bounds]
    run_command([*link, "-o", str(vmlinux), str(compiled)])
    found = judged(vmlinux, "PL304")
    assert [finding.where.symbol for finding in found] == ["caller"] * count
