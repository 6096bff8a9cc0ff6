"""Parameters without a location at a function's entry: Clang's begin after the landing pad, and some are never used."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.dwarf.debug_info import open_debug
from prologue.dwarf.dwarf_entries import readable_dwarf
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.probe.arguments import find_arguments
from prologue.probe.scopes import CodeBefore, Scope
from tests.mini_kernel.build import run_command
from tests.probe.test_scopes import NO_DATA
from tests.support.needs import needs_tools

_SOURCE = "long _start(long first, int second, long third)\n{\n\treturn first + third;\n}\n"


@pytest.mark.parametrize("keeps", [True, False])
def test_a_parameter_without_a_location(keeps: bool, tmp_path: Path) -> None:
    needs_tools("clang", "ld.lld")
    source, path = tmp_path / "made.c", tmp_path / "made"
    source.write_text(_SOURCE)
    flags = [
        "--target=aarch64-linux-gnu",
        "-O2",
        "-g",
        "-mbranch-protection=bti",
        "-nostdlib",
        "-static",
        "-fuse-ld=lld",
    ]
    run_command(["clang", *flags, "-o", str(path), str(source)])
    with readable_dwarf(path, "debug information"):
        debug, start = open_debug(ElfImage(path)), Symbols(ElfImage(path)).find("_start")
        assert debug is not None
        assert start is not None
        found = debug.function_at(start.vaddr)
        assert found is not None
        before = CodeBefore(keeps_arguments=keeps, has_set=lambda _: False)
        arguments, omitted = find_arguments(None, Scope(*found, start.vaddr, code_before=before), NO_DATA)
    wanted = ["first=%x0:s64", "second=%x1:s32", "third=%x2:s64"]
    assert [str(argument) for argument in arguments] == (wanted if keeps else [])
    assert [each.asked for each in omitted] == ([] if keeps else ["first", "second", "third"])
