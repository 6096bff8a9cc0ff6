"""The link-time addresses of the places that requests name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from prologue.dwarf.debug_info import Unit
from prologue.dwarf.dwarf_entries import code_of, ends_path, entry_pc, number_of, readable_dwarf, text_of
from prologue.dwarf.statements import (
    Sources,
    Statement,
    call_statements,
    declared,
    function_statements,
    is_call,
    is_of_header,
    is_part,
    is_split,
    unit_statements,
)
from prologue.errors import InputError, UsageError
from prologue.probe.language import ProbeRequest
from prologue.probe.probe_target import ProbeTarget
from prologue.probe.scopes import INSTANCES
from prologue.words import meant

_VARIANTS: Final = re.compile(r"(\.(isra|constprop|llvm)\.\d+)+")  # the same function, as the compiler changed it
_NOT_FUNCTIONS: Final = re.compile(r"(__cfi_|__pfx_|\$).*|.*\.cold(\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlace:
    """An address that a request means.

    ``function`` names the event if no symbol does; ``inlined_in`` is the function that an inlined one is part of.
    ``scope`` is the offset in ``.debug_info`` of the function, inlined or not, whose variables are meant.
    """

    asked: str
    vaddr: int
    ambiguous: bool = False  # the symbol names several addresses, of which this is one
    returns: bool = False
    function: str = ""
    inlined_in: str = ""
    scope: int | None = None
    line: int | None = None  # as asked for


class Instance(NamedTuple):
    """A function's code: its own, or an inlined copy."""

    unit: Unit
    outer: Any  # the function whose code it is part of
    entry: Any


def find_places(target: ProbeTarget, request: ProbeRequest, sources: Sources | None = None) -> list[ProbePlace]:
    """Find every address that a request means: several if the symbol is ambiguous, a pattern, or also inlined.

    Raises:
        UsageError: an address is not a multiple of 4.
        InputError: no such symbol, file or line, or no code there.

    """
    with readable_dwarf(target.path, "debug information"):
        places = list(_places(target, request, sources or Sources(None)))
    for place in places:
        _check(target, place)
    return places


def _places(target: ProbeTarget, request: ProbeRequest, sources: Sources) -> Iterator[ProbePlace]:
    if request.address is not None:
        yield ProbePlace(asked=request.asked, vaddr=request.address, returns=request.returns)
    elif request.is_glob:
        yield from _places_of_glob(target, request)
    elif not request.function:
        yield from _places_of_file(target, request, sources)
    elif request.line is not None or request.pattern:
        yield from _places_of_lines(target, request, sources)
    else:
        yield from _places_of_function(target, request)


def _places_of_glob(target: ProbeTarget, request: ProbeRequest) -> Iterator[ProbePlace]:
    """Yield the functions whose names match, in text that stays."""
    matching = [
        (vaddr, name)
        for name, vaddrs in target.names.by_name.items()
        if fnmatchcase(name, request.function) and not _NOT_FUNCTIONS.fullmatch(name)
        for vaddr in set(vaddrs)
        if any(vaddr in text for text in target.text_ranges)
    ]
    if not matching:
        raise InputError(f"no function matches {request.function}", path=target.path)
    for vaddr, name in sorted(matching):
        place = _place_in(target, request, vaddr, name)
        yield replace(place, ambiguous=len(set(target.names.by_name[name])) > 1, function=name)


def _places_of_function(target: ProbeTarget, request: ProbeRequest) -> Iterator[ProbePlace]:
    vaddrs = _addresses(target, request.function)
    if request.file:
        debug = _needs_debug(target, f"@{request.file}")
        described = {vaddr: debug.function_at(target.described_at(vaddr)) for vaddr in vaddrs}
        vaddrs = [at for at, function in described.items() if function and _is_of_file(request, *function)]
    variant = request.function if request.function not in target.names.by_name else ""
    for vaddr in vaddrs:
        place = _place_in(target, request, vaddr, request.function)
        yield replace(place, ambiguous=len(vaddrs) > 1, function=variant)
    inlined = [] if request.has_offset or request.returns else list(_inlined(target, request, vaddrs))
    for instance in inlined:
        start = entry_pc(target.debug.dwarf, instance.entry) if target.debug is not None else None
        if start is not None:
            yield ProbePlace(
                asked=request.asked,
                vaddr=start,
                function=request.function,
                inlined_in=text_of(instance.outer, "DW_AT_name"),
                scope=instance.entry.offset,
            )
    if not vaddrs and not inlined:
        if (request.has_offset or request.returns) and any(True for _ in _inlined(target, request, vaddrs)):
            why = f"{request.function} is only inlined: it has no offsets and no return; its name alone is its places"
            raise InputError(why, path=target.path)
        raise _unknown_symbol(target, request)


