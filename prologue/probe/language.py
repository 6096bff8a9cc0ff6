"""The language of places and arguments, that of ``perf probe`` (tools/perf/Documentation/perf-probe.txt), as data.

``[[GROUP:]EVENT=]PLACE [ARGUMENT...]``. PLACE is an address, ``FILE:LINE``, ``FILE;PATTERN`` or
``[MOD:]FUNC[@FILE][+OFFSET | %return | :LINE | ;PATTERN]``. ARGUMENT is a fetch argument of the kernel or
``[NAME=]VARIABLE[->MEMBER | .MEMBER | [INDEX]]...[:TYPE][@user]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from prologue.errors import UsageError

LONGEST_NAME: Final = 63  # of an event or group: MAX_EVENT_NAME_LEN of kernel/trace/trace_probe.h is 64
_FORMS: Final = "FUNC, FUNC+OFFSET, FUNC%return, FUNC:LINE, FUNC@FILE, FUNC;PATTERN, FILE:LINE, MOD:FUNC or an address"
_NAMED: Final = re.compile(r"(?:(?P<group>[A-Za-z_]\w*)[:/])?(?P<event>[A-Za-z_]\w*)=(?P<place>[^=].*)", re.ASCII)
_ADDRESS: Final = re.compile(r"0[xX][0-9a-fA-F]+|[0-9a-fA-F]{16}")
_PARTS: Final = re.compile(r"([:+@%])([^:+@%]*)")
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]+|\d+")
_LINE: Final = re.compile(r"\d+|-[\d-]*|\d+-\d*")  # also those that are wrong, so that they are no functions' names
_FILE: Final = re.compile(r".*/.*|.+\.[chsS]")
_FUNCTION: Final = re.compile(r"[\w.$*?\[\]!-]+", re.ASCII)
_ARGUMENT: Final = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<value>.+?)(?P<type>:\w+(?:@\d+/\d+)?(?:\[\d+\])?)?(?P<user>@user)?", re.ASCII
)
_VARIABLE: Final = re.compile(r"(?P<root>\$retval|[A-Za-z_]\w*)(?P<steps>(?:(?:->|\.)\w+|\[\d+\])*)", re.ASCII)
_STEP: Final = re.compile(r"(->|\.)(\w+)|\[(\d+)\]", re.ASCII)
_EXPANDED: Final = ("$vars", "$params")


@dataclass(frozen=True, slots=True)
class MemberStep:
    """A step from a variable to a member or an element."""

    member: str  # empty for an element
    index: int = 0
    arrow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentRequest:
    """An argument as asked for.

    Either ``variable`` and ``steps``, or ``raw``, a fetch argument that the kernel gets as it is; or ``$vars`` or
    ``$params`` in ``variable``. ``type`` is of kprobe events, without its colon; empty for that of the variable.
    """

    asked: str
    name: str = ""
    variable: str = ""
    steps: tuple[MemberStep, ...] = ()
    raw: str = ""
    type: str = ""
    user: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """A place as asked for, with its arguments; ``arguments`` is None if the request has none."""

    asked: str
    group: str = ""
    event: str = ""
    module: str = ""
    function: str = ""  # or a pattern of names, if ``is_glob``
    file: str = ""
    offset: int = 0
    has_offset: bool = False
    line: int | None = None
    pattern: str = ""
    address: int | None = None
    returns: bool = False
    arguments: tuple[ArgumentRequest, ...] | None = None

    @property
    def is_glob(self) -> bool:
        """True if ``function`` stands for all names that match it."""
        return any(character in self.function for character in "*?[")


def parse_request(asked: str) -> ProbeRequest:
    """Parse a place and its arguments.

    Raises:
        UsageError: it is not in the language.

    """
    words = asked.split()
    if not words:
        raise UsageError(f"a place is empty: give {_FORMS}")
    named = _NAMED.fullmatch(words[0])
    for name in (named["group"] or "", named["event"]) if named else ():
        if len(name) > LONGEST_NAME:
            raise UsageError(f"{name!r} is longer than the {LONGEST_NAME} characters that the kernel takes")
    place = named["place"] if named else words[0]
    return replace(
        _place(asked, place),
        group=(named["group"] or "") if named else "",
        event=named["event"] if named else "",
        arguments=tuple(parse_argument(word) for word in words[1:]) or None,
    )


def parse_listed(asked: str) -> ProbeRequest:
    """Parse the name of a function, with its file or without it, or of a file, for a list of its lines.

    Raises:
        UsageError: neither.

    """
    if _FILE.fullmatch(asked) and "@" not in asked:
        return ProbeRequest(asked=asked, file=_without_dots(asked))
    request = parse_request(asked)
    others = request.has_offset, request.line is not None, request.pattern, request.returns, request.is_glob
    if any(others) or request.address is not None or request.arguments or request.event:
        raise UsageError(f"{asked!r}: give FUNC, FUNC@FILE or FILE to list")
    return request


def _place(asked: str, place: str) -> ProbeRequest:
    place, semicolon, pattern = place.partition(";")
    if semicolon and not pattern:
        raise _bad(asked, "no pattern after ;")
    head, parts = re.split(r"[:+@%]", place, maxsplit=1)[0], _PARTS.findall(place)
    fields: dict[str, str] = {}
    if _FILE.fullmatch(head) and (semicolon or (parts and parts[0][0] == ":")):
        fields["file"] = head
    elif parts and parts[0][0] == ":" and not _LINE.fullmatch(parts[0][1]):
        fields["module"], fields["function"] = head, parts.pop(0)[1]
    else:
        fields["function"] = head
    for sign, text in parts:
        field = {":": "line", "+": "offset", "@": "file", "%": "return"}[sign]
        if field in fields:
            raise _bad(asked, f"{sign} twice")
        fields[field] = text
    _check(asked, fields, bool(semicolon))
    function, offset = fields.get("function", ""), fields.get("offset", "")
    address = int(function, 16) if _ADDRESS.fullmatch(function) and "module" not in fields else None
    return ProbeRequest(
        asked=asked,
        module=fields.get("module", "").replace("-", "_"),
        function="" if address is not None else function,
        file=_without_dots(fields.get("file", "")),
        offset=int(offset, 0 if "x" in offset.lower() else 10) if offset else 0,
        has_offset=bool(offset),
        line=int(fields["line"]) if "line" in fields else None,
        pattern=pattern,
        address=address,
        returns="return" in fields,
    )


def _without_dots(file: str) -> str:
    """Return a path without the ./ at its start, as builds and stack traces have it."""
    return str(PurePosixPath(file)) if file else ""


def _check(asked: str, fields: dict[str, str], has_pattern: bool) -> None:
    function = fields.get("function", "")
    if not fields.get("file") and not _FUNCTION.fullmatch(function):
        raise _bad(asked, f"{function!r} is not a function's name" if function else "it names no function")
    if not fields.get("module", "any"):
        raise _bad(asked, "no module before :")
    is_address = "module" not in fields and _ADDRESS.fullmatch(function) is not None
    parts = [name for name in ("offset", "file", "line") if name in fields] + ["pattern"] * has_pattern
    parts = parts if is_address else [name for name in parts if name != "offset" and set(function) & set("*?[")]
    if parts:
        raise _bad(asked, f"{'an address' if is_address else 'a glob'} takes no {parts[0]}")
    if "offset" in fields and not _NUMBER.fullmatch(fields["offset"]):
        raise _bad(asked, f"offset {fields['offset']!r} is not a number (0x10 or 16)")
    if "line" in fields and not fields["line"].isdecimal():
        raise _bad(asked, f"{fields['line']!r} is not a line, a number from 0 on")
    if fields.get("return", "return") != "return":
        raise _bad(asked, f"%{fields['return']}: only %return is known")
    if not function and "line" not in fields and not has_pattern:
        raise _bad(asked, "a file needs a line or a pattern")
    ways = [name for name in ("offset", "line", "return") if name in fields] + ["pattern"] * has_pattern
    if len(ways) > 1:
        raise _bad(asked, f"{' and '.join(ways)} exclude each other")
    if "file" in fields and not fields["file"]:
        raise _bad(asked, "no file after @")


def _bad(asked: str, reason: str) -> UsageError:
    return UsageError(f"{asked!r} is not a place: {reason}; give {_FORMS}")


def parse_argument(asked: str) -> ArgumentRequest:
    """Parse one argument.

    Raises:
        UsageError: it is not in the language.

    """
    match = _ARGUMENT.fullmatch(asked)
    if match is None:
        raise UsageError(f"{asked!r} is not an argument: give [NAME=]VARIABLE[->MEMBER][:TYPE]")
    value, name, kind = match["value"], match["name"] or "", (match["type"] or "")[1:]
    if value in _EXPANDED:
        if name or kind or match["user"]:
            raise UsageError(f"{asked!r}: {value} stands for several arguments: it takes no name, no type and no @user")
        return ArgumentRequest(asked=asked, variable=value)
    variable = _VARIABLE.fullmatch(value)
    if variable is not None:
        steps = tuple(
            MemberStep(member or "", int(index or 0), arrow == "->")
            for arrow, member, index in _STEP.findall(variable["steps"])
        )
        return ArgumentRequest(
            asked=asked, name=name, variable=variable["root"], steps=steps, type=kind, user=bool(match["user"])
        )
    if value[0] not in "%$@+-\\":
        raise UsageError(
            f"{asked!r} is not an argument: give [NAME=]VARIABLE[->MEMBER][:TYPE], or what the kernel takes"
        )
    if match["user"]:
        raise UsageError(f"{asked!r}: @user is of variables; of memory that the kernel reads, give +u0(...)")
    if value[0] == "%" and kind in ("string", "ustring"):
        raise UsageError(f"{asked!r}: the kernel refuses a register as a string; give +0({value}):{kind}")
    return ArgumentRequest(asked=asked, name=name, raw=value, type=kind)
