"""perf.data without the vmlinux, and what ran in processes, whose text is not here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prologue.trace.etm.stream import ProgramText, encode
from prologue.trace.etm.unit import bare_unit
from tests.support.cs_recording import stream, trace, walk, with_process
from tests.support.tool import Tool
from tests.trace.made import KERNEL, Run
from tests.trace.test_perf_trace import CONTEXT, linked, with_kcore

pytestmark = pytest.mark.usefixtures("opencsd")


@pytest.mark.thorough
def test_without_a_vmlinux(tmp_path: Path, tool: Tool) -> None:
    """Text and names are those of kcore_dir: the same instructions as with the file, and no lines of the source."""
    path, vmlinux = with_kcore(tmp_path, trace(5)), linked(tmp_path / "vmlinux")
    lines = [f"{vaddr:x} T {name}" for name, vaddr in KERNEL.places.items()]
    lines += [f"{KERNEL.base:x} T _stext", f"{KERNEL.base + 4 * len(KERNEL.words):x} D _etext"]
    (path / "kcore_dir" / "kallsyms").write_text("\n".join(lines) + "\n")
    listed = ("trace", "disasm", path, "--format", "jsonl")
    bare, whole = tool(*listed), tool(*listed, "--vmlinux", vmlinux)
    assert bare.out == whole.out.replace(str(vmlinux), str(path / "kcore_dir" / "kcore")), bare.err
    out, err, _ = tool("trace", "check", path)
    assert out == "58 steps, none impossible\n", err
    assert "no vmlinux was given, so none was compared with what ran" in err
    assert "vfs_read" in tool("trace", "stats", path).out
    for option in (["--slide", "0"], ["--modules", "."]):
        assert f"{option[0]} needs --vmlinux" in tool("trace", "check", path, *option, status=2).err
    assert "--format srcline needs --vmlinux" in tool("trace", "disasm", path, "-S", status=2).err
    assert "name the kernel: --vmlinux VMLINUX" in tool("trace", "check", path / "data", status=2).err


def test_what_ran_in_processes_is_counted_by_name(run: Run) -> None:
    """Nothing of their text is invented, and nothing dropped in silence."""
    base, data = 0x400000, stream(5)
    user = walk(5, level=0)
    user["start"] += np.uint64(base - KERNEL.base & (1 << 64) - 1)
    text = ProgramText([(base, np.array(KERNEL.words, np.uint32))])
    own = with_process(bytes(encode(user, text, (0,), bare_unit(0, vmids=False)).data), 77)
    made = trace(5, comms={77: "cat"}, **CONTEXT)
    made.streams = {0: data + own}
    out, err, _ = run("check", made)
    assert out == "29 steps, none impossible\n", err
    assert "10 places where the decoder had no memory" in err
    assert "10 of these in processes: cat" in err