def _addresses(target: ProbeTarget, name: str) -> list[int]:
    """Return the addresses of the symbol, or of the variants that the compiler made of the function."""
    known = target.names.by_name
    if name in known:
        every = sorted(set(known[name]))
        return [vaddr for vaddr in every if _is_code(target, vaddr)] or every  # a variable may have that name, too
    start = name + "."
    variants = (
        at for other, at in known.items() if other.startswith(start) and _VARIANTS.fullmatch(other[len(name) :])
    )
    return sorted({vaddr for at in variants for vaddr in at})


def _is_of_file(request: ProbeRequest, unit: Unit, function: Any) -> bool:
    return not request.file or ends_path(declared(unit, function)[0], request.file)


def _needs_debug(target: ProbeTarget, what: str) -> Any:
    if target.debug is None:
        raise InputError(f"{what} needs DWARF, which this file does not have: give FUNC+OFFSET", path=target.path)
    return target.debug


def _place_in(target: ProbeTarget, request: ProbeRequest, vaddr: int, name: str) -> ProbePlace:
    """Return the place in the function of that name that begins at an address."""
    end = target.end_of(vaddr)
    if request.offset and vaddr + request.offset >= end:
        raise InputError(
            f"{request.asked.split()[0]} is beyond {name}, which has {end - vaddr:#x} bytes", path=target.path
        )
    return ProbePlace(asked=request.asked, vaddr=vaddr + request.offset, returns=request.returns)


def _inlined(target: ProbeTarget, request: ProbeRequest, vaddrs: list[int]) -> Iterator[Instance]:
    """Yield the inlined copies of a function: a function of a unit has them there only, a header's in any unit."""
    debug = target.debug
    if debug is None:
        return
    units = []
    for vaddr in vaddrs:
        function = debug.function_at(target.described_at(vaddr))
        if function is None:
            return
        unit, entry = function
        if number_of(entry, "DW_AT_inline") & 1:
            units += debug.units_naming(request.function) if is_of_header(unit, entry) else [unit]
    for unit in units if vaddrs else debug.units_naming(request.function):
        for abstract in unit.named(request.function, "DW_TAG_subprogram"):
            if _is_of_file(request, unit, abstract):
                copies = ((outer, entry) for outer, entry in unit.inlined(abstract) if not is_split(abstract, entry))
                yield from (Instance(unit, outer, entry) for outer, entry in copies)


def instances(target: ProbeTarget, request: ProbeRequest) -> list[Instance]:
    """Return a function's own code and all inlined copies of it.

    Raises:
        InputError: no such function, or nothing describes it.

    """
    debug = _needs_debug(target, "a line" if request.line is not None else "a pattern")
    vaddrs = _addresses(target, request.function)
    functions = [debug.function_at(target.described_at(vaddr)) for vaddr in vaddrs]
    of_file = (function for function in functions if function and _is_of_file(request, *function))
    result = [Instance(unit, entry, entry) for unit, entry in of_file]
    result += _inlined(target, request, vaddrs)
    if not result and vaddrs:
        raise InputError(f"no debug information describes {request.function}", path=target.path)
    if not result:
        raise _unknown_symbol(target, request)
    return result


def _places_of_lines(target: ProbeTarget, request: ProbeRequest, sources: Sources) -> Iterator[ProbePlace]:
    """Yield statements of a function: of a line, counted from its first, or all whose text matches."""
    known: set[int] = set()
    places = []
    for instance in instances(target, request):
        file, first = declared(instance.unit, instance.entry)
        rows = [row for row in function_statements(instance.unit, instance.entry) if row.file == file]
        known |= {row.line - first for row in rows}
        text = sources.lines(instance.unit, file, [instance.entry]) if request.pattern else []
        lines = _wanted_lines(target, request, first, text, file)
        places += [
            _place_of(request, instance.outer, instance.entry, row._replace(line=row.line - first))
            for row in _statements_of(rows, lines)
        ]
    if not places:
        raise _no_line(target, request, known)
    yield from places


def _wanted_lines(target: ProbeTarget, request: ProbeRequest, first: int, text: list[str], file: str) -> set[int]:
    """Return the lines that a request means, as the file counts them."""
    if not request.pattern:
        return {first + (request.line or 0)}
    if not text:
        raise InputError(f"{file} is not here to look for {request.pattern!r}: give --source", path=target.path)
    return {number for number, line in enumerate(text, 1) if matches_lazily(line, request.pattern)}


def _statements_of(rows: list[Statement], lines: set[int]) -> list[Statement]:
    """Return the statements of some lines, one for each address."""
    chosen = {row.vaddr: row for row in rows if row.line in lines}
    return [chosen[vaddr] for vaddr in sorted(chosen)]


