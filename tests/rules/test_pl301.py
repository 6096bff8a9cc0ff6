"""PL301 where it depends on the release, on the rest of a section, and on a function's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.rules.pl301_site_in_untraceable_code import TRACERS
from tests.mini_kernel.build import Spec
from tests.rules.fixture import judged
from tests.rules.records import set_release
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit, edit

BOUNDS = ("aarch64_insn_patch_text_nosync", "aarch64_insn_write_literal_u64")  # names that are long enough


def fired(path: Path) -> list[str | None]:
    """Functions in which the rule sees a site."""
    return [finding.where.symbol for finding in judged(path, "PL301")]


def bound(elf: ElfEdit, section: str, low: int, high: int) -> None:
    """Let a section of the kernel begin and end there."""
    for old, what, value in zip(BOUNDS, ("start", "end"), (low, high), strict=True):
        elf.set_symbol(old, value=value)
        elf.rename_symbol(old, f"__{section}_text_{what}")


@pytest.mark.parametrize(
    ("section", "release", "fires"),
    [
        ("cpuidle", "6.1.0", False),
        ("cpuidle", "6.12.0", True),
        ("kprobes", "6.12.0", False),
        ("kprobes", "7.2.0", True),
        ("cpuidle", "8.0.0", False),  # never compared: its number says nothing
        ("kprobes", "8.0.0", False),
    ],
)
def test_releases(mini: Mini, section: str, release: str, *, fires: bool) -> None:
    """6.1 traces all of both sections, and that is no fault."""
    with edit(mini(Spec())) as elf:
        set_release(elf, release)
        start = elf.value("work_leaf")
        bound(elf, section, start, start + 8)
    assert fired(elf.path) == (["work_leaf"] if fires else [])


@pytest.mark.parametrize("section", ["cpuidle", "kprobes"])
def test_the_one_traced_function_of_a_section(mini: Mini, section: str) -> None:
    """Stable releases leave sections out earlier than their number says: the section's other functions show it."""
    with edit(mini(Spec())) as elf:
        set_release(elf, "6.1.0")
        functions = sorted(s["st_value"] for s in elf.symbols.values() if s["st_info"]["type"] == "STT_FUNC")
        leaf = functions.index(elf.value("work_local"))  # what comes before it is not traced
        bound(elf, section, functions[leaf - 10], functions[leaf] + 8)
    assert fired(elf.path) == ["work_local"]


def test_an_object_of_which_nothing_is_traced_says_nothing(mini: Mini) -> None:
    """5.10 builds insn.o without the NOPs: most of .kprobes.text, whose other functions it traces."""
    with edit(mini(Spec())) as elf:
        set_release(elf, "5.10.0")
        functions = sorted(s["st_value"] for s in elf.symbols.values() if s["st_info"]["type"] == "STT_FUNC")
        leaf = functions.index(elf.value("work_local"))
        bound(elf, "kprobes", functions[leaf - 5], functions[leaf] + 8)  # aarch64_insn_... before it
    assert fired(elf.path) == []


@pytest.mark.parametrize("name", TRACERS)
def test_what_ftrace_itself_runs(mini: Mini, name: str) -> None:
    with edit(mini(Spec())) as elf:
        if name not in elf.symbols:
            elf.rename_symbol(BOUNDS[0], name)
        elf.set_symbol(name if name in elf.symbols else BOUNDS[0], value=elf.value("work_leaf"))
    assert len(fired(elf.path)) == 1
    with edit(elf.path) as elf:
        elf.set_symbol(name, value=elf.value("work_leaf") + 8)
    assert fired(elf.path) == []


def test_ftrace_s_own_functions_in_a_release_that_is_not_known(mini: Mini) -> None:
    with edit(mini(Spec())) as elf:
        set_release(elf, "8.0.0")
        elf.set_symbol("ftrace_call_adjust", value=elf.value("work_leaf"))
    (finding,) = judged(elf.path, "PL301")
    assert finding.severity == "warn"
    assert finding.message.endswith("whether it may be traced is not known for 8.0")
