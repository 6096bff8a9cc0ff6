"""Bytes of a trace that no decoder could decode are counted, and a verdict over the others says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.trace.coresight import process
from prologue.trace.etm.snapshot import write_snapshot
from prologue.trace.etm.stream import ProgramText
from tests.support.cs_etm import CsTrace, write
from tests.support.cs_recording import ROUND, stream, walk
from tests.support.needs import needs_tools
from tests.support.tool import Tool
from tests.trace.made import KERNEL

pytestmark = pytest.mark.usefixtures("opencsd")

ROUNDS = 2000  # 46 KB, with an A-Sync every 4 KiB
FRAMED = pytest.mark.parametrize("raw", [True, False], ids=["raw", "frames"])


def content(data: bytes, **how: Any) -> CsTrace:
    return CsTrace(streams={0: data}, text=(KERNEL.base, 4 * len(KERNEL.words)), **how)


def check(tmp_path: Path, trace: CsTrace, tool: Tool, *options: str) -> tuple[int, str, str]:
    path, vmlinux = write(tmp_path / "perf.data", trace), KERNEL.write(tmp_path / "vmlinux")
    printed = tool("trace", "check", path, "--vmlinux", vmlinux, *options, status=None)
    return printed.status, printed.out, printed.err


@FRAMED
def test_a_whole_trace_has_no_such_bytes(raw: bool, tmp_path: Path, tool: Tool) -> None:
    code, out, err = check(tmp_path, content(stream(ROUNDS), raw=raw), tool)
    assert (code, out) == (0, f"{ROUNDS * len(ROUND) - 1:,} steps, none impossible\n")
    assert "not decoded" not in err


@FRAMED
def test_records_that_begin_in_mid_stream(raw: bool, tmp_path: Path, tool: Tool) -> None:
    """As those after an overflow of TRBE: what comes before their first A-Sync is lost."""
    data = stream(ROUNDS)
    code, out, err = check(tmp_path, content(data, raw=raw, parts=3), tool, "--json")
    document = json.loads(out)
    (counts,) = document["bytes"]
    assert (code, counts["cpu"], counts["bytes"]) == (0, 0, len(data))
    assert 0 < counts["not_decoded"] < 2 * 4200
    assert document["steps_judged"] < ROUNDS * len(ROUND) * (1 - counts["not_decoded"] / len(data) / 2)
    share = 100 * counts["not_decoded"] / len(data)
    said = f"{counts['not_decoded']:,} of {len(data):,} bytes of trace ({share:.2f}%) were not decoded"
    assert f"note: CPU 0: {said}\n" in err
    code, out, err = check(tmp_path, content(data, raw=raw, parts=3), tool)
    assert (code, out) == (0, f"{document['steps_judged']:,} steps, none impossible; {said}\n")


@FRAMED
def test_below_half_nothing_is_decided(raw: bool, tmp_path: Path, tool: Tool) -> None:
    """One A-Sync, and the stream cut in three: two thirds of it are lost."""
    data = stream(100)
    code, out, _ = check(tmp_path, content(data, raw=raw, parts=3), tool)
    assert code == 5
    assert out.endswith("were not decoded: not decided\n")
    assert f" of {len(data):,} bytes of trace (6" in out
    code, out, _ = check(tmp_path, content(data, raw=raw, parts=3), tool, "--format", "html")
    assert (code, "not decided" in out) == (5, True)


@FRAMED
def test_after_an_error_until_the_next_a_sync(raw: bool, tmp_path: Path, tool: Tool) -> None:
    data = stream(ROUNDS)
    at = data.index(b"\xf7\x9d", 6000) + 1
    until = data.index(bytes(11) + b"\x80", at)
    damaged = data[:at] + b"\x20" + data[at:]  # a reserved header
    code, out, err = check(tmp_path, content(damaged, raw=raw), tool)
    assert code == 0
    lost = int(out.split("; ")[1].split(" of ")[0].replace(",", ""))
    assert until - at <= lost <= until - at + 20
    assert "error of the decoder" in err


def test_text_of_the_packet_lister(tmp_path: Path, tool: Tool) -> None:
    needs_tools("trc_pkt_lister")
    text = ProgramText([(KERNEL.base, np.array(KERNEL.words, np.uint32))])
    vmlinux = KERNEL.write(tmp_path / "vmlinux")
    for cut in (0, 20, 30000):
        directory = tmp_path / f"cut{cut}"
        write_snapshot(walk(ROUNDS), text, directory, levels=(1,))
        data = (directory / "cpu0.bin").read_bytes()
        (directory / "cpu0.bin").write_bytes(data[cut:])
        command = ["trc_pkt_lister", "-ss_dir", str(directory), "-decode", "-logfilename", str(directory / "text")]
        subprocess.run([*command, "-src_name", "buffer0"], check=True, capture_output=True)
        by_text = tool("trace", "check", directory / "text", "--vmlinux", vmlinux).out
        by_library = tool("trace", "check", directory, "--vmlinux", vmlinux).out
        assert by_text.split()[0] == by_library.split()[0]
        assert ("were not decoded" in by_text) == ("were not decoded" in by_library) == (cut > 0)


@FRAMED
@pytest.mark.parametrize("first", [2, 1], ids=["in the last third", "from the second third on"])
def test_a_decoder_that_crashes(
    raw: bool,
    first: int,
    tmp_path: Path,
    tool: Tool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = process._Child._decode

    def crash(self: Any, part: process.TracePart, base: int) -> str:
        if part in self._job.parts[first:]:
            os.kill(os.getpid(), signal.SIGSEGV)
        return whole(self, part, base)

    monkeypatch.setattr(process._Child, "_decode", crash)
    data = stream(ROUNDS)
    data += b"\x70" * (-len(data) % (14 * 16))  # packets that say nothing, up to the end of frames
    said, out, err = check(tmp_path, content(data * 3, raw=raw, parts=3), tool)
    assert said == (0 if first == 2 else 5)
    assert f" of {3 * len(data):,} bytes of trace ({33 * (3 - first)}." in out
    assert "the decoder crashed (SIGSEGV)" in err


def test_a_core_of_m_profile_is_refused_by_name(tmp_path: Path, tool: Tool) -> None:
    text = ProgramText([(KERNEL.base, np.array(KERNEL.words, np.uint32))])
    write_snapshot(walk(5), text, tmp_path / "snapshot", levels=(1,))
    core = tmp_path / "snapshot" / "cpu0.ini"
    core.write_text(core.read_text().replace("type=ARM-AA64", "type=Cortex-M33"))
    vmlinux = KERNEL.write(tmp_path / "vmlinux")
    printed = tool("trace", "check", tmp_path / "snapshot", "--vmlinux", vmlinux, status=2)
    assert "its trace units are ETM4 of Cortex-M33, whose M-profile code is not read" in printed.err
