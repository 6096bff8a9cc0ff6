"""Findings that no rule makes: what a release, or a state that was asked for, refuses.

They appear in reports like those of rules. They are not in the registry: nothing can ignore or accept them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from prologue.errors import Location
from prologue.gate.verify import Facts
from prologue.rules.base import FINISH, Finding, Hit, Rule

Required = Literal["untouched", "processed"]

GATE: Final = Rule(
    code="GATE",
    slug="release-gate",
    severity="fatal",
    inputs=("V", "K"),
    what="With `--release`: a vmlinux that is not native and processed; a module that cannot be checked against its "
    "kernel, or that is neither processed nor untouched.",
    why="A release says that only safe live transitions remain. That is proved for a kernel that takes its records as "
    "the build left them, and for modules of which that kernel is known. A stock kernel that was processed is for "
    "bench and lab use.",
    example="a stock kernel, untouched; a native one whose marker is clear; a module without --vmlinux",
    fix="release a kernel with the native contract, processed, and name it when its modules are verified",
    citation='prologue help gate "What a release is"',
)
REQUIRE: Final = Rule(
    code="REQUIRE",
    slug="required-state",
    severity="fatal",
    inputs=("V", "K"),
    what="With `--require`: a file in another state.",
    why="A pipeline that verifies a file before or after its processing has to notice that this is the other one.",
    example="--require processed, and a vmlinux that the build step left out",
    fix="verify the file of that stage, or run the stage that is missing",
    citation='prologue help gate "States"',
)
GATE_RULES: Final = (GATE, REQUIRE)

_WHOLE_FILE: Final = Location(vaddr=None)
_PATCH: Final = "process the vmlinux (`prologue patch VMLINUX --in-place`) and make the Image again"
_LINK: Final = "link it again, process it, and make the Image again"
_RESUME: Final = f"{FINISH}; then make the Image again"
_NATIVE: Final = "release a kernel with the native contract: see prologue help kernel-integration"
_NAME_KERNEL: Final = "name the kernel that loads the module: --vmlinux VMLINUX, or one vmlinux among the files"


def refusals(path: Path, facts: Facts, *, release: bool, require: Required | None) -> list[Finding]:
    """Return what the gate itself has against a file."""
    wrong = _not_releasable(facts) if release else iter(())
    findings = [GATE.finding(str(path), _WHOLE_FILE, Hit(0, message), fix) for message, fix in wrong]
    if require is not None and facts.state not in (require, *(("no sites",) if facts.kind == "module" else ())):
        hit = Hit(0, f"is {_state(facts)}, but must be {require}")
        findings.append(REQUIRE.finding(str(path), _WHOLE_FILE, hit))
    return findings


def _not_releasable(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield message and advice for everything that keeps a file from a release."""
    if facts.kind == "module":
        yield from _module_not_releasable(facts)
    elif facts.state == "no sites":
        yield "has no dynamic ftrace, so nothing was processed or verified", _NATIVE
    elif facts.contract != "native":
        if facts.state in ("processed", "unfinished"):
            yield "processed for the stock contract: for bench and lab use, not for release", _NATIVE
        else:
            yield f"a stock kernel ({_state(facts)}): without the marker it is not for release", _NATIVE
    elif facts.state != "processed":
        fix = _LINK if facts.state == "mixed" else _RESUME if facts.state == "unfinished" else _PATCH
        yield f"a native kernel, but {_state(facts)}: not fully processed", fix


def _module_not_releasable(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the same for a module: a native kernel takes it processed or not (decision 5), but must be known."""
    if facts.vmlinux is None:
        yield "no kernel to check it against", _NAME_KERNEL
    elif facts.vmlinux_release and not facts.release:
        yield f"names no kernel release, so it may not belong to {facts.vmlinux}", "build the module again"
    if facts.state in ("mixed", "unfinished"):
        fix = "build it again" if facts.state == "mixed" else f"{FINISH}, or build it again"
        yield f"is {_state(facts)}: neither processed nor untouched", fix


def _state(facts: Facts) -> str:
    return "without sites" if facts.state == "no sites" else facts.state
