"""``prologue bench``: its grammar, its errors, and what happens where it is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prologue.cli.parser import build_parser
from prologue_bench.analysis.compare import MARGIN
from prologue_bench.cli.run import DEFAULTS
from prologue_bench.errors import GuestLostError
from tests.support.tool import Tool


@pytest.mark.parametrize("command", ["run", "record", "compare", "table", "plot", "doctor"])
def test_help_has_examples(command: str, tool: Tool) -> None:
    assert f"prologue bench {command} " in tool("bench", command, "--help").out.partition("examples:")[2]


def test_bad_input_is_one_line(tool: Tool) -> None:
    for command in (["compare", "nowhere"], ["table", "nowhere"], ["plot", "nowhere", "-o", "a.png"]):
        said = tool("bench", *command, status=2)
        assert (said.out, said.err) == ("", "prologue: nowhere: No such file or directory\n")
    assert "did you mean example:2019-a57 or example:2019-a53?" in tool("bench", "compare", "example:x", status=2).err


def test_debug_shows_where(tool: Tool) -> None:
    said = tool("--debug", "bench", "compare", "nowhere", status=2).err
    assert said.startswith("Traceback (most recent call last):\n")
    assert "\nprologue: nowhere: No such file or directory\n---- paste this into a report" in said


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


@pytest.mark.thorough
def test_a_library_of_the_bench_is_not_installed() -> None:
    code = (
        "import sys; sys.modules['scipy'] = None; from prologue.cli.main import main; "
        "sys.exit(main(['bench', 'compare', 'example:2019-a57']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("prologue: bench needs scipy, which is not installed: pip install 'matplotlib>=")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("absent", "arguments"),
    [
        ("numpy", ["scan", "example:good"]),
        ("capstone", ["explain", "PL301"]),
    ],
)
def test_a_library_of_the_tool_is_not_installed(absent: str, arguments: list[str]) -> None:
    """It is no bug of prologue that somebody installed it without what it depends on."""
    code = (
        f"import sys; sys.modules[{absent!r}] = None; from prologue.cli.main import main; sys.exit(main({arguments!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = f"{absent}, which this command needs, is not installed: install prologue with its dependencies"
    assert (done.returncode, done.stderr) == (2, f"prologue: {message}\n")


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


@pytest.mark.thorough
def test_the_tool_needs_no_bench() -> None:
    code = (
        "import sys; sys.modules['prologue_bench'] = None; from prologue.cli.main import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    for arguments in (["--help"], ["trace", "--help"], ["--print-completion", "bash"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), arguments
    for command in ("bench", "trace record"):
        done = subprocess.run(
            [sys.executable, "-c", code, *command.split()], capture_output=True, text=True, check=False
        )
        why = "it comes with the companion bench, and this installation lacks prologue_bench"
        assert (done.returncode, done.stderr) == (2, f"prologue: no command {command!r}: {why}\n")
