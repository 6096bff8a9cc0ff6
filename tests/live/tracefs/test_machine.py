"""Scripts that run here: their lines as they come, and how they end."""

from __future__ import annotations

import shutil
from importlib.resources import files

import pytest

from prologue.errors import InputError
from prologue.live.tracefs.machine import LOCAL, TracedMachine, TracingScript, with_instance

# It ends with its standard input, as those that trace do; the last line shows that it did so by itself.
UNTIL_EOF = TracingScript("echo first\nwhile read -r _; do :; done\necho last\n", "here.sh", "cannot be run")


def test_lines_come_at_once_and_a_failure_ends_the_script() -> None:
    """If the first line waited for the others, there would be no end: nothing else closes the script's input."""
    lines: list[bytes] = []

    def take(line: bytes) -> None:
        lines.append(line)
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        TracedMachine(LOCAL).run(UNTIL_EOF, [], take)
    assert lines == [b"first\n"]


def test_arguments_and_messages() -> None:
    lines: list[bytes] = []
    script = TracingScript('echo "$0 $*"\necho aside >&2\n', "here.sh", "cannot be run")
    assert TracedMachine(LOCAL).run(script, ["-e", "a b"], lines.append) == "aside\n"
    assert lines == [b"here.sh -e a b\n"]


def test_a_script_that_says_why() -> None:
    script = with_instance("program=here.sh\n. instance.sh\ndie 'no such thing'\n")
    with pytest.raises(InputError, match="local: cannot be run: no such thing"):
        TracedMachine(LOCAL).run(TracingScript(script, "here.sh", "cannot be run"), [], print)


@pytest.mark.parametrize("shell", ["sh", "bash", "busybox sh"])
def test_a_command_or_its_input_ends_it(shell: str) -> None:
    """Both are waited for by the same function, which says which of them it was."""
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]}")
    text = files("prologue.live.tracefs").joinpath("instance.sh").read_text(encoding="utf-8")
    tail = 'catch_stop\nmain=$$ until_eof=yes\nrun_meanwhile 0 "$@"\necho "$status"\n'
    run = TracingScript(f"program=x\n{text}{tail}", "here.sh", "cannot be run")
    lines: list[bytes] = []
    TracedMachine(LOCAL).run(run, ["sh", "-c", "exit 3"], lines.append)
    assert lines == [b"3\n"]
