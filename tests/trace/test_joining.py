"""Several traces of one machine, read one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.trace.path.joining import open_traces
from prologue.trace.readers.recording import RecordingHeader
from tests.support.tool import Tool
from tests.trace.made import KERNEL, perf_text, recording


@pytest.mark.parametrize("clocked", [(True, True), (True, False), (False, True)])
def test_times_of_joined_recordings_are_ns_if_those_of_each_are(tmp_path: Path, clocked: tuple[bool, bool]) -> None:
    names = []
    for k, own in enumerate(clocked):
        (path := tmp_path / f"{k}.rec").write_bytes(
            recording([{"start": KERNEL.base, "count": 1}], RecordingHeader(clocked=own))
        )
        names.append(str(path))
    with open_traces(names, needs_times=False) as trace:
        assert trace.header is not None
        assert trace.header.clocked == all(clocked)


def test_standard_input_is_one_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    (tmp_path / "text").write_text(perf_text([("vfs_read+0x10", "read_zero")] * 2))
    options = ["--vmlinux", str(KERNEL.write(tmp_path / "vmlinux"))]
    with (tmp_path / "text").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        printed = tool("trace", "disasm", "-", "-", *options, status=2)
        assert printed.err == "prologue: - is named for more than one trace: standard input has one\n"
        assert main(["trace", "disasm", "-", str(tmp_path / "text"), *options]) == 0
