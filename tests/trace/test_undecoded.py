"""Bytes of a trace that no decoder could decode are counted, and a verdict over the others says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from prologue.trace.coresight import process
from prologue.trace.etm.snapshot import write_snapshot
from tests.support.cs_etm import CsTrace
from tests.support.cs_recording import ROUND, TEXT, stream, walk
from tests.support.tool import Tool
from tests.trace.made import KERNEL, Run

pytestmark = pytest.mark.usefixtures("opencsd")

ROUNDS = 2000  # 46 KB, with an A-Sync every 4 KiB
FRAMED = pytest.mark.parametrize("raw", [True, False], ids=["raw", "frames"])


def content(data: bytes, **how: Any) -> CsTrace:
    return CsTrace(streams={0: data}, text=(KERNEL.base, 4 * len(KERNEL.words)), **how)


@FRAMED
def test_a_whole_trace_has_no_such_bytes(run: Run, raw: bool) -> None:
    out, err, _ = run("check", content(stream(ROUNDS), raw=raw))
    assert out == f"{ROUNDS * len(ROUND) - 1:,} steps, none impossible\n"
    assert "not decoded" not in err


@FRAMED
def test_records_that_begin_in_mid_stream(run: Run, raw: bool) -> None:
    """As those after an overflow of TRBE: what comes before their first A-Sync is lost."""
    data = stream(ROUNDS)
    printed = run("check", content(data, raw=raw, parts=3), "--json")
    document = printed.json
    (counts,) = document["bytes"]
    assert (counts["cpu"], counts["bytes"]) == (0, len(data))
    assert 0 < counts["not_decoded"] < 2 * 4200
    assert document["steps_judged"] < ROUNDS * len(ROUND) * (1 - counts["not_decoded"] / len(data) / 2)
    share = 100 * counts["not_decoded"] / len(data)
    said = f"{counts['not_decoded']:,} of {len(data):,} bytes of trace ({share:.2f}%) were not decoded"
    assert f"note: CPU 0: {said}\n" in printed.err
    out = run("check", content(data, raw=raw, parts=3)).out
    assert out == f"{document['steps_judged']:,} steps, none impossible; {said}\n"


@FRAMED
def test_below_half_nothing_is_decided(run: Run, raw: bool) -> None:
    """One A-Sync, and the stream cut in three: two thirds of it are lost."""
    data = stream(100)
    out = run("check", content(data, raw=raw, parts=3), status=5).out
    assert out.endswith("were not decoded: not decided\n")
    assert f" of {len(data):,} bytes of trace (6" in out
    assert "not decided" in run("check", content(data, raw=raw, parts=3), "--format", "html", status=5).out


@FRAMED
def test_after_an_error_until_the_next_a_sync(run: Run, raw: bool) -> None:
    data = stream(ROUNDS)
    at = data.index(b"\xf7\x9d", 6000) + 1
    until = data.index(bytes(11) + b"\x80", at)
    damaged = data[:at] + b"\x20" + data[at:]  # a reserved header
    out, err, _ = run("check", content(damaged, raw=raw))
    lost = int(out.split("; ")[1].split(" of ")[0].replace(",", ""))
    assert until - at <= lost <= until - at + 20
    assert "error of the decoder" in err


@FRAMED
@pytest.mark.parametrize("first", [2, 1], ids=["in the last third", "from the second third on"])
def test_a_decoder_that_crashes(run: Run, raw: bool, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = process._Child._decode

    def crash(self: Any, part: process.TracePart, base: int) -> str:
        if part in self._job.parts[first:]:
            os.kill(os.getpid(), signal.SIGSEGV)
        return whole(self, part, base)

    monkeypatch.setattr(process._Child, "_decode", crash)
    data = stream(ROUNDS)
    data += b"\x70" * (-len(data) % (14 * 16))  # packets that say nothing, up to the end of frames
    out, err, _ = run("check", content(data * 3, raw=raw, parts=3), status=0 if first == 2 else 5)
    assert f" of {3 * len(data):,} bytes of trace ({33 * (3 - first)}." in out
    assert "the decoder crashed (SIGSEGV)" in err


def test_a_core_of_m_profile_is_refused_by_name(tmp_path: Path, tool: Tool) -> None:
    write_snapshot(walk(5), TEXT, tmp_path / "snapshot", levels=(1,))
    core = tmp_path / "snapshot" / "cpu0.ini"
    core.write_text(core.read_text().replace("type=ARM-AA64", "type=Cortex-M33"))
    vmlinux = KERNEL.write(tmp_path / "vmlinux")
    printed = tool("trace", "check", tmp_path / "snapshot", "--vmlinux", vmlinux, status=2)
    assert "its trace units are ETM4 of Cortex-M33, whose M-profile code is not read" in printed.err
