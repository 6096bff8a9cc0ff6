"""``prologue bench``: its grammar and errors, where it is not installed, ``expect``; what ``writes boot`` refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prologue.cli.parser import build_parser
from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from prologue_bench.analysis.compare import MARGIN
from prologue_bench.cli.run import DEFAULTS
from prologue_bench.errors import GuestLostError
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.tool import Tool


@pytest.mark.parametrize("command", ["run", "record", "compare", "table", "plot", "doctor"])
def test_help_has_examples(command: str, tool: Tool) -> None:
    assert f"prologue bench {command} " in tool("bench", command, "--help").out.partition("examples:")[2]


def test_bad_input_is_one_line(tool: Tool) -> None:
    for command in (["compare", "nowhere"], ["table", "nowhere"], ["plot", "nowhere", "-o", "a.png"]):
        said = tool("bench", *command, status=2)
        assert (said.out, said.err) == ("", "prologue: nowhere: No such file or directory\n")
    assert "did you mean example:2019-a57 or example:2019-a53?" in tool("bench", "compare", "example:x", status=2).err


def test_the_bench_chooses_its_exit_code(monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    def lose(_: object) -> int:
        raise GuestLostError("board: no answer")

    monkeypatch.setattr("prologue_bench.cli.compare.run", lose)
    assert tool("bench", "compare", "x", status=4).err == "prologue: board: no answer\n"


@pytest.mark.parametrize("margin", ["0", "-1", "100", "much", "nan", "1%%"])
def test_margins_that_are_none(margin: str, tool: Tool) -> None:
    printed = tool("bench", "compare", "example:2019-a57", "--margin", margin, status=2)
    assert "not a percentage between 0 and 100" in printed.err


def test_defaults_are_those_of_one_place() -> None:
    parser = build_parser()
    args = parser.parse_args(["bench", "run", "vmlinux", "--workload", "time:true", "-o", "out"])
    # How often to boot and to run depends on the target.
    assert {name: getattr(args, name) for name in DEFAULTS} == {**DEFAULTS, "boots": None, "runs": None}
    assert parser.parse_args(["bench", "compare", "example:2019-a57"]).margin == MARGIN


NEEDED = "which this command needs, is not installed: install prologue with its dependencies\n"


@pytest.mark.parametrize(
    ("absent", "arguments", "said"),
    [
        ("numpy", ["scan", "example:good"], f"numpy, {NEEDED}"),
        ("capstone", ["explain", "PL301"], f"capstone, {NEEDED}"),
        ("scipy", ["bench", "compare", "example:2019-a57"],
         "bench needs scipy, which is not installed: pip install 'matplotlib>="),
    ],
)  # fmt: skip
def test_a_library_that_is_not_installed(absent: str, arguments: list[str], said: str) -> None:
    """It is no bug of prologue that somebody installed it without what it depends on."""
    code = (
        f"import sys; sys.modules[{absent!r}] = None; from prologue.cli.main import main; sys.exit(main({arguments!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"prologue: {said}")


@pytest.mark.thorough
def test_help_needs_no_library_of_the_bench() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('scipy', 'matplotlib', 'qemu', 'jinja2')))\n"
        "from prologue.cli.parser import build_parser\n"
        "from prologue.cli.subcommands import every_parser, fill_all\n"
        "grammar = build_parser()\n"
        "fill_all(grammar, complete=True)\n"
        "for parser in every_parser(grammar): parser.format_help()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("margin", "links", "said"),
    [
        ("1", 6, "a margin of 1% on a board"),
        ("0.3", 20, "a margin of 0.3% on a board"),
        ("0.0001", None, "No campaign of a sensible size decides a margin of 0.0001%"),
    ],
)
def test_the_campaign_is_as_large_as_compare_would_ask_for(
    margin: str, links: int | None, said: str, tool: Tool
) -> None:
    document = tool("bench", "expect", "--margin", margin, "--json").json
    assert (document["links"], document["boots"]) == (links, links and 3 * 3 * links)
    text = tool("bench", "expect", "--margin", margin).out
    assert said in text
    assert all(f"\n  {command}\n" in text for command in document["commands"])


def refused(tool: Tool, *arguments: object) -> str:
    said = tool("writes", "boot", *arguments, status=2).err
    assert said.count("\n") == 1, said
    return said


def test_what_cannot_be_recorded(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, out = mini(Spec()), tmp_path / "out"
    for named in (out, os.devnull):
        assert "no symbol " in refused(tool, vmlinux, "-o", named)
    assert not Path(f"{os.devnull}.log").exists()
    assert "cannot be" in refused(tool, vmlinux, "-o", out, "--image", tmp_path / "absent")
    (tmp_path / "other").write_bytes(b"no Image" * 100)
    assert "other: the kernel does not begin with" in refused(tool, vmlinux, "-o", out, "--image", tmp_path / "other")
    assert "is also an input" in refused(tool, vmlinux, "-o", vmlinux)
    assert not out.exists()


@pytest.mark.parametrize("command", ["writes boot", "trace record"])
def test_more_cpus_than_the_plugins_have_room_for(command: str, tool: Tool) -> None:
    printed = tool(*command.split(), "vmlinux", "-o", "out", "--cpus", "65", status=2)
    assert "argument --cpus: not a number from 1 to 64: '65'" in printed.err


def test_the_image_of_another_kernel(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    image = tmp_path / "Image"
    write_flat(ElfImage(mini(Spec(layout="4,2"))), image)
    said = refused(tool, mini(Spec(layout="2")), "-o", tmp_path / "out", "--image", image)
    assert "another build-id" in said or "no symbol" in said
