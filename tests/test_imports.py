"""Imports go down only, in the order of docs/design; and the build step starts light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import prologue

ROOT = Path(prologue.__file__).parent
# Ground floor first. A module may import from its own floor and from those before it.
FLOORS = (
    "errors",
    "a64",
    "cmodx",
    "disasm",
    "elf",
    "sites",
    "plan",
    "rules",
    "config",
    "baseline",
    "apply",
    "reread",
    "reread_module",
    "readback",
    "verify",
    "parallel",
    "report",
    "kernel",
    "cli",
)


def floor_of(module: str) -> int:
    parts = module.split(".")
    return FLOORS.index(parts[1]) if len(parts) > 1 else -1


def test_imports_go_down_only() -> None:
    files = [p for p in ROOT.rglob("*.py") if p.name not in ("__init__.py", "__main__.py") or p.parent != ROOT]
    assert len(files) > 30
    for path in files:
        here = "prologue." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("prologue."):
                assert floor_of(node.module) <= floor_of(here), f"{here} imports {node.module}"


@pytest.mark.parametrize("heavy", ["lief", "capstone", "rich", "tabulate", "scipy", "matplotlib"])
def test_the_build_step_does_not_load(heavy: str) -> None:
    code = (
        "import sys, prologue.cli.patch, prologue.cli.main, prologue.cli.parser as p; p.build_parser();"
        f"sys.exit({heavy!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
