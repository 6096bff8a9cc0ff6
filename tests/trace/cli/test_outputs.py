"""``prologue trace`` replaces no file that it was told to read, whichever option names it."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.support.tool import Tool
from tests.trace.made import KERNEL, perf_text

# Options by the file that they name. Most of these files would be refused later, by what reads them.
NAMED = {
    "trace": [],
    "vmlinux": [],
    "writes": ["--writes", "writes"],
    "memory": ["--memory", "memory"],
    "data/kcore_dir/kallsyms": ["--memory", "data"],
    "modules/kernel/a.ko.xz": ["--memory", "memory", "--modules", "modules"],
    "guest": ["--guest-vmlinux", "guest"],
    "guest7": ["--guest-vmlinux", "guest7@7+0x200000"],
    "guest@host": ["--guest-vmlinux", "guest@host"],
}
OUTPUTS = {"-o": "disasm", "--plot": "stats"}


@pytest.mark.parametrize("option", OUTPUTS)
@pytest.mark.parametrize("name", NAMED)
def test_no_input_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool, name: str, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_all()
    output = name
    if option == "--plot":  # its name says which picture it is: another name of the same file
        output = "out.svg"
        Path(output).symlink_to(name)
    before = Path(name).read_bytes()
    printed = tool("trace", OUTPUTS[option], "trace", "--vmlinux", "vmlinux", *NAMED[name], option, output, status=2)
    assert printed.err == f"prologue: {output}: is also an input of this command: name another file\n"
    assert Path(name).read_bytes() == before


@pytest.mark.parametrize("name", ["trace", "vmlinux"])
def test_an_export_replaces_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    _write_all()
    before = Path(name).read_bytes()
    command = ["trace", "export", "trace", "--vmlinux", "vmlinux", "--format", "folded", "-o", name]
    assert "is also an input of this command" in tool(*command, status=2).err
    assert Path(name).read_bytes() == before


def test_a_report_replaces_no_memory_that_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.chdir(tmp_path)
    _write_all()
    command = ["trace", "check", "trace", "--vmlinux", "vmlinux", "--json", "--explain", "data"]
    assert "is also an input of this command" in tool(*command, "-o", "data/kcore_dir/kallsyms", status=2).err


def test_modules_are_inputs_also_of_a_trace_with_its_own_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_all()
    command = ["trace", "disasm", "data", "--vmlinux", "vmlinux", "--modules", "modules"]
    assert "is also an input of this command" in tool(*command, "-o", "modules/kernel/a.ko.xz", status=2).err


def test_standard_input_is_a_file_too(tmp_path: Path, tool: Tool) -> None:
    vmlinux, trace = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace"
    trace.write_text(perf_text([("read_zero+0x18", "vfs_read")] * 2))
    own, redirected = os.dup(0), os.open(trace, os.O_RDONLY)
    try:
        os.dup2(redirected, 0)
        printed = tool("trace", "disasm", "-", "--vmlinux", vmlinux, "-o", trace, status=2)
    finally:
        os.dup2(own, 0)
        os.close(own)
        os.close(redirected)
    assert "is also an input" in printed.err


def test_other_files_of_the_same_directories_are_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _write_all()
    Path("old").write_text("of yesterday")
    assert main(["trace", "disasm", "trace", "--vmlinux", "vmlinux", "--guest-vmlinux", "guest7@7", "-o", "old"]) == 0
    assert "Trace Data" in Path("old").read_text()


@pytest.mark.parametrize("other", ["out.svg", "./out.svg", "link/out.svg"])
@pytest.mark.parametrize("there", [False, True])
def test_two_outputs_are_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool, other: str, there: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_all()
    Path("link").symlink_to(".")
    if there:
        Path("out.svg").write_text("of yesterday")
    options = ["--json", "-o", other, "--plot", "out.svg"]
    printed = tool("trace", "stats", "trace", "--vmlinux", "vmlinux", *options, status=2)
    said = "is named for two outputs of this command: name another file"
    assert printed.err == f"prologue: out.svg: {said}\n"
    assert Path("out.svg").exists() == there
    assert not there or Path("out.svg").read_text() == "of yesterday"


@pytest.mark.parametrize(
    "args",
    [
        ["trace", "disasm", "trace", "--vmlinux", "vmlinux", "-o", "loop"],
        ["trace", "stats", "trace", "--vmlinux", "vmlinux", "--json", "-o", "loop", "--plot", "loop.svg"],
        ["trace", "stats", "trace", "--vmlinux", "vmlinux", "--json", "-o", "loop/a", "--plot", "loop/b.svg"],
        ["patch", "vmlinux", "-o", "loop", "--save-plan", "loop.svg"],
    ],
)
def test_links_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool, args: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    _write_all()
    for name in ("loop", "loop.svg"):
        Path(name).symlink_to(name)
    error = tool(*args, status=2).err
    assert error.startswith("prologue: loop" if args[0] == "trace" else "prologue: ")
    assert error.count("\n") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_output_s_fault_is_not_the_trace_s(tmp_path: Path, suffix: str) -> None:
    vmlinux, trace = KERNEL.write(tmp_path / "vmlinux"), tmp_path / f"trace{suffix}"
    text = perf_text([("read_zero+0x18", "vfs_read"), ("vfs_read+0x10", "read_zero")] * 5_000).encode()
    trace.write_bytes(gzip.compress(text) if suffix else text)
    command = [sys.executable, "-m", "prologue", "trace", "disasm", str(trace), "--vmlinux", str(vmlinux)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert str(trace) not in done.stderr


def _write_all() -> None:
    for name in NAMED:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if "vmlinux" in name or name.startswith("guest"):
            KERNEL.write(path)
        else:
            path.write_text(perf_text([("read_zero+0x18", "vfs_read")] * 2))


def test_output_that_nobody_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/null is no file to replace, and takes all."""
    monkeypatch.chdir(tmp_path)
    _write_all()
    for code, *command in ((0, "disasm", "-o"), (1, "check", "--format", "html", "-o"), (0, "stats", "--json", "-o")):
        assert main(["trace", command[0], "trace", "--vmlinux", "vmlinux", *command[1:], os.devnull]) == code
    assert Path(os.devnull).is_char_device()
