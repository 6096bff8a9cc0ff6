"""The host: its cache under crashes and two processes at once, children, programs, events of consoles."""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError, MissingToolError
from prologue_bench.host import cache, programs
from prologue_bench.host.child import run_lines
from prologue_bench.host.events import Event, console_end, parse, parse_line
from tests.support.processes import until_gone

# Each run appends a line to a file, so that the test can count how often the work was done.
_SLOW = """
import sys, time
from pathlib import Path
from prologue_bench.host import cache

def make(path):
    with open(sys.argv[1], "a") as done:
        done.write("made\\n")
    path.mkdir()
    (path / "half").write_text("1")
    print("half", flush=True)
    time.sleep(float(sys.argv[2]))
    (path / "whole").write_text("2")

print(cache.produce("things/one", make))
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "prologue"


def _start(count: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SLOW, str(count), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_an_entry_is_made_once(root: Path) -> None:
    made: list[Path] = []

    def make(path: Path) -> None:
        made.append(path)
        path.write_text("content")

    for _ in range(2):
        assert cache.produce("some/file", make) == root / "some/file"
    assert len(made) == 1
    assert (root / "some/file").read_text() == "content"


def test_a_failure_leaves_nothing_and_the_next_try_works(root: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        cache.produce("some/file", fail)
    assert not (root / "some/file").exists()
    cache.produce("some/file", lambda path: path.touch())
    assert {path.name for path in root.rglob("*") if path.is_file() and "lock" not in str(path)} == {"file"}


def test_a_full_disk_is_one_line(root: Path) -> None:
    def fill(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(BenchError, match="no space left for some/file"):
        cache.produce("some/file", fill)
    assert not (root / "some/file").exists()


def test_two_processes_do_the_work_once(tmp_path: Path) -> None:
    count = tmp_path / "count"
    both = [_start(count, 0.5), _start(count, 0.5)]
    outputs = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert len({output.splitlines()[-1] for output in outputs}) == 1
    assert count.read_text() == "made\n"


def test_a_killed_maker_leaves_nothing_that_counts(tmp_path: Path, root: Path) -> None:
    count = tmp_path / "count"
    process = _start(count, 60)
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (root / "things/one").exists()
    assert _start(count, 0).communicate(timeout=600)[0].splitlines()[-1] == str(root / "things/one")
    assert (root / "things/one/whole").read_text() == "2"
    assert list((root / "making").iterdir()) == []
    assert count.read_text() == "made\nmade\n"


def test_a_cache_is_named_by_a_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """apt and make are started in other directories than ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert cache.produce("things/one", Path.touch) == tmp_path / "here" / "prologue" / "things" / "one"


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)  # as in a container that is run under any number
    with pytest.raises(BenchError, match="no home directory for the cache: set XDG_CACHE_HOME"):
        cache.root()


def test_one_who_cannot_hear_on_ends_the_command(tmp_path: Path) -> None:
    """A dump that QEMU refused, for one: nobody is left to end the machine, and its time would have to pass."""
    path, heard = tmp_path / "pid", []

    def hear(line: str) -> None:
        heard.append(line)
        raise ZeroDivisionError(line)

    with pytest.raises(ZeroDivisionError, match=r"^one$"):
        run_lines(["sh", "-c", f"sleep 1000 & echo $! >{path}; echo one; echo two; wait"], 600, hear)
    assert heard == ["one"]
    assert until_gone(int(path.read_text()))


@pytest.mark.parametrize(
    ("name", "package"),
    [("llvm-nm", "llvm"), ("llvm-nm-19", "llvm-19"), ("ld.lld-19", "lld-19"), ("clang-19", "clang-19"), ("bc", "bc")],
)
def test_the_package_of_a_missing_program(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingToolError, match=rf"^{name} is not installed \(Debian package {package}\)$"):
        programs.find(name)


def test_an_arm64_machine_has_a_compiler_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match=r"^ld is not installed \(Debian package binutils\)$"):
        programs.find("aarch64-linux-gnu-ld")
    for name in ("gcc", "ld"):
        (tmp_path / name).touch(0o755)
    assert (programs.cross_prefix(), programs.find("aarch64-linux-gnu-ld")) == ("", str(tmp_path / "ld"))
    for name in ("gcc", "ld"):
        (tmp_path / f"aarch64-linux-gnu-{name}").touch(0o755)
    assert programs.find("aarch64-linux-gnu-ld") == str(tmp_path / "aarch64-linux-gnu-ld")
    assert programs.cross_prefix() == "aarch64-linux-gnu-"


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
