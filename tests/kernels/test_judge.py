"""What a boot must have shown: samples used, changes that each state allows, and no word left undecided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prologue_bench.guest.vm import GuestRun, Machine
from prologue_bench.host.events import Event
from tests.kernels.boots import STATES, Audited, Booted, audited
from tests.kernels.files import Form
from tests.kernels.judge import _audits, _direct, _livepatched, _written
from tests.kernels.recipes import KERNELS
from tests.kernels.table import Seen, row
from tests.mini_kernel.build import Spec
from tests.rules.fixture import as_running, process
from tests.support.built import Mini
from tests.support.needs import needs_tools

Judge = Callable[[Booted], Iterator[str]]

N = 15000


def booted(
    directory: Path,
    *audits: Audited,
    modules: tuple[str, ...] = (),
    events: tuple[Event, ...] = (),
    processed: bool = True,
) -> Booted:
    paths = tuple(directory / f"{name}.ko" for name in modules)
    form = Form(processed=processed, directory=directory, vmlinux=directory / "vmlinux", modules=paths)
    run = GuestRun(events=events, command="", log=directory / "log", seconds=1.0)
    return Booted(form=form, machine=Machine(), run=run, audits=audits, toggles=20, tests_at_boot=True)


def direct(tracer: str, calls: int) -> Event:
    return Event("direct", {"tracer": tracer, "calls": calls})


def livepatch(tracer: str, patched: int) -> Event:
    return Event("livepatch", {"tracer": tracer, "patched": patched})


PATCHED = (livepatch("nop", 1), livepatch("function", 1), livepatch("unloaded", 0))


@pytest.mark.parametrize(
    ("judge", "module", "events", "wrong"),
    [
        (_direct, "ftrace-direct", (direct("nop", 3), direct("function", 5)), 0),
        (_direct, "ftrace-direct", (direct("nop", 3), direct("function", 0)), 1),
        (_direct, "ftrace-direct", (), 1),
        (_direct, "overlay", (), 0),
        (_livepatched, "livepatch-sample", PATCHED, 0),
        (_livepatched, "livepatch-sample", (*PATCHED[:1], livepatch("function", 0), *PATCHED[2:]), 1),
        (_livepatched, "livepatch-sample", (*PATCHED[:2], livepatch("unloaded", 1)), 1),
        (_livepatched, "livepatch-sample", (), 1),
        (_livepatched, "overlay", (), 0),
    ],
)
def test_a_kernel_with_a_sample_module_used_it(
    tmp_path: Path, judge: Judge, module: str, events: tuple[Event, ...], wrong: int
) -> None:
    assert len(list(judge(booted(tmp_path, modules=(module,), events=events)))) == wrong


@pytest.mark.parametrize(
    ("processed", "state", "words", "wrong"),
    [
        (True, "untraced", (0, 0, 0), 0),
        (True, "untraced", (1, 0, 0), 1),
        (True, "untraced", (0, 1, 0), 1),
        (True, "untraced", (0, 0, 2), 1),
        (False, "untraced", (N, 0, 0), 0),
        (False, "untraced", (0, 0, 0), 1),  # it writes the MOVs at boot
        (False, "untraced", (N, 0, 2 * N), 1),  # but no literal
        (True, "idle", (0, 0, 2 * N), 0),
        (True, "idle", (0, N, 2 * N), 1),
        (True, "idle", (0, 0, 0), 1),  # it was traced: its literals are set
        (True, "idle", (0, 0), 0),  # layout 2 has no literals
        (True, "function", (1, N, 2 * N), 0),  # a probe is on a first slot
        (True, "function", (N, N, 2 * N), 1),
        (True, "function", (0, 0, 2 * N), 1),
        (True, "from the start", (0, N, 2 * N), 0),
        (True, "livepatch", (0, 1, 2 * N), 0),
        (False, "after", (N, 0, 2 * N), 0),
    ],
)
def test_words_of_ftrace_that_may_differ(
    tmp_path: Path, state: str, words: tuple[int, ...], wrong: int, *, processed: bool
) -> None:
    changed = dict(zip(("first slots", "second slots", "CALL_OPS literals"), words, strict=False))
    audit = Audited(state, (), 10 * N, changed, {})
    assert len(list(_written(booted(tmp_path, audit, processed=processed), audit))) == wrong


def all_states(unsure: dict[str, int]) -> list[Audited]:
    return [Audited(state, (), 9000, {"second slots": 2000 * state.startswith("function")}, unsure) for state in STATES]


def test_undecided_words_are_counted_by_mechanism(mini: Mini) -> None:
    """Of the mini kernel nothing says which second slots are traced."""
    vmlinux, source = map(Path, as_running(process(mini(Spec(form="relr"))), {}))
    said = audited(vmlinux, source, "idle")
    assert (said.problems, said.unsure) == ((), {"second slots": 15})


@pytest.mark.parametrize(
    ("unsure", "failures"),
    [({}, 0), ({"runtime constants": 64}, len(STATES)), ({"CALL_OPS literals": 2}, len(STATES))],
)
def test_no_word_may_be_left_undecided(tmp_path: Path, unsure: dict[str, int], failures: int) -> None:
    problems = list(_audits(booted(tmp_path, *all_states(unsure))))
    assert len(problems) == failures
    assert all("not decided" in line for line in problems)


def test_what_the_table_says_of_audits(tmp_path: Path) -> None:
    needs_tools("aarch64-linux-gnu-gcc")
    kernel = next(one for one in KERNELS.values() if one.recipe.toolchain == "gcc")
    cells = row(Seen(kernel, None, {}, (booted(tmp_path, *all_states({})),), {}))
    assert cells["audit"] == "4 clean, up to 2,000 words changed"
