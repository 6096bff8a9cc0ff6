"""perf.data files: what we write, perf itself prints; what perf wrote, we read; damage is one line."""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from prologue.errors import InputError, OutputError
from prologue.live.pokes.perf_data import PokeRecording, TextPoke, read_perf_data, write_perf_data
from prologue.perf.layout import FILE_HEADER, RECORD
from tests.perf.made import ARM64, NOP, X86
from tests.support.needs import needs_tools


@pytest.mark.parametrize("made", [ARM64, X86], ids=["arm64", "x86"])
def test_what_is_written_reads_back(made: PokeRecording, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    write_perf_data(path, made)
    assert read_perf_data(path) == replace(made, path=str(path))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("made", [ARM64, X86], ids=["arm64", "x86"])
def test_perf_prints_what_was_written(made: PokeRecording, tmp_path: Path) -> None:
    needs_tools("perf")
    path = tmp_path / "perf.data"
    write_perf_data(path, made)
    command = ["perf", "script", "-i", str(path), "--show-text-poke-events", "--ns", "-F", "comm,pid,tid,cpu,time"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    heads = re.findall(
        r"(\d+)/(\d+) +\[(\d+)\] +(\d+)\.(\d{9}): PERF_RECORD_TEXT_POKE (?:0x)?([0-9a-f]+)\b.*"
        r" old len (\d+) new len (\d+)",
        printed,
    )
    assert [(*map(int, head[:5]), int(head[5], 16), *map(int, head[6:])) for head in heads] == [
        (poke.pid, poke.tid, poke.cpu, *divmod(poke.time, 10**9), poke.address, len(poke.old), len(poke.new))
        for poke in made.pokes
    ]
    for which, words in (("Old", [poke.old for poke in made.pokes]), ("New", [poke.new for poke in made.pokes])):
        content = "".join(re.findall(rf"{which} bytes:((?: [0-9a-f]{{2}})+)", printed))
        assert bytes.fromhex(content) == b"".join(words)


def test_perf_knows_the_kernel(tmp_path: Path) -> None:
    needs_tools("perf")
    path = tmp_path / "perf.data"
    write_perf_data(path, ARM64)
    done = subprocess.run(["perf", "buildid-list", "-i", str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [ARM64.build_id, "[kernel.kallsyms]"]


def test_records_among_others_in_another_order(tmp_path: Path) -> None:
    """Between two pokes: what perf lost, a trace's data (not counted in its record's size), and a guest's poke."""
    path = tmp_path / "perf.data"
    write_perf_data(path, replace(ARM64, pokes=ARM64.pokes[1::-1], build_id="", release="", machine="", cpus=0))
    data = bytearray(path.read_bytes())
    start, size = FILE_HEADER.unpack_from(data)[5:7]
    first = RECORD.unpack_from(data, start)[2]
    guest = bytearray(data[start : start + first])
    guest[4] = 4  # PERF_RECORD_MISC_GUEST_KERNEL
    lost = RECORD.pack(2, 0, 24) + (1).to_bytes(8, "little") + (7).to_bytes(8, "little")
    trace = RECORD.pack(71, 0, 16) + (20).to_bytes(8, "little") + b"\xff" * 20
    data[start + first : start + first] = lost + trace + guest
    more = len(lost + trace + guest)
    data[48:56] = (size + more).to_bytes(8, "little")
    path.write_bytes(data)
    assert read_perf_data(path) == PokeRecording(path=str(path), pokes=ARM64.pokes[:2], lost=7, guests=1)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [[], ["-z"], ["-o-"]], ids=["plain", "compressed", "pipe"])
def test_files_of_perf_record(options: list[str], tmp_path: Path) -> None:
    """Real ones, of this machine, whose kernel makes no pokes meanwhile: every record is walked over."""
    needs_tools("perf")
    path = tmp_path / "perf.data"
    where = [] if "-o-" in options else ["-o", str(path)]
    command = ["perf", "record", "-e", "dummy:u", *where, *options, "--", "true"]
    done = subprocess.run(command, capture_output=True, check=False)
    if b"perf_event_paranoid" in done.stderr or b"not permitted" in done.stderr:
        pytest.skip("this machine does not let its users record")
    assert done.returncode == 0, done.stderr
    if not where:
        path.write_bytes(done.stdout)
    found = read_perf_data(path)
    assert (found.pokes, found.lost) == ((), 0)
    assert found.machine == subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.thorough
def test_every_cut_and_many_damages_are_one_line(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole", tmp_path / "perf.data"
    write_perf_data(whole, ARM64)
    data = whole.read_bytes()
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        with pytest.raises(InputError) as caught:
            read_perf_data(path)
        assert "\n" not in str(caught.value)
    chance = random.Random(13)  # noqa: S311  # damage, not secrets
    refused: list[str] = []
    for _ in range(500):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
        path.write_bytes(damaged)
        try:
            read_perf_data(path)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all(said.startswith(f"{path}: ") and "\n" not in said for said in refused)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"2ELIFREP" + data[8:], "big-endian"),
        (lambda data: b"PERFFILE" + data[8:], "version 1"),
        (lambda data: b"\x7fELF" + data[4:], "is not perf.data"),
        (lambda data: data[:48] + bytes(8) + data[56:], "perf record was interrupted"),
    ],
)
def test_files_that_are_not_read(change: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    write_perf_data(path, ARM64)
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]  # a lambda of the list above
    with pytest.raises(InputError, match=message):
        read_perf_data(path)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nothing to write"):
        write_perf_data(tmp_path / "perf.data", replace(ARM64, pokes=()))
    long = TextPoke(address=0xFFFF800080010004, old=b"", new=NOP * 16_384)
    with pytest.raises(OutputError, match="65,536 bytes at 0xffff800080010004"):
        write_perf_data(tmp_path / "perf.data", replace(ARM64, pokes=(long,)))
    assert not list(tmp_path.iterdir())
