"""``prologue probe`` as its users run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mini_kernel.build import run_command
from tests.probe.made_kernel import TEXT, TOOLS, Form, make
from tests.support.needs import needs_tools
from tests.support.tool import Tool


def test_answers_and_status(vmlinux: Path, tool: Tool) -> None:
    said = tool("probe", vmlinux, "hidden")
    assert said.out.startswith("hidden (.text+0x")
    assert ": yes, stepped" in said.out
    assert "the first slot" in said.out
    assert said.err == ""
    said = tool("probe", vmlinux, "hidden", "hidden+4", "untraced", status=1)
    assert "no: the second slot of a patch site, which belongs to ftrace; nearest: hidden+0x0" in said.out
    assert "register_kprobe() of a module may: stepped" in said.out
    said = tool("probe", vmlinux, "far+12", status=1)
    assert "depends: what alternatives boot applies decides (stepped if it can)" in said.out, "the CPU decides"


def test_json(vmlinux: Path, tool: Tool) -> None:
    data = tool("probe", vmlinux, "hidden+4", hex(TEXT), "--json", "--event", status=1).json
    assert data["schema"] == "prologue.probe/1"
    assert (data["release"], data["rules"]) == ("6.12.107-made", "6.12")
    slot, first = data["places"]
    assert (slot["symbol"], slot["offset"], slot["answer"], slot["how"]) == ("hidden", 4, "no", None)
    assert [reason["reason"] for reason in slot["reasons"]] == ["second_slot"]
    assert slot["nearest"]["symbol"] == "hidden"
    assert slot["nearest"]["offset"] == 0
    assert (slot["event"], first["event"]) == (None, "p:traced traced")
    assert (first["address"], first["answer"], first["how"]) == (hex(TEXT), "yes", "stepped")


def test_events_are_lines_for_the_kernel(vmlinux: Path, tool: Tool) -> None:
    lines = tool("probe", vmlinux, "--event", "hidden+8", "hidden+4", "far+12", status=1).out.splitlines()
    assert lines[0] == "p:hidden_0x8 hidden+0x8"
    assert lines[1].startswith("# hidden+0x4 ")
    assert lines[2].startswith("# far+0xc ")  # the kernel may refuse the next one
    assert lines[3] == "p:far_0xc far+0xc"


def test_each_line_is_a_write_of_its_own(vmlinux: Path) -> None:
    """A kernel takes what a write cuts off for a line: ``>>kprobe_events``."""
    reader, writer = os.pipe2(os.O_DIRECT)  # a read returns what a write wrote
    places = [f"hidden value{number}=%x{number % 30}:u64" for number in range(300)]
    command = [sys.executable, "-m", "prologue", "probe", str(vmlinux), "--event", *places]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    stream = os.fdopen(reader, "rb", buffering=0)
    with subprocess.Popen(command, stdout=writer, env=environment) as process, stream:
        os.close(writer)
        writes = list(iter(lambda: stream.read(65536), b""))
    assert process.returncode == 0
    assert len(b"".join(writes)) > 8192
    assert [write.count(b"\n") for write in writes] == [1] * 300
    assert all(write.endswith(b"\n") for write in writes)


def test_quiet_is_silent_about_places_that_can(vmlinux: Path, tool: Tool) -> None:
    assert tool("probe", vmlinux, "-q", "hidden") == ("", "", 0)
    said = tool("probe", vmlinux, "-q", "hidden", "hidden+2", status=2)
    assert said.out == ""
    assert "is not a multiple of 4" in said.err


def test_what_is_not_known_leaves_the_other_lines(vmlinux: Path, tool: Tool) -> None:
    """A typing error in one of many places is a comment, and the status; the kernel takes the output as it is."""
    said = tool("probe", vmlinux, "--event", "hiden", "hidden", "hidden %x0:string", "--group", "mine", status=2)
    lines = said.out.splitlines()
    assert lines[0] == "p:mine/hidden hidden"
    assert lines[1].startswith("# hiden: no symbol hiden: did you mean hidden?")
    assert "+0(%x0):string" in lines[2]
    assert said.err.count("\n") == 2
    assert tool("probe", vmlinux, "--json", "hiden", status=2).json["errors"][0]["asked"] == "hiden"


def test_run_time_addresses(vmlinux: Path, tool: Tool) -> None:
    assert tool("probe", vmlinux, hex(TEXT + 0x3000000), "--slide", "0x3000000", "--event").out == "p:traced traced\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ffff800083010000 T _stext\n", "p:traced traced\n"),
        ("0000000000000000 T _stext\n", "kptr_restrict"),
        ("nothing\n", "has no _stext"),
        ("ffff800083010000 T _stext\nffff800083010024 t untraced\n", "of another kernel: un"),
    ],
)
def test_run_time_addresses_by_kallsyms(vmlinux: Path, tmp_path: Path, tool: Tool, text: str, said: str) -> None:
    """The first function of the made kernel is at _stext."""
    copy = tmp_path / "kallsyms"
    copy.write_text(text)
    command = ["probe", str(vmlinux), hex(TEXT + 0x3000000), "--kallsyms", str(copy), "--event"]
    captured = tool(*command, status=0 if said.startswith("p:") else 2)
    assert said in captured.out + captured.err


def test_a_script_is_one_of_the_shell(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    script = tmp_path / "probe.sh"
    script.write_text(tool("probe", vmlinux, "traced", "hidden", "--script").out)
    assert "\np:prologue/hidden hidden\n" in script.read_text()
    run_command(["sh", "-n", str(script)])


def test_a_script_has_one_group(vmlinux: Path, tool: Tool) -> None:
    """It takes off the events of its own group."""
    said = tool("probe", vmlinux, "traced", "other:seen=hidden", "--script", status=2)
    assert "one group" in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    "options",
    [["--event", "--list"], ["--vars", "--script"], ["--script", "--json"], ["--list", "--group", "mine"],
     ["--group", "mine"], ["--json", "--name", "mine"], ["--vmlinux", "another"]],
)  # fmt: skip
def test_options_of_which_one_would_have_no_effect(vmlinux: Path, tool: Tool, options: list[str]) -> None:
    said = tool("probe", vmlinux, "hidden", *options, status=2)
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_lines_need_debug_information(vmlinux: Path, tool: Tool) -> None:
    assert "needs DWARF" in tool("probe", vmlinux, "traced", "--list", status=2).err
    assert "needs DWARF" in tool("probe", vmlinux, "traced:3", "--vars", status=2).err
    printed = tool("probe", vmlinux, "traced", "--event", "--group", "a-b", status=2)
    assert "is no name of an event or group" in printed.err


def test_all_variables_leave_no_room_for_some(vmlinux: Path, tool: Tool) -> None:
    assert "--vars prints every variable" in tool("probe", vmlinux, "traced %x0", "--vars", status=2).err


def test_a_release_that_was_not_compared_is_named(tmp_path: Path, tool: Tool) -> None:
    needs_tools(*TOOLS)
    assert "5.15.1 is judged by the rules of 6.1" in tool("probe", make(tmp_path, Form(release="5.15.1")), "hidden").err


def test_errors_are_one_line(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    for place in ("trased", "hidden+1", "0x10"):
        assert tool("probe", vmlinux, place, status=2).err.count("\n") == 1
    module = tmp_path / "some.o"
    (tmp_path / "some.c").write_text("int some;")
    run_command(["aarch64-linux-gnu-gcc", "-c", str(tmp_path / "some.c"), "-o", str(module)])
    assert "give --vmlinux" in tool("probe", module, "some", status=2).err


def test_arguments_that_are_not_looked_up_are_named(vmlinux: Path, tool: Tool) -> None:
    assert "note: only places are judged" in tool("probe", vmlinux, "traced nosuch").err
    assert "only places" not in tool("probe", vmlinux, "traced").err


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--modules", "nothing.ko", "cannot be opened: No such file or directory"),
        ("--modules", "debug", "no modules (*.ko, *.ko.gz, *.ko.xz, *.ko.zst) in this directory"),
        ("--source", "nothing", "is not a directory: name the kernel's source"),
    ],
)
def test_what_is_not_there_is_named(vmlinux: Path, tool: Tool, option: str, name: str, message: str) -> None:
    """A mistyped directory is not the lack of a module, and listings do not lose their source for it in silence."""
    path = vmlinux.parent / name
    (vmlinux.parent / "debug").mkdir(exist_ok=True)
    (vmlinux.parent / "debug" / "loop.ko.debug").touch()
    assert tool("probe", vmlinux, "loop:loop_init", option, path, status=2).err == f"prologue: {path}: {message}\n"
