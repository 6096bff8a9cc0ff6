"""A capture by ssh: a shell that reads a kcore's file, the same memory as here, and not a page more than needed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import cast

import pytest

from prologue.cli.main import main
from prologue.live.memory import kcore
from prologue.live.memory.kcore import RemoteKcore
from prologue.live.memory.ranges import Range
from prologue.live.memory.reading import read_until_stable
from prologue.live.memory.sources import open_memory
from tests.live.memory.made import PAGE, loads
from tests.live.memory.test_running import fake_ssh
from tests.support.cores import core, vmcoreinfo


def point_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the shell read that file in place of /proc/kcore."""
    for name in ("GET", "SUM"):
        monkeypatch.setattr(kcore, name, getattr(kcore, name).replace("/proc/kcore", str(path)))


def logged(path: Path, log: Path) -> str:
    """The same, and what is read is noted: block size, blocks to skip, blocks."""
    return kcore.GET.replace("/proc/kcore", str(path)).replace("get() {", f'get() {{ echo "$@" >>{log};')


def test_by_ssh(traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that reads the same file: the same memory, in one login."""
    logins = tmp_path / "logins"
    fake_ssh(tmp_path, monkeypatch, f"open({str(logins)!r}, 'a').write('x'); subprocess.run('sh', check=True)")
    point_at(traced, monkeypatch)
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
    point_at(path, monkeypatch)
    monkeypatch.setattr(kcore, "GET", logged(path, log))
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


@pytest.mark.parametrize("tools", ["md5sum", "sha1sum", "sha256sum", ""])
def test_a_second_reading_by_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: str) -> None:
    """Of what did not change only a checksum is sent, if the machine has a program for it."""
    size, start = 3 * (1 << 20) + 20, 0xFFFF800080000000
    data = bytearray(random.Random(2).randbytes(size))  # noqa: S311 - not a secret
    path, sent = tmp_path / "kcore", tmp_path / "sent"
    whole = core([(start, 0, bytes(data))], [vmcoreinfo()])
    place = whole.index(bytes(data[:64]))
    path.write_bytes(whole.ljust(4 << 20, b"\0"))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("dd", "head", "sh", *filter(None, [tools])):
        (programs / name).symlink_to(cast("str", shutil.which(name)))
    fake_ssh(tmp_path, monkeypatch, f"subprocess.run('sh', env={{'PATH': {str(programs)!r}}}, check=True)")
    point_at(path, monkeypatch)
    monkeypatch.setattr(kcore, "GET", logged(path, sent))
    memory = RemoteKcore("board")
    ranges = [Range(start, 5000), Range(start + 8, size - 8)]
    before = memory.read_many(ranges)
    for changes in ((), (0, 1 << 20, size - 1)):
        for at in changes:
            data[at] ^= 1
        path.write_bytes(whole.replace(whole[place : place + size], bytes(data)).ljust(4 << 20, b"\0"))
        sent.unlink()
        assert memory.read_again(ranges, before) == [(bytes(data[:5000]), False), (bytes(data[8:]), False)]
        count = sum(int(block) * int(blocks) for block, _, blocks in map(str.split, sent.read_text().splitlines()))
        assert (count < 10 * PAGE) == (bool(tools) and not changes)
        assert (count < size) == bool(tools)


def test_a_change_that_only_the_checksum_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was another a moment ago, and is as before when it is sent: the kernel is at work, so it is read again."""
    start, data = 0xFFFF800080000000, bytes(1 << 20)
    path, moment, asked = tmp_path / "kcore", tmp_path / "moment", tmp_path / "asked"
    whole = core([(start, 0, data)], [vmcoreinfo()]).ljust(2 << 20, b"\0")
    path.write_bytes(whole)
    moment.write_bytes(whole[: 1 << 19] + b"\1" + whole[(1 << 19) + 1 :])
    fake_ssh(tmp_path, monkeypatch, "subprocess.run('sh', check=True)")
    point_at(path, monkeypatch)
    chosen = f"echo >>{asked}; file={path}; [ -e {moment} ] && mv {moment} {moment}.1 && file={moment}.1\n"
    monkeypatch.setattr(kcore, "SUM", chosen + kcore.SUM.replace(str(path), '"$file"'))
    (found,) = read_until_stable(RemoteKcore("board"), [Range(start, 1 << 20)])
    assert (found.data, found.unstable) == (data, ())
    assert asked.read_text() == "\n\n"
