"""Events and their lines, which are written to ``kprobe_events``, or, for fprobe events, to ``dynamic_events``.

Documentation/trace/kprobetrace.rst and fprobetrace.rst; limits of kernel/trace/trace_probe.h and trace.c (5.10 to 7.3).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from prologue.errors import InputError
from prologue.probe.arguments import MOST_ARGUMENTS, Argument, Omitted, unique_name
from prologue.probe.language import LONGEST_NAME
from prologue.probe.probe_target import ProbeTarget
from prologue.probe.verdict import ProbeVerdict

_LONGEST_LINE: Final = 4094  # WRITE_BUFSIZE, without newline and NUL
_LARGEST: Final = 3072  # MAX_PROBE_EVENT_SIZE
_SYMSTR: Final = (6, 1)  # fetch types of trace_probe.c, not in 5.10
_CHAR: Final = (6, 3)  # ASSIGN_FETCH_TYPE_ALIAS(char, ...)
_ENTRY_AT_RETURN: Final = (6, 9)  # store_entry_arg
_LONG: Final = (7, 3)  # MAX_ARGSTR_LEN was 63 before, and TRACEPROBE_MAX_NESTED_LEVEL is 8
_LONGEST_BEFORE: Final = 63
_DEEPEST_SINCE: Final = 8
_FIRST, _LAST = (0, 0), (1 << 16, 0)
# What tracing adds at most to an event, and to an argument's name: group, name and two arguments; a127_, and a token.
_TRACED_ARGUMENTS, _TRACED_LINE, _TRACED_SIZE, _TRACED_NAME = 2, 64, 5, 11
_DEFAULT_GROUPS: Final = {"p": "kprobes", "r": "kprobes", "f": "fprobes"}
EventKind = Literal["p", "r", "f"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEvent:
    """An event. ``group`` is empty for the kernel's own (``_DEFAULT_GROUPS``); ``place`` is as the kernel reads it."""

    kind: EventKind
    group: str
    name: str
    place: str
    arguments: tuple[Argument, ...] = ()
    omitted: tuple[Omitted, ...] = ()

    @property
    def full_group(self) -> str:
        """The group, also if it is the kernel's own."""
        return self.group or _DEFAULT_GROUPS[self.kind]

    @property
    def full_name(self) -> str:
        """``GROUP/NAME``, as in ``events/`` of tracefs."""
        return f"{self.full_group}/{self.name}"

    @property
    def line(self) -> str:
        """Line for the kernel."""
        group = f"{self.group}/" if self.group else ""
        return " ".join([f"{self.kind}:{group}{self.name}", self.place, *map(str, self.arguments)])

    @property
    def definition(self) -> tuple[str, str, tuple[str, ...]]:
        """Kind, place and arguments: two events that have the same are one, whatever their names."""
        return self.kind, self.place, tuple(map(str, self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Options of events; without ``group`` and ``name`` they have the kernel's own group, and are named by place."""

    group: str = ""
    name: str = ""
    fprobe: bool = False
    all_variables: bool = False  # every variable in scope is an argument
    traced: bool = False  # the kernel gets it with other names, and more arguments: ``read_trace.wire_event``


def make_event(
    target: ProbeTarget,
    verdict: ProbeVerdict,
    arguments: tuple[Argument, ...],
    omitted: tuple[Omitted, ...],
    options: EventOptions,
) -> ProbeEvent:
    """Make the event of a place, with as many arguments as the kernel takes; its name need not be unique.

    Raises:
        InputError: no symbol names the place, or, for an fprobe event, several functions have its name.

    """
    place = target.place_text(verdict.place.vaddr)
    kind: EventKind = "f" if options.fprobe else "r" if verdict.place.returns else "p"
    if kind == "f":
        place += "%return" if verdict.place.returns else ""
        if target.module:
            raise InputError(f"fprobe events name no module, and the kernel has no function {place}")
        if "+" in place:
            raise InputError(f"fprobe events name a function, and the kernel knows several of that name: {place}")
        arguments, more = _without_registers(arguments, returns=verdict.place.returns)
        omitted += more
    event = ProbeEvent(kind=kind, group=options.group, name=options.name or _default_name(verdict), place=place)
    used, size, most, shortest = len(event.line), 0, MOST_ARGUMENTS, 0
    if options.traced:
        used, size, shortest = used + _TRACED_LINE, _TRACED_SIZE, _TRACED_NAME
        most -= _TRACED_ARGUMENTS
    kept: list[Argument] = []
    for argument in arguments:
        used += len(f" {argument.name:{shortest}}={argument.value}")
        size += size_of(argument)
        if used > _LONGEST_LINE or size > _LARGEST or len(kept) == most:
            reason = "the kernel takes no longer line, no larger event, or no more arguments"
            omitted += (Omitted(argument.asked, reason),)
        else:
            kept.append(argument)
    return replace(event, arguments=tuple(kept), omitted=omitted)


def without_others(
    arguments: tuple[Argument, ...], release: tuple[int, int] | None, *, returns: bool
) -> tuple[tuple[Argument, ...], tuple[Omitted, ...]]:
    """Separate arguments that only other releases take.

    Args:
        arguments: of an event.
        release: of the kernel; None if it is not known.
        returns: it is a kprobe event of a function's return.

    """
    kept, omitted = [], []
    for argument in arguments:
        features = _features(argument, returns=returns) if release is not None else iter(())
        other = next((each for each in features if release is None or not each[1] <= release < each[2]), None)
        if other is not None:
            feature, since, end = other
            releases = f"before {end[0]}.{end[1]}" if since == _FIRST else f"from {since[0]}.{since[1]} on"
            # Variables may need these, too.
            omitted.append(Omitted(argument.asked, f"{feature} of releases {releases}", is_mistake=_LONG not in other))
        else:
            kept.append(argument)
    return tuple(kept), tuple(omitted)


def _features(argument: Argument, *, returns: bool) -> Iterator[tuple[str, tuple[int, int], tuple[int, int]]]:
    """Yield what an argument needs of the kernel, the first release that has it, and the first without it again."""
    if argument.type == "symstr":
        yield "the type symstr is", _SYMSTR, _LAST
    if argument.type.startswith("char"):
        yield "the type char is", _CHAR, _LAST
    if returns and "$arg" in argument.fetch:
        yield "$argN at a return is", _ENTRY_AT_RETURN, _LAST
    if len(argument.value) > _LONGEST_BEFORE:
        yield f"arguments of more than {_LONGEST_BEFORE} characters, as {argument.fetch} is, are", _LONG, _LAST
    if not argument.is_text and argument.fetch.count("(") > _DEEPEST_SINCE:
        yield f"more than {_DEEPEST_SINCE} pointers to follow, as in {argument.fetch}, are", _FIRST, _LONG


def size_of(argument: Argument) -> int:
    """Return the bytes that the kernel reserves for an argument in each event; of a string, 4 before its text."""
    base, _, count = argument.type.partition("[")
    size = re.search(r"(\d+)$", base)
    bits = 32 if argument.is_text else 8 if base == "char" else int(size[1]) if size is not None else 64
    return bits // 8 * int(count.rstrip("]") or 1)


def _default_name(verdict: ProbeVerdict) -> str:
    """Name an event by symbol and offset; if its place is inlined or a line, by the function that was asked for."""
    where, place = verdict.where, verdict.place
    base, end = where.symbol or f"at_{place.vaddr:x}", f"_{where.symbol_offset:#x}" if where.symbol_offset else ""
    if place.line is not None or place.inlined_in:
        base, end = place.function, f"_L{place.line}" if place.line is not None else ""
        end += f"_in_{place.inlined_in}" if place.inlined_in else ""
    elif place.returns:
        end = "__return"
    room = LONGEST_NAME - len(end[: LONGEST_NAME // 2])
    name = re.sub(r"\W", "_", base, flags=re.ASCII)[:room] + re.sub(r"\W", "_", end[: LONGEST_NAME // 2])
    return f"_{name}"[:LONGEST_NAME] if name[0].isdigit() else name


def _without_registers(
    arguments: tuple[Argument, ...], *, returns: bool
) -> tuple[tuple[Argument, ...], tuple[Omitted, ...]]:
    """Give fprobe events their arguments: they know the first eight parameters by number, and no registers.

    At a return, ``$arg1`` is X0 at the entry, and ``$retval`` is X0.
    """
    kept, omitted = [], []
    for argument in arguments:
        if returns:
            fetch = re.sub(r"%x0\b", "$retval", argument.fetch)
        else:
            fetch = re.sub(r"%x([0-7])\b", lambda match: f"$arg{int(match[1]) + 1}", argument.fetch)
        if "%" in fetch:
            omitted.append(Omitted(argument.asked, "fprobe events have no registers (f:): use a kprobe event"))
        else:
            kept.append(replace(argument, fetch=fetch))
    return tuple(kept), tuple(omitted)


def with_unique_names(events: Iterable[ProbeEvent]) -> list[ProbeEvent]:
    """Give events unique names: the kernel would take a second event of a name for another probe of the first."""
    used: dict[str, set[str]] = defaultdict(set)  # by group
    result = []
    for event in events:
        names = used[event.full_group]
        unique = replace(event, name=unique_name(event.name, LONGEST_NAME, names))
        names.add(unique.name)
        result.append(unique)
    return result
