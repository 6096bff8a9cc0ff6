"""The recorder's script, run here or by ssh, and its output: parts, and events among other lines (a console's)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from prologue.errors import InputError
from prologue.live.tracefs.machine import TracedMachine, TracingScript, with_instance


def script() -> str:
    """Return the recorder, for any POSIX shell: one script of several files."""
    parts = [files("prologue.live.pokes").joinpath(name) for name in ("record.sh", "printing.sh")]
    return with_instance("".join(part.read_text(encoding="utf-8") for part in parts))


def record(source: str, options: Sequence[str], ssh_options: Sequence[str] = ()) -> str:
    """Record until the recorder ends; an interrupt ends the recording, too.

    Args:
        source: ``local`` or ``ssh:HOST``.
        options: of the script, and the command that it is to run.
        ssh_options: words for ssh, before its host.

    Returns:
        The text that the script printed.

    Raises:
        InputError: ``source`` is no machine, ssh failed, or the recorder says why it cannot record.

    """
    output: list[bytes] = []
    recorder = TracingScript(script(), "record.sh", "cannot be recorded")
    TracedMachine(source, ssh_options).run(recorder, ["-e", *options], output.append)
    return b"".join(output).decode(errors="replace")


START: Final = "==== prologue writes record 1"
ANY_START: Final = "==== prologue writes record "
_PARTS: Final = (
    "machine", "boot_id", "notes", "kernel", "probes", "lost", "ended", "events", "changed", "names",
)  # fmt: skip
_LAST: Final = "end"
# The kernel's messages, which a serial console puts anywhere into a line: a time, and the CONFIG_PRINTK_CALLER.
_MESSAGE: Final = re.compile(r"\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? .*$")
# The time is in ns; what earlier versions recorded has seconds with six digits.
_EVENT: Final = re.compile(
    r"^ *.+-\d+ +(?:\( *[\d-]+\) )?\[(?P<cpu>\d{1,5})\] \S+ +(?P<time>\d{1,19}|\d{1,10}\.\d{6}): (?P<rest>.*)$"
)
_VALUE: Final = r"(?:0x[0-9a-f]{1,16}|0|[1-9]\d{0,19})"
_PROBED: Final = re.compile(rf"^(?P<name>\w+): \((?P<place>[^)]*)\)(?P<fields>(?: \w+={_VALUE})*)$")
_MARKED: Final = re.compile(r"^tracing_mark_write: prologue (?P<mark>\w+)$")
_LOST: Final = re.compile(r"^CPU:\d+ \[LOST (?P<count>\d{1,20}) EVENTS\]$")


class ProbeHit(NamedTuple):
    """An event of a probe: ``fields`` are its arguments; ``time`` in ns, which earlier versions cut off to us."""

    time: int
    cpu: int
    name: str
    fields: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderOutput:
    """The parts' lines, and the events.

    ``marks`` are the times of the recorder's own marks, ``unread`` counts lines of events that do not read, and
    ``dropped`` events that the ring buffer lost.
    """

    path: Path
    parts: dict[str, list[str]]
    hits: tuple[ProbeHit, ...]
    marks: dict[str, int]
    unread: int
    dropped: int

    def value(self, name: str) -> str:
        """Return the value of a ``name=`` in the part "kernel"; empty if it is not there."""
        lines = (line.partition("=") for line in self.parts["kernel"])
        return next((value for key, _, value in lines if key == name), "")


def read_output(text: str, path: Path) -> RecorderOutput:
    """Read the text, which may stand among other text: a console's log.

    Raises:
        InputError: it is cut off, or of another version.

    """
    parts = _parts(_whole_lines(text.splitlines()), path)
    hits: list[ProbeHit] = []
    marks: dict[str, int] = {}
    read = dropped = 0
    for line in parts["events"]:
        event = _EVENT.match(line)
        if lost := _LOST.match(line):
            dropped += int(lost["count"])
        if lost or event is None:
            read += lost is not None
            continue
        time = int(event["time"].replace(".", "")) * (1000 if "." in event["time"] else 1)
        if marked := _MARKED.match(event["rest"]):
            marks.setdefault(marked["mark"], time)
        elif probed := _PROBED.match(event["rest"]):
            fields = dict(field.split("=") for field in probed["fields"].split())
            values = {name: int(value, 0) for name, value in fields.items()}
            hits.append(ProbeHit(time, int(event["cpu"]), probed["name"], values))
        else:
            continue
        read += 1
    counts = parts["ended"][1:2]
    expected = int(counts[0]) if counts and counts[0].isdecimal() else read
    if missing := {"armed", "begin", "end", "last"} - marks.keys():
        raise InputError(f"lacks the recorder's own mark {min(missing)!r}: its events are not whole", path=path)
    return RecorderOutput(
        path=path, parts=parts, hits=tuple(hits), marks=marks, unread=max(expected - read, 0), dropped=dropped
    )


def _whole_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without the messages in them; a line that a message cut in two is whole again."""
    begun = ""
    for line in lines:
        text = line.rstrip("\r")
        message = _MESSAGE.search(text)
        if message is None:
            yield begun + text
            begun = ""
        else:
            begun += text[: message.start()]
    if begun:
        yield begun


def _parts(lines: Iterable[str], path: Path) -> dict[str, list[str]]:
    """Return the lines of each part of the first recording in the text."""
    parts: dict[str, list[str]] | None = None
    current: list[str] = []
    for line in lines:
        if line.startswith(ANY_START):
            if line != START:
                raise InputError(f"was recorded by another version: {line.strip('= ')}, expected 1", path=path)
            if parts is not None:
                raise InputError("holds more than one recording: split it", path=path)
            parts = {}
        elif parts is None or not line.startswith("==== "):
            current.append(line)
        elif (name := line[5:]) == _LAST:
            if missing := [part for part in _PARTS if part not in parts]:
                raise InputError(f"is cut off: it has no part {missing[0]!r}", path=path)
            return parts
        else:
            current = parts[name] = []
    if parts is None:
        raise InputError("holds nothing that writes record printed", path=path)
    raise InputError(f"is cut off in part {list(parts)[-1] if parts else 'machine'!r}: record again", path=path)
