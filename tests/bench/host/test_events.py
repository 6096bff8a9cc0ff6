"""The console parser on kept logs, one per way in which a boot can go."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue_bench.host.events import Event, console_end, parse, parse_line

_LOGS = Path(__file__).parent / "consoles"


def _events(name: str) -> list[Event]:
    return parse((_LOGS / f"{name}.log").read_text(encoding="utf-8").splitlines(), "5eed5eed")


def test_clean_boot_gives_every_event_also_after_a_kernel_message() -> None:
    events = _events("clean")
    assert [event.name for event in events] == ["start", "traced", "end"]
    assert events[0].data == {"release": "6.1.0-56-cloud-arm64", "cpus": 2, "functions": 36784}
    assert events[1].data["entries"] == 1988


def test_dead_ftrace_is_told_by_the_guest() -> None:
    events = _events("ftrace_bug")
    assert [event.name for event in events] == ["start", "error", "dmesg", "dmesg", "end"]
    assert "ftrace_bug" in events[2].data["line"]
    assert events[-1].data == {"functions": 0, "taint": 512}


def test_panic_tears_a_line_and_leaves_no_end() -> None:
    assert [event.name for event in _events("panic")] == ["start"]


def test_hang_leaves_no_end_and_another_boots_token_counts_for_nothing() -> None:
    assert [event.name for event in _events("hang")] == ["start"]


@pytest.mark.parametrize("after", ["[   20.079167] reboot: Power down", " ", "[12345.000001] a: b"])
def test_a_kernel_message_may_stand_after_an_event(after: str) -> None:
    """The kernel is quicker than the terminal, which has the line's end still to print."""
    assert parse_line(f'@t {{"event": "end", "taint": 0}}{after}', "t") == Event("end", {"taint": 0})


@pytest.mark.parametrize("before", ['@t {"event": "val', '@t {"event": "value", "run": 2}', "@t "])
def test_an_event_after_one_whose_line_was_cut_off(before: str) -> None:
    """A board that lost its power prints no line end: its next boot goes on there."""
    assert parse_line(f'{before}@t {{"event": "begin"}}', "t") == Event("begin", {})


@pytest.mark.parametrize(
    "line",
    [
        "", "@t", "@t ", "@t {", "@t []", "@t 7", '@t {"event"}', 't {"event": "end"}',
        '@t {"event": "end"}}', '@t {"event": "end"}[   20.07] a', '@t {"event": "end"} x [   20.079167] a',
    ],
)  # fmt: skip
def test_broken_lines_are_no_events(line: str) -> None:
    assert parse_line(line, "t") is None


def test_the_end_of_a_console_says_where_the_rest_is() -> None:
    lines = ["first", "", "second", "last"]
    assert console_end(lines, Path("log"), 2) == "console in log, its end:\n  second\n  last"
    assert console_end([], None) == "console, its end:\n  (nothing)"
