"""A capture by ssh: a shell that reads a kcore's file, the same memory as here, and not a page more than needed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.live.memory import kcore
from prologue.live.memory.kcore import RemoteKcore
from prologue.live.memory.ranges import Range
from prologue.live.memory.sources import open_memory
from tests.live.memory.made import PAGE, loads
from tests.live.memory.test_running import fake_ssh
from tests.support.cores import core, vmcoreinfo


def test_by_ssh(traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that reads the same file: the same memory, in one login."""
    logins = tmp_path / "logins"
    fake_ssh(tmp_path, monkeypatch, f"open({str(logins)!r}, 'a').write('x'); subprocess.run('sh', check=True)")
    monkeypatch.setattr(kcore, "GET", kcore.GET.replace("/proc/kcore", str(traced)))
    end = traced.stat().st_size
    traced.write_bytes(traced.read_bytes().ljust(-(-end // PAGE) * PAGE, b"\0"))  # dd reads whole pages
    assert main(["live", "capture", str(traced), "-o", str(tmp_path / "here"), "-q"]) == 0
    assert main(["live", "capture", "ssh:board", "-o", str(tmp_path / "there"), "-q"]) == 0
    assert logins.read_text() == "x"
    here, there = (open_memory(str(tmp_path / name)) for name in ("here", "there"))
    assert [(vaddr, size) for vaddr, _, size in loads(tmp_path / "there")] == [
        (vaddr, size) for vaddr, _, size in loads(tmp_path / "here")
    ]
    for vaddr, _, size in loads(tmp_path / "here"):
        assert there.read(vaddr, size) == here.read(vaddr, size)


def test_pieces_by_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in blocks and in pages before and after them: every piece whole, and not a page more."""
    data, start = random.Random(1).randbytes(60 * PAGE), 0xFFFF800080000000  # noqa: S311 - not a secret
    path, log = tmp_path / "kcore", tmp_path / "log"
    path.write_bytes(core([(start, 0, data)], [vmcoreinfo()]).ljust(80 * PAGE, b"\0"))
    fake_ssh(tmp_path, monkeypatch, "subprocess.run('sh', check=True)")
    get = kcore.GET.replace("get() {", f'get() {{ echo "$@" >>{log};')  # block size, blocks to skip, blocks
    monkeypatch.setattr(kcore, "GET", get.replace("/proc/kcore", str(path)))
    memory = RemoteKcore("board")
    pieces = [
        Range(start + first, size) for first in range(0, 17 * PAGE, 4000) for size in (8, PAGE, 9 * PAGE, 170_000)
    ]
    log.unlink()
    found = memory.read_many(pieces)
    assert found == [data[piece.vaddr - start : piece.end - start] for piece in pieces]
    asked = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    places = [(memory.core.place_of(*piece), piece.size) for piece in pieces]
    pages = sum(-(-(place + size) // PAGE) - place // PAGE for place, size in places)
    assert sum(size * count for size, _, count in asked) == pages * PAGE
    assert {size for size, _, _ in asked} == {PAGE, 16 * PAGE}
