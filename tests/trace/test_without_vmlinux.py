"""perf.data without the vmlinux, and what ran in processes, whose text is not here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prologue.trace.etm.stream import ProgramText, encode
from prologue.trace.etm.unit import bare_unit
from tests.support.cs_etm import write
from tests.support.cs_recording import stream, trace, walk, with_process
from tests.support.tool import Tool
from tests.trace.made import KERNEL
from tests.trace.test_perf_trace import CONTEXT, linked, run, with_kcore

pytestmark = pytest.mark.usefixtures("opencsd")


@pytest.mark.thorough
def test_without_a_vmlinux(tmp_path: Path, tool: Tool) -> None:
    """Text and names are those of kcore_dir: the same instructions as with the file, and no lines of the source."""
    path, vmlinux = with_kcore(tmp_path, trace(5)), linked(tmp_path / "vmlinux")
    lines = [f"{vaddr:x} T {name}" for name, vaddr in KERNEL.places.items()]
    lines += [f"{KERNEL.base:x} T _stext", f"{KERNEL.base + 4 * len(KERNEL.words):x} D _etext"]
    (path / "kcore_dir" / "kallsyms").write_text("\n".join(lines) + "\n")
    listed = ["trace", "disasm", str(path), "--format", "jsonl"]
    bare, whole = run(tool, *listed), run(tool, *listed, "--vmlinux", str(vmlinux))
    assert (bare[0], bare[1]) == (0, whole[1].replace(str(vmlinux), str(path / "kcore_dir" / "kcore"))), bare[2]
    code, out, err = run(tool, "trace", "check", str(path))
    assert (code, out) == (0, "58 steps, none impossible\n"), err
    assert "no vmlinux was given, so none was compared with what ran" in err
    code, out, err = run(tool, "trace", "stats", str(path))
    assert code == 0, err
    assert "vfs_read" in out
    for option in (["--slide", "0"], ["--modules", "."]):
        code, _, err = run(tool, "trace", "check", str(path), *option)
        assert (code, f"{option[0]} needs --vmlinux" in err) == (2, True), err
    code, _, err = run(tool, "trace", "disasm", str(path), "-S")
    assert (code, "--format srcline needs --vmlinux" in err) == (2, True)
    code, _, err = run(tool, "trace", "check", str(path / "data"))
    assert (code, "name the kernel: --vmlinux VMLINUX" in err) == (2, True)


def test_what_ran_in_processes_is_counted_by_name(tmp_path: Path, tool: Tool) -> None:
    """Nothing of their text is invented, and nothing dropped in silence."""
    vmlinux = KERNEL.write(tmp_path / "vmlinux")
    base, data = 0x400000, stream(5)
    user = walk(5, level=0)
    user["start"] += np.uint64(base - KERNEL.base & (1 << 64) - 1)
    text = ProgramText([(base, np.array(KERNEL.words, np.uint32))])
    own = with_process(bytes(encode(user, text, (0,), bare_unit(0, vmids=False)).data), 77)
    made = trace(5, comms={77: "cat"}, **CONTEXT)
    made.streams = {0: data + own}
    code, out, err = run(tool, "trace", "check", str(write(tmp_path / "perf.data", made)), "--vmlinux", str(vmlinux))
    assert (code, out) == (0, "29 steps, none impossible\n"), err
    assert "10 places where the decoder had no memory" in err
    assert "10 of these in processes: cat" in err
