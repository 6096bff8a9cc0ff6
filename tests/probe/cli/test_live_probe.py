"""``prologue live probe`` up to the machine: what is refused before, what the machine gets, and what it may answer."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from tests.support.processes import place_python_program
from tests.support.tool import Tool

# Takes the script, and answers as it would with one event of the first name and none of the others.
BOARD = r"""
import re, sys
open(LOG, "w").write(sys.argv[-1])
text = sys.stdin.buffer.read(int(re.search(r"count=(\d+)", sys.argv[-1])[1])).decode()
group = re.search(r"^group=(\S+) control=kprobe_events$", text, re.M)[1]
names = re.search(r"^NAMES='?([^'\n]*)", text, re.M)[1].split()
lines = re.findall(r"^[pr]:.*", text, re.M)
token = group.partition("_")[2]
parts = [
    ("refused", *lines[1:2]),
    ("events", f"  x-9 [001] d..1. 12.000345: {names[0]}: (traced+0x0/0x20) a0_{token}=0x1f "
     f'c_{token}="sh" z_{token}=0x1', "==== other refused"),
    ("ended", "3"), ("hits", f"{names[0]} 2 1"), ("lost", "cpu1 7 overrun"), ("end",),
]
for part, *output in parts:
    print(f"==== {group} {part}", *output, sep="\n")
print("from the command", file=sys.stderr)
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the board is asked to run; it is not there if it is asked nothing."""
    path = tmp_path / "log"
    place_python_program(tmp_path / "ssh", BOARD.replace("LOG", repr(str(path))))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return path


def test_a_run(vmlinux: Path, log: Path, tool: Tool) -> None:
    places = ["mine=traced low=%x1", "hidden %x0", "hidden+4"]
    output = tool("live", "probe", vmlinux, "ssh:board", *places, "--command", "sh -c 'exit 3'", status=1)
    assert output.out == "12.000345 [001] sh-9 mine: (traced+0x0) low=0x1f\n"
    lines = output.err.splitlines()
    assert lines[0].startswith("warning: hidden+0x4 ")
    assert "no: the second slot of a patch site" in lines[0]
    assert lines[1:] == [
        "from the command",
        "warning: the kernel refused p:hidden hidden x0=%x0",
        "note: mine: 2 hits, 1 miss",
        "warning: mine was missed 1 time",
        "warning: lost: 7 events of CPU 1 (overrun): a larger --buffer may keep them",
        "note: the command ended with 3",
    ]
    assert log.read_text().endswith("probe.sh -e -b 1408 -- sh -c 'exit 3'")


def test_json(vmlinux: Path, log: Path, tool: Tool) -> None:
    data = tool("live", "probe", vmlinux, "ssh:board", "mine=traced low=%x1", "--seconds", "2", "--json").json
    assert (data["schema"], data["source"], data["refused"]) == ("prologue.live-probe/1", "ssh:board", [])
    assert [(place["asked"], place["answer"]) for place in data["places"]] == [("mine=traced low=%x1", "yes")]
    assert data["hits"] == [
        {"event": "mine", "time": "12.000345", "cpu": 1, "comm": "sh", "pid": 9, "place": "traced+0x0",
         "values": {"low": "0x1f"}}
    ]  # fmt: skip
    assert data["counts"] == [{"event": "mine", "hits": 2, "misses": 1}]
    assert data["lost"] == [{"what": "events of CPU 1 (overrun)", "amount": 7}]
    assert (data["unread"], data["ended"]) == (0, "3")
    assert log.read_text().endswith("probe.sh -e -b 1408 -- 2")


@pytest.mark.parametrize(
    ("places", "ending"),
    [
        (["traced", "trced"], (2, "did you mean traced")),
        (["traced nothing"], (1, "no debug information describes this function")),
        (["traced+4"], (1, "no: the second slot")),
        (["traced %x31"], (2, "%x31 is not known here")),
        (["traced+"], (2, "is not a place")),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_set(
    vmlinux: Path, log: Path, tool: Tool, places: list[str], ending: tuple[int, str]
) -> None:
    assert ending[1] in tool("live", "probe", vmlinux, "ssh:board", *places, status=ending[0]).err
    assert log.exists() == (places == ["traced nothing"])  # without this argument it is an event all the same


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["board.capture", "traced"], "board.capture: is not a running kernel: expected /proc/kcore or ssh:HOST"),
        (["ssh:", "traced"], "is not a machine"),
        (["ssh:-oProxyCommand=x", "traced"], "is not a machine"),
        (["ssh:board", "traced", "--command", " "], "--command is empty"),
        (["ssh:board", "traced", "--command", "'"], "--command"),
        (["ssh:board", "theirs:mine=traced"], "the group is the run's own"),
        (["ssh:board", "mod:traced"], "mod is a module: give --modules"),
    ],
)
def test_bad_arguments(vmlinux: Path, log: Path, tool: Tool, words: list[str], message: str) -> None:
    printed = tool("live", "probe", vmlinux, *words, status=2)
    lines = [line for line in printed.err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert not log.exists()


def test_an_answer_that_is_cut_off(vmlinux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    place_python_program(tmp_path / "ssh", "print('login')")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    printed = tool("live", "probe", vmlinux, "ssh:board", "traced", "-q", status=2)
    assert printed.err == "prologue: ssh:board: the answer is cut off: try again\n"


def test_here(vmlinux: Path, tool: Tool) -> None:
    if platform.machine() == "aarch64":
        pytest.skip("this is an arm64 machine")
    printed = tool("live", "probe", vmlinux, "/proc/kcore", "traced", "-q", status=2)
    message = f"prologue: local: cannot be probed: is for arm64 machines: this is {platform.machine()}\n"
    assert printed.err == message
