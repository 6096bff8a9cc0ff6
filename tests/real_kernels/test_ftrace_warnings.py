"""``arch/arm64/kernel/ftrace.c`` compiles after each patch, in every configuration, without a new warning."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from prologue.kernel_tree.git import apply_changes
from prologue.kernel_tree.patches import load_patch
from prologue.kernel_tree.source import OPTION
from tests.support.one_object import SOURCE, OneObject, needs_one_object
from tests.support.trees import SOURCES

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1200)]

DYNAMIC: Final = "DYNAMIC_FTRACE"
WITH: Final = {name: f"{DYNAMIC}_WITH_{name}" for name in ("REGS", "ARGS", "CALL_OPS", "DIRECT_CALLS")}
BTI: Final = "ARM64_BTI_KERNEL"
ALL: Final = (DYNAMIC, *WITH.values(), *(f"HAVE_{name}" for name in WITH.values()), OPTION, BTI)
# What Kconfig allows; each one needs those before it. 6.12 and later select DYNAMIC_FTRACE with the tracer.
_REGS: Final = ((), (DYNAMIC,), (DYNAMIC, "REGS"))
_ARGS: Final = (
    (DYNAMIC,),
    (DYNAMIC, "ARGS"),
    (DYNAMIC, "ARGS", "CALL_OPS"),
    (DYNAMIC, "ARGS", "CALL_OPS", "DIRECT_CALLS"),
)
# 7.3 needs no CALL_OPS for direct calls.
_DIRECT: Final = (*_ARGS, (DYNAMIC, "ARGS", "DIRECT_CALLS"))
ALLOWED: Final[dict[str, tuple[tuple[str, ...], ...]]] = {"6.1": _REGS, "6.12": _ARGS, "7.2": _ARGS, "7.3": _DIRECT}


# Their C is alike; the oldest and the newest tree have headers of their own.
EXTENDED: Final = ("6.12", "7.2")
PARAMS: Final = [pytest.param(name, marks=[pytest.mark.extended] * (name in EXTENDED)) for name in SOURCES]


@pytest.fixture(scope="module", params=PARAMS)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def compiled(release: str) -> OneObject:
    return needs_one_object(release)


def configurations(release: str) -> list[tuple[str, ...]]:
    """The options that are on, except ours; with and without landing pads in turn, all of them with both."""
    named = [tuple(chain.from_iterable(_options(name) for name in names)) for names in ALLOWED[release]]
    in_turn = [(*names, *(BTI,) * (number % 2)) for number, names in enumerate(named)]
    return [*in_turn, *({named[-1], (*named[-1], BTI)} - {*in_turn})]


def _options(name: str) -> tuple[str, ...]:
    return (name,) if name == DYNAMIC else (WITH[name], f"HAVE_{WITH[name]}")


def test_no_patch_adds_a_warning(release: str, compiled: OneObject, tmp_path: Path) -> None:
    patches = load_patch(release).patches
    names = {change.path for patch in patches for change in patch.changes if change.path.endswith(".h")}
    contents: dict[str, bytes | None] = {name: compiled.read(name) for name in (SOURCE, *sorted(names))}
    before = {on: _warnings(compiled, contents, on, tmp_path) for on in configurations(release)}
    steps = []
    for patch in patches:
        ours = [change for change in patch.changes if change.path in contents]
        if not ours:
            continue
        diff = b"".join(change.text for change in ours)
        contents |= apply_changes(diff, {change.path: contents[change.path] for change in ours})
        steps.append(patch.step)
        for on, warnings in before.items():
            assert _warnings(compiled, contents, on, tmp_path) == warnings, (patch.step, on)
            if patch.step == "marker" and {WITH["REGS"], WITH["ARGS"]} & {*on}:
                assert _warnings(compiled, contents, (*on, OPTION), tmp_path) == warnings, (OPTION, on)
    assert steps == ["literals", "records", "loop", "accept", "marker"]


def test_a_function_without_use_would_be_seen(release: str, compiled: OneObject, tmp_path: Path) -> None:
    """As one that only some configurations use."""
    contents: dict[str, bytes | None] = {SOURCE: compiled.read(SOURCE)}
    source = compiled.read(SOURCE) + b"#ifdef CONFIG_ARM64_BTI_KERNEL\nstatic int idle(void) { return 0; }\n#endif\n"
    with_idle = contents | {SOURCE: source}
    on = next(options for options in configurations(release) if BTI in options)
    more = set(_warnings(compiled, with_idle, on, tmp_path)) - set(_warnings(compiled, contents, on, tmp_path))
    assert len(more) == 1
    assert "idle" in more.pop()
    assert _warnings(compiled, with_idle, on[:-1], tmp_path) == _warnings(compiled, contents, on[:-1], tmp_path)


def _warnings(compiled: OneObject, contents: dict[str, bytes | None], on: tuple[str, ...], scratch: Path) -> list[str]:
    files = {name: content for name, content in contents.items() if content is not None}
    return compiled.warnings(files, on, [name for name in ALL if name not in on], scratch)