def _no_line(target: ProbeTarget, request: ProbeRequest, known: set[int]) -> InputError:
    asked = request.asked.split()[0]
    if request.pattern:
        return InputError(f"{asked}: no line with code matches {request.pattern!r}", path=target.path)
    near = sorted(known, key=lambda line: (line < (request.line or 0), abs(line - (request.line or 0))))[:1]
    hint = f"; the next that has: {near[0]}" if near else ""
    return InputError(f"{asked}: line {request.line} has no code{hint}", path=target.path)


def matches_lazily(line: str, pattern: str) -> bool:
    """Return whether a line matches a pattern of ``perf probe``: a glob, for which space does not count."""
    return fnmatchcase("".join(line.split()), "".join(pattern.split()))


def _places_of_file(target: ProbeTarget, request: ProbeRequest, sources: Sources) -> Iterator[ProbePlace]:
    debug = _needs_debug(target, request.asked.split()[0])
    units = debug.units_of_file(request.file)
    if not units:
        header = " (inlined code of a header has its function's name)" if request.file.endswith(".h") else ""
        raise InputError(f"no source file {request.file}{header}", path=target.path)
    known: set[int] = set()
    places = []
    for unit in units:
        rows = [row for row in unit_statements(unit) if ends_path(row.file, request.file)]
        known |= {row.line for row in rows}
        text = sources.lines(unit, rows[0].file, unit.functions()) if rows and request.pattern else []
        wanted = _wanted_lines(target, request, 0, text, request.file)
        for row in _statements_of(rows, wanted):
            function = unit.function_at(row.vaddr)
            if function is not None:
                places.append(_place_of(request, function, _innermost(unit, function, row), row))
        lines = wanted - {row.line for row in rows}
        calls = [call for call in call_statements(unit) if ends_path(call.row.file, request.file)] if lines else []
        known |= {call.row.line for call in calls}
        places += [_place_of(request, call.outer, call.caller, call.row) for call in calls if call.row.line in lines]
    if not places:
        raise _no_line(target, request, known)
    yield from places


def _place_of(request: ProbeRequest, outer: Any, inner: Any, row: Statement) -> ProbePlace:
    return ProbePlace(
        asked=request.asked,
        vaddr=row.vaddr,
        function=text_of(inner, "DW_AT_name"),
        inlined_in=text_of(outer, "DW_AT_name") if inner is not outer else "",
        scope=inner.offset,
        line=row.line,
    )


def _innermost(unit: Unit, entry: Any, row: Statement) -> Any:
    """Return the innermost function, inlined or not, that a statement is in: a call is in the function that calls."""
    result, queue = entry, [entry]
    while queue:
        inside = queue.pop()
        if inside.tag in INSTANCES and declared(unit, inside)[0] == row.file and not is_part(result, inside):
            result = inside
        queue += [
            child for child in inside.iter_children()
            if child.tag in ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block")
            and any(low <= row.vaddr < high for low, high in code_of(unit.debug.dwarf, child))
            and not (child.tag in INSTANCES and is_call(unit, child, row))
        ]  # fmt: skip
    return result


def _check(target: ProbeTarget, place: ProbePlace) -> None:
    if place.vaddr % 4:
        raise UsageError(f"{place.asked}: {place.vaddr:#x} is not a multiple of 4, and instructions are")
    if place.returns and not target.is_entry(place.vaddr):
        raise InputError(f"{place.asked}: no function begins there, and only a function returns", path=target.path)
    if place.vaddr >= 1 << 64 or not _is_code(target, place.vaddr):
        text = target.text_ranges[0]
        raise InputError(
            f"{place.asked}: {place.vaddr:#x} is not code of this kernel, whose text is {text.start:#x}-{text.stop:#x} "
            "(addresses are those of the vmlinux: for one of a running kernel give --slide or --kallsyms)",
            path=target.path,
        )


def _is_code(target: ProbeTarget, vaddr: int) -> bool:
    section = target.binary.image.section_at(vaddr)
    return section is not None and section.is_text


def _unknown_symbol(target: ProbeTarget, request: ProbeRequest) -> InputError:
    name = request.function
    if request.file and name in target.names.by_name:
        return InputError(f"{name} is not in {request.file}", path=target.path)
    if target.binary.symbols.find(name) is not None:
        why = f"{name} is not a symbol that the running kernel knows: kallsyms leaves it out, so give its address"
        return InputError(why, path=target.path)
    hint = meant(name, target.names.by_name)
    where = "" if target.module else " (a module's are not in the vmlinux: MOD:FUNC with --modules)"
    return InputError(f"no symbol {name}{hint and ': ' + hint}{where}", path=target.path)
