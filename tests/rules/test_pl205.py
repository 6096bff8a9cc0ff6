"""PL205 on type hashes, as a compiler with kCFI makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.kernel.load import open_binary
from prologue.rules.base import Finding
from tests.mini_kernel.build import run_command
from tests.mini_module.build import link_module
from tests.rules.fixture import judged
from tests.support.needs import needs_tools

COMPILE = ["clang-19", "--target=aarch64-linux-gnu", "-O2", "-ffreestanding", "-fno-pie", "-fsanitize=kcfi",
           "-fno-asynchronous-unwind-tables", "-fpatchable-function-entry=2"]  # fmt: skip
# Whose address is taken: Clang defines __kcfi_typeid_... for both, but assembly has a hash only if it is written there.
USER = "extern void traced(void); extern void assembly(void); void *const taken[] = { traced, assembly };"
CALLED = 'void traced(void) {} asm(".globl assembly\\nnop\\n.type assembly, %function\\nassembly: ret");'


@pytest.fixture
def module(tmp_path: Path) -> Path:
    needs_tools("clang-19", "aarch64-linux-gnu-ld")
    objects = []
    for name, text in (("user", USER), ("called", CALLED)):
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        objects.append(str(source.with_suffix(".o")))
        run_command([*COMPILE, "-c", str(source), "-o", objects[-1]])
    run_command(["aarch64-linux-gnu-ld", "-r", "-o", str(tmp_path / "both.o"), *objects])
    link_module(tmp_path / "both.o", tmp_path / "both.ko")
    return tmp_path / "both.ko"


def findings(path: Path) -> tuple[Finding, ...]:
    return judged(path, "PL205")


def test_assembly_without_a_hash_is_healthy(module: Path) -> None:
    """As cpu_switch_to and ftrace_caller are in a kernel with kCFI: nothing calls them through a pointer."""
    binary = open_binary(module)
    assert binary.symbols.find("__kcfi_typeid_assembly") is not None
    assert findings(module) == ()


def test_a_damaged_hash(module: Path) -> None:
    binary = open_binary(module)
    typeid = binary.symbols.find("__kcfi_typeid_traced")
    assert typeid is not None
    good = (typeid.vaddr & 0xFFFFFFFF).to_bytes(4, "little")
    content = module.read_bytes()
    nops = bytes.fromhex("1f2003d5") * 2
    assert content.count(good + nops) == 1  # right before the pair
    module.write_bytes(content.replace(good + nops, bytes(4) + nops))
    (finding,) = findings(module)
    assert finding.code == "PL205"
    assert "expected" in finding.message
