"""The text of a trace of probe events, read back into values with the types that the arguments have in C.

Strings print as they are, newlines and quotes included, so that names of the kernel's own choice could be imitated by
what is traced. Events and arguments are therefore given names with a token of this run (``wire_event``). Two arguments
come after the others: the task's name, which the kernel does not know yet if a trace is read at once, and a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from prologue.probe.arguments import Argument
from prologue.probe.event import ProbeEvent

FieldValue = int | str | None | tuple["FieldValue", ...]
"""A number; text (a string, an enumerator's name, a pointer or other number in hex); None: it could not be read."""

_HEAD: Final = r".*-(?P<pid>\d+) +\[(?P<cpu>\d+)\] +\S+ +(?P<time>\d+\.\d+): (?P<event>{events}): \("
_PLACE: Final = re.compile(r"(?P<place>[^()]*)\)")
_SIZE: Final = re.compile(r"/0x[0-9a-f]+")
_NUMBER: Final = re.compile(r"-?\d+|0x[0-9a-f]+")
_BIT_FIELD: Final = re.compile(r"b(\d+)@\d+/\d+")
_FAULT: Final = "(fault)"
_CHARACTER: Final = re.compile(r"'(?:\\x[0-9a-f]{2}|.)'", re.DOTALL)  # also a comma; \xff is a byte that is no text
_COMM: Final = Argument(name="", fetch="$comm", type="", c_type="", asked="")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedEvent:
    """An event of a trace: when (seconds, as the trace has it), on which CPU, by whom, where, and its arguments.

    ``place`` is as the kernel names it; for a return, ``CALLER <- FUNCTION``.
    """

    event: ProbeEvent
    time: str
    cpu: int
    comm: str
    pid: int
    place: str
    values: Mapping[str, FieldValue]


class WireEvent(NamedTuple):
    """An event, and what the kernel gets: the same event under other names."""

    event: ProbeEvent
    sent: ProbeEvent


def wire_event(event: ProbeEvent, group: str, number: int, token: str) -> WireEvent:
    """Give the kernel an event of that group, with names that nothing that is traced can know."""
    arguments = [replace(argument, name=f"a{k}_{token}") for k, argument in enumerate(event.arguments)]
    comm = replace(_COMM, name=f"c_{token}")
    end = Argument(name=f"z_{token}", fetch="%x0", type="x8", c_type="", asked="")
    sent = replace(event, group=group, name=f"e{number}_{token}", arguments=(*arguments, comm, end))
    return WireEvent(event, sent)


class TraceReader:
    """A reader of a trace's lines, one after the other.

    Attributes:
        unread: how many events could not be read.

    """

    def __init__(self, events: Sequence[WireEvent]) -> None:
        self._events = {wire.sent.name: wire for wire in events}
        self._head = re.compile(_HEAD.format(events="|".join(self._events)), re.DOTALL)
        self._pending = ""
        self.unread = 0

    def read(self, line: str) -> TracedEvent | None:
        """Take a line with its newline; return the event that ends with it."""
        begins = self._head.match(line) is not None
        if begins:
            self.finish()
        elif not self._pending:
            return None
        self._pending += line
        hit = self._hit(self._pending.removesuffix("\n"))
        if hit is not None:
            self._pending = ""
        return hit

    def finish(self) -> None:
        """Count what is left of an event, if anything is."""
        self.unread += bool(self._pending)
        self._pending = ""

    def _hit(self, text: str) -> TracedEvent | None:
        head = self._head.match(text)
        if head is None:
            return None
        wire = self._events[head["event"]]
        place = _PLACE.match(text, head.end())
        if place is None:
            return None
        rest, texts = text[place.end() :], []
        for sent in reversed(wire.sent.arguments):
            rest, mark, value = rest.rpartition(f" {sent.name}=")
            if not mark:
                return None
            texts.append(value)
        _, comm, *values = texts
        arguments = wire.event.arguments
        return TracedEvent(
            event=wire.event,
            time=head["time"],
            cpu=int(head["cpu"]),
            comm=str(resolved(_COMM, comm)),
            pid=int(head["pid"]),
            place=_SIZE.sub("", place["place"]),
            values={
                argument.name: resolved(argument, value)
                for argument, value in zip(arguments, reversed(values), strict=True)
            },
        )


def resolved(argument: Argument, text: str) -> FieldValue:
    """Return the value that the kernel printed for an argument."""
    base, bracket, _ = argument.type.partition("[")
    if bracket and "str" not in base and text.startswith("{") and text.endswith("}"):
        element = replace(argument, type=base, value_type=argument.value_type and argument.value_type.target)
        parts = _CHARACTER.findall(text) if base == "char" else text[1:-1].split(",")
        return tuple(resolved(element, part) for part in parts)
    if text == _FAULT:
        return None
    if not _NUMBER.fullmatch(text):
        is_quoted = argument.is_text and len(text) > 1 and text[0] == text[-1] == '"'
        return text[1:-1] if is_quoted else text
    if text.startswith("0x"):
        return text
    number, c_type = int(text), argument.value_type
    if c_type is None or c_type.kind != "int":
        return number
    field = _BIT_FIELD.fullmatch(base)
    if field is not None and c_type.signed and number >> (int(field[1]) - 1):
        number -= 1 << int(field[1])  # events show them unsigned
    return c_type.enumerators.get(number, number)
