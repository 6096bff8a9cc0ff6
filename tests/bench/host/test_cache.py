"""The cache under crashes and under two processes at once."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError
from prologue_bench.host import cache

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
