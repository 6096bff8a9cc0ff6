"""The bisection: every series has its source, and what a build or a boot complains of is on its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.kernel_tree.patches import all_series
from prologue.kernel_tree.source import OPTION, SORTTABLE
from prologue_bench.guest.vm import GuestRun
from prologue_bench.host.events import Event
from tests.kernels import bisect, soak


def test_every_series_has_a_source() -> None:
    assert set(all_series()) - bisect.SUITES.keys() == {"6.6", "6.18"}  # of which Debian has none


def test_forms_follow_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patched: list[tuple[str, ...]] = []
    monkeypatch.setattr(bisect, "tool", lambda *words: patched.append(words))
    (tmp_path / "out").mkdir()
    (tmp_path / "scripts").mkdir()
    configs = ("CONFIG_ARM64=y\n", f"CONFIG_{OPTION}=y\n")
    forms = [[form for form, _ in bisect._forms(tmp_path / "out", config)] for config in configs]
    assert forms == [["linked"], ["linked", "processed"]]
    assert [words[0] for words in patched] == ["patch"]
    (tmp_path / SORTTABLE).touch()
    forms = [[form for form, _ in bisect._forms(tmp_path / "out", config)] for config in configs]
    assert forms == [["linked"], ["by-sorttable"]]


def test_what_a_boot_did_not_do_is_a_problem() -> None:
    def problems(*events: Event, lines: tuple[str, ...] = ()) -> list[str]:
        run = GuestRun(events=events, command="", log=Path("log"), seconds=1.0, lines=lines)
        return soak._problems(run, traces=1)

    traced = Event("traced", {"entries": 7})
    well = (traced, Event("kprobe", {"hits": 3}), Event("instance", {"entries": 4, "other": 5}))
    assert problems(*well) == []
    assert problems(*well, lines=("[ 1.0] WARNING: CPU: 0",)) == ["[ 1.0] WARNING: CPU: 0"]
    assert problems() == ["entries of the traces: []"]
    for event in (
        Event("kprobe", {"hits": 0}),
        Event("instance", {"entries": 4, "other": 0}),
        Event("result", {"what": "kprobe 4", "ok": False}),
        Event("error", {"what": "no hackbench"}),
    ):
        assert problems(traced, event) == [f"{event.name}: {event.data}"]
