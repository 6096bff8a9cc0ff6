"""What a rule's fixture is: a file that fires exactly the rule, and a twin, as near as can be, that fires nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from prologue.cli.main import main
from prologue.kernel.load import open_binary
from prologue.rules.base import Finding, Rule, Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import find_rule
from tests.mini_kernel.build import Contract
from tests.support.built import AnySpec, Mini
from tests.support.cores import SLIDE, running
from tests.support.elf_edit import ElfEdit, edit

Arguments = list[str | Path]  # of the fixture's command
Maker = Callable[[Mini], Arguments]

MOV_X5_X5 = 0xAA0503E5
B_LABEL_TARGET = 0x14000002  # what the jump label's instruction is while the label is on


@dataclass(frozen=True, slots=True)
class Fixture:
    """Both files of a rule; each maker returns what ``prologue verify`` is given."""

    broken: Maker
    healthy: Maker
    symbol: str | None = None  # of the finding's place, where it has one
    contract: Contract = "native"
    command: tuple[str, ...] = ("verify",)
    status: int | None = None  # of the command; the severity's, if None
    fix: str = ""  # the advice for that place, if it is not the rule's
    finished: bool = False  # by `patch`, which takes it for the work of an interrupted run


# The mini kernel has no ftrace: no records say which of its second slots are traced.
AUDIT: Final = ("live", "audit", "--allow-undecided")
_TABLES: Final = {"PL1": "records", "PL2": "sites", "PL3": "code", "PL4": "build_steps", "PL5": "running"}


def made(spec: AnySpec, change: Callable[[ElfEdit], None] | None = None, *, processed: bool = False) -> Maker:
    """Return a maker of the file of a spec, which is processed, if it is to be, before it is changed."""

    def make(mini: Mini) -> Arguments:
        path = process(mini(spec)) if processed else mini(spec)
        if change is not None:
            with edit(path) as elf:
                change(elf)
        return [path]

    return make


def as_running(path: Path, changes: Mapping[int, int], slide: int = SLIDE) -> Arguments:
    """A processed kernel and the core of it while it runs, with words changed by link-time address."""
    source = path.with_name("core")
    source.write_bytes(running(path, changes, slide))
    return [path, source]


def fixtures(group: str) -> dict[str, Fixture]:
    """Return those of a group such as PL1, by code; modules for running kernels are imported for these only."""
    table: dict[str, Fixture] = import_module(f"tests.rules.{_TABLES[group]}").FIXTURES
    return table


def fixture_of(rule: Rule) -> Fixture:
    """Return the fixture of a rule."""
    return fixtures(rule.code[:3])[rule.code]


def judged(path: Path, *codes: str) -> tuple[Finding, ...]:
    """Return what these rules say of a file."""
    return run_rules(Subject(open_binary(path)), tuple(find_rule(code) for code in codes))


def forget(elf: ElfEdit, first: int) -> None:
    """Remove a pair whose record the fixture removes: it must not break PL206, too."""
    elf.set_word(first, MOV_X5_X5)


def process(path: Path, contract: str = "auto") -> Path:
    """Give the file its prologues."""
    assert main(["patch", str(path), "--in-place", "--contract", contract]) == 0
    return path


def copy_before(path: Path) -> Path:
    """Copy the file before it changes."""
    return Path(shutil.copy(path, path.with_name("before")))
