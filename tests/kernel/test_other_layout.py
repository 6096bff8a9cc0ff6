"""Modules with an object of another -fpatchable-function-entry than the rest, as GCC compiles them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_module.build import LINKER_SCRIPT
from tests.support.needs import needs_tools
from tests.support.tool import Tool

_REST = "int rest(int a) { return a + 1; } int more(int a) { return a + 2; } int last(int a) { return a + 3; }"
_ODD = "int outside(int); int exported(int a) { return outside(a) * 7; }"


def mixed(directory: Path, rest: str, odd: str, protection: str) -> Path:
    needs_tools("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld")
    objects = []
    for name, source, layout in (("rest", _REST, rest), ("odd", _ODD, odd)):
        objects.append(directory / f"{name}.o")
        command = ["aarch64-linux-gnu-gcc", "-O2", "-ffreestanding", "-fno-pie", "-falign-functions=8", "-c", "-x", "c"]
        command += ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", f"-mbranch-protection={protection}", "-"]
        command += [f"-fpatchable-function-entry={layout}", "-o", str(objects[-1])]
        subprocess.run(command, input=source, text=True, check=True)
    out = directory / "mixed.ko"
    subprocess.run(["aarch64-linux-gnu-ld", "-r", "-T", LINKER_SCRIPT, "-o", out, *objects], check=True)
    return out


_ENTRY, _LITERAL, _BEFORE = "the second slot is the entry of exported", "write a literal over", "are before the entry"


@pytest.mark.thorough
@pytest.mark.parametrize("protection", ["none", "bti"])
@pytest.mark.parametrize(
    "case",
    [
        ("2", "2,1", "fatal", _ENTRY),
        ("2", "3,1", "fatal", _ENTRY),
        ("2", "4,2", "error", _BEFORE),
        ("2", "6,4", "error", _BEFORE),
        ("2", "1,1", "fatal", _ENTRY),
        ("2", "2,2", "error", _BEFORE),
        ("2", "3,3", "error", _BEFORE),
        ("2", "16,16", "error", _BEFORE),
        ("4,2", "2", "fatal", _LITERAL),
        ("4,2", "5,3", "fatal", _ENTRY),
        ("4,2", "6,4", "error", _BEFORE),
        ("4,2", "1,1", "fatal", _LITERAL),
        ("4,2", "2,1", "fatal", _LITERAL),
        ("4,2", "3,1", "fatal", _LITERAL),
        ("4,2", "3,3", "fatal", _ENTRY),
        ("4,2", "4,4", "error", _BEFORE),
        ("4,2", "6,6", "error", _BEFORE),
    ],
)
def test_an_object_of_another_layout(
    tmp_path: Path, case: tuple[str, str, str, str], protection: str, tool: Tool
) -> None:
    rest, odd, severity, message = case
    ko = mixed(tmp_path, rest, odd, protection)
    before = ko.read_bytes()
    (finding,) = tool("verify", ko, "--json", status=1).json["findings"]
    assert (finding["code"], finding["severity"], finding["symbol"]) == ("PL208", severity, "exported")
    assert f"-fpatchable-function-entry={odd}, the rest with ={rest}: " in finding["message"]
    assert message in finding["message"]
    assert main(["patch", str(ko), "--in-place", "--contract", "native"]) == 2
    assert ko.read_bytes() == before


def test_without_symbols_of_functions_it_is_said_that_nothing_is_known(tmp_path: Path, tool: Tool) -> None:
    ko = mixed(tmp_path, "2", "2,2", "none")
    functions = [f"--strip-symbol={name}" for name in ("rest", "more", "last", "exported")]
    subprocess.run(["aarch64-linux-gnu-objcopy", *functions, ko], check=True)
    assert "and PL112, PL203, PL206 and PL208 at functions with a symbol only" in tool("verify", ko).out


@pytest.mark.parametrize("odd", ["2,2", "3,2"])
def test_an_object_without_slots_where_its_literal_is_right(tmp_path: Path, odd: str, tool: Tool) -> None:
    said = tool("verify", mixed(tmp_path, "4,2", odd, "none"), status=1).out
    assert "PL201 site-not-pair (fatal): 1" in said
    assert "objects of -fpatchable-function-entry=2,2 and =3,2 look like that" in said


@pytest.mark.parametrize("protection", ["none", "bti"])
@pytest.mark.parametrize("layout", ["2", "4,2"])
def test_landing_pads_in_some_objects_are_no_other_layout(tmp_path: Path, layout: str, protection: str) -> None:
    assert main(["verify", str(mixed(tmp_path, layout, layout, protection)), "--quiet"]) == 0
