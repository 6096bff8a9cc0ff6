"""Colour and wrapped lines for terminals, and notes that --quiet leaves out."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mini_kernel.build import Spec
from tests.support.tool import Tool

Mini = Callable[[Spec], Path]


def on_terminal(words: list[str], **settings: str) -> str:
    """Run prologue on a terminal of 60 columns, standard error included."""
    reader, writer = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"COLUMNS": "60", "TERM": "xterm", **settings}
    with os.fdopen(reader, "rb", 0) as stream:
        command = [sys.executable, "-m", "prologue", *words]
        subprocess.run(command, stdin=writer, stdout=writer, stderr=writer, env=environment, check=False)
        os.close(writer)
        shown = b""
        try:
            while piece := stream.read(1 << 16):
                shown += piece
        except OSError:  # the end of a terminal
            pass
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.thorough
def test_an_error_is_said_once_on_a_terminal_and_its_lines_fit() -> None:
    shown = on_terminal(["verify", "/absent/" + 40 * "x"])
    assert shown.count("No such file or") == 1
    assert all(len(line) <= 60 for line in shown.splitlines())
    assert "\n    " in shown  # what was wrapped is indented


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "settings", "colored"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, True),
        ([], {"TERM": "dumb"}, False),
        (["--color", "never"], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
def test_severities_are_in_colour(mini: Mini, words: list[str], settings: dict[str, str], colored: bool) -> None:
    shown = on_terminal(["verify", str(mini(Spec())), "--require", "processed", *words], **settings)
    assert "REQUIRE" in shown
    assert ("\x1b[" in shown) == colored


def test_only_text_is_in_colour(mini: Mini, tool: Tool) -> None:
    vmlinux = str(mini(Spec()))
    for form in ("text", "sarif", "json"):
        options = ["--json"] if form == "json" else ["--format", form]
        said = tool("--color", "always", "verify", vmlinux, "--require", "processed", *options, status=1).out
        assert ("\x1b[" in said) == (form == "text")


def test_options_of_every_command_stand_anywhere(mini: Mini, tool: Tool) -> None:
    vmlinux = str(mini(Spec()))
    for words in (["-v", "scan", vmlinux], ["scan", "-v", vmlinux], ["scan", vmlinux, "--verbose"]):
        assert re.search(r"^note: prologue [\d.]+: [\d.]+ s, at most [\d,]+ MiB", tool(*words).err, re.MULTILINE)
    for words in (["-q", "image", vmlinux], ["image", vmlinux, "-q"]):
        assert tool(*words, "-o", f"{vmlinux}.Image") == ("", "", 0)
    for words in (["--debug", "scan", "/absent"], ["scan", "/absent", "--debug"]):
        assert "Traceback" in tool(*words, status=2).err


def test_quiet_and_verbose_exclude_each_other(tool: Tool) -> None:
    assert "not allowed with" in tool("rules", "-q", "-v", status=2).err
