"""Sites in code that looks like other sites: empty functions, and bodies that begin with NOPs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec, build, link
from tests.mini_module.build import LINKER_SCRIPT
from tests.support.needs import needs_tools
from tests.support.tool import Tool

_NAMES = ("first", "next", "last")
_PADS = {"": "none", "bti c\n": "bti"}


def function(name: str, layout: str, pad: str, body: str = "ret") -> str:
    """A traced function as compilers write it."""
    literal = f".L{name}: nop\nnop\n" if layout == "4,2" else ""
    slots = "nop\nnop\n" if literal else f".L{name}: nop\nnop\n"
    return (
        f".text\n.balign 8\n{literal}.type {name}, %function\n{name}:\n{pad}{slots}{body}\n.size {name}, . - {name}\n"
        f'.section __patchable_function_entries, "awo", %progbits, .text\n.xword .L{name}\n'
    )


def untraced(name: str, words: str) -> str:
    return f".text\n.balign 8\n.type {name}, %function\n{name}:\n{words}\n.size {name}, . - {name}\n"


def assembled(directory: Path, *code: str) -> Path:
    needs_tools("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld")
    compiled = directory / "sites.o"
    assemble = ["aarch64-linux-gnu-gcc", "-c", "-x", "assembler", "-", "-o", str(compiled)]
    subprocess.run(assemble, input="\n".join(code), text=True, check=True)
    return compiled


def module(directory: Path, *code: str) -> Path:
    compiled, out = assembled(directory, *code), directory / "sites.ko"
    subprocess.run(["aarch64-linux-gnu-ld", "-r", "-T", LINKER_SCRIPT, "-o", out, compiled], check=True)
    return out


def require_round_trip(ko: Path, *verify: str) -> None:
    """Process the module and give it back, with both readers, in place and as copies."""
    before, processed, back = ko.read_bytes(), ko.with_name("processed.ko"), ko.with_name("back.ko")
    assert main(["verify", str(ko), *verify]) == 0
    assert main(["patch", str(ko), "-o", str(processed), "--contract", "native"]) == 0
    assert main(["verify", str(processed), "--against", str(ko), *verify]) == 0
    assert main(["patch", str(processed), "-o", str(back), "--reverse"]) == 0
    assert back.read_bytes() == before
    assert main(["patch", str(ko), "--in-place", "--reread", "--contract", "native"]) == 0
    assert ko.read_bytes() == processed.read_bytes()


def test_a_literal_after_a_landing_pad_and_padding_is_no_second_slot(tmp_path: Path) -> None:
    """An untraced function of no more than its pad, then a NOP that aligns: like a pair, but a literal begins there."""
    traced = [function(name, "4,2", "bti c\n") for name in ("first", "second", "third")]
    ko = module(tmp_path, *traced[:2], untraced("empty", "bti c\nnop"), traced[2])
    require_round_trip(ko)


@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize("pad", _PADS, ids=_PADS.values())
@pytest.mark.parametrize("body", ["nop\nnop\nnop\nret", "mov x9, x30\nnop\nnop\nret", ""], ids=["nops", "pair", "none"])
def test_both_readers_agree_on_a_body_that_looks_like_slots(tmp_path: Path, layout: str, pad: str, body: str) -> None:
    """NOPs or a pair after the slots, or the next function's slots after an empty one."""
    code = [function(name, layout, pad, body) for name in ("first", "second", "third")]
    ko = module(tmp_path, *code, untraced("last", "ret"))
    require_round_trip(ko, "--ignore", "PL206")  # a pair in a body


def test_a_function_without_symbol_after_one_of_one_word_is_processed(tmp_path: Path) -> None:
    """The leftover of an overridden weak function, say: its first slot is no second slot of what begins before it."""
    traced = [function(name, "2", "") for name in _NAMES]
    leftover = f"{untraced('one', 'ret')}.Lleftover: nop\nnop\nmov w0, 1\nret\n"
    record = '.section __patchable_function_entries, "awo", %progbits, .text\n.xword .Lleftover\n'
    require_round_trip(module(tmp_path, *traced, leftover + record))


@pytest.mark.parametrize("marker", [1, 2])
def test_an_empty_function_of_a_processed_kernel_has_no_literal(tmp_path: Path, marker: Literal[1, 2]) -> None:
    """Its second slot, the NOP that aligns, and the next function: like CALL_OPS' literal, if records are moved."""
    spec = Spec(bti=True, marker=marker)
    build(spec, tmp_path)
    empty = [function(name, "2", "bti c\n", body) for name, body in (("empty", ""), ("next", "ret"))]
    vmlinux, processed = tmp_path / "vmlinux", tmp_path / "processed"
    assembled(tmp_path, *empty)
    link(spec, [str(path) for path in sorted(tmp_path.glob("*.o"))], vmlinux)
    assert main(["verify", str(vmlinux)]) == 0
    assert main(["patch", str(vmlinux), "-o", str(processed)]) == 0
    assert main(["verify", str(processed), "--against", str(vmlinux)]) == 0


@pytest.mark.parametrize("layout", ["2", "4,2"])
@pytest.mark.parametrize("pad", _PADS, ids=_PADS.values())
@pytest.mark.parametrize("is_processed", [False, True], ids=["untouched", "processed"])
def test_a_module_without_symbols_of_functions_has_the_same_sites(
    tmp_path: Path, layout: str, pad: str, is_processed: bool, tool: Tool
) -> None:
    """``objcopy --strip-unneeded`` leaves none if all functions are static: the MOV belongs into no literal."""
    ko, stripped = module(tmp_path, *(function(name, layout, pad) for name in _NAMES)), tmp_path / "stripped.ko"
    goal, state = (["--reverse"], "processed") if is_processed else (["--contract", "native"], "untouched")
    if is_processed:
        assert main(["patch", str(ko), "--in-place", "--contract", "native"]) == 0
    strip = ["aarch64-linux-gnu-objcopy", *(f"--strip-symbol={name}" for name in _NAMES)]
    subprocess.run([*strip, ko, stripped], check=True)
    (scanned,) = tool("scan", stripped, "--json").json["files"]
    assert (scanned["layout"], scanned["state"], scanned["sites"]) == (layout, state, len(_NAMES))
    for path in (ko, stripped):
        assert main(["patch", str(path), "--in-place", "--reread", *goal]) == 0
    subprocess.run([*strip, ko, tmp_path / "expected.ko"], check=True)
    assert stripped.read_bytes() == (tmp_path / "expected.ko").read_bytes()


def test_both_readers_agree_on_a_stripped_body_that_looks_like_slots(tmp_path: Path) -> None:
    """Without a symbol, the other records say that there are no literals."""
    traced = [function(name, "2", "", "ret") for name in _NAMES]
    odd = function("odd", "2", "", "nop\nnop\nnop\nret")
    ko, stripped = module(tmp_path, *traced, odd), tmp_path / "stripped.ko"
    symbols = [f"--strip-symbol={name}" for name in ("odd", *_NAMES)]
    subprocess.run(["aarch64-linux-gnu-objcopy", *symbols, ko, stripped], check=True)
    require_round_trip(stripped)
