"""Source lines with the instructions that begin them and the answers for these, as ``perf probe --line`` has them."""

from __future__ import annotations

from dataclasses import dataclass

from prologue.dwarf.dwarf_entries import ends_path, readable_dwarf, text_of
from prologue.dwarf.statements import Sources, Statement, declared, function_statements, unit_statements
from prologue.errors import InputError
from prologue.probe.judge import Answer
from prologue.probe.language import ProbeRequest
from prologue.probe.places import instances
from prologue.probe.probe_target import ProbeTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLine:
    """A line of a source file; ``number`` counts from the function's first line, or from the file's.

    ``places`` are the instructions that begin it, and the answer for each; none if it has no code. ``text`` is empty
    if the source is not here.
    """

    number: int
    text: str
    places: tuple[tuple[int, Answer], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The lines of a function's code, or of a file's; ``first`` is the file's number of the function's line 0."""

    name: str
    file: str
    first: int
    lines: tuple[ListedLine, ...]


def list_lines(target: ProbeTarget, request: ProbeRequest, sources: Sources) -> list[Listing]:
    """List a function wherever its code is, or the files of that name; only lines with code if the source is not here.

    Raises:
        InputError: no such function or file, or no DWARF.

    """
    with readable_dwarf(target.path, "debug information"):
        if request.function:
            result = []
            for instance in instances(target, request):
                file, first = declared(instance.unit, instance.entry)
                statements = function_statements(instance.unit, instance.entry)
                # Code that functions share has the lines of one of them.
                own = [row for row in statements if row.file == file and row.line >= first]
                text = sources.lines(instance.unit, file, [instance.entry])
                name, outer = (text_of(entry, "DW_AT_name") for entry in (instance.entry, instance.outer))
                title = name if instance.entry is instance.outer else f"{name} in {outer}"
                result.append(Listing(name=title, file=file, first=first, lines=_lines(target, own, first, text)))
            return result
        if target.debug is None:
            raise InputError(f"{request.file} needs DWARF, which this file does not have", path=target.path)
        units = target.debug.units_of_file(request.file)
        if not units:
            raise InputError(f"no source file {request.file}", path=target.path)
        result = []
        for unit in units:
            own = [row for row in unit_statements(unit) if ends_path(row.file, request.file)]
            file = own[0].file if own else request.file
            lines = _lines(target, own, 0, sources.lines(unit, file, unit.functions()))
            result.append(Listing(name=unit.name, file=file, first=0, lines=lines))
        return result


def _lines(target: ProbeTarget, own: list[Statement], first: int, text: list[str]) -> tuple[ListedLine, ...]:
    by_line: dict[int, set[int]] = {}
    for row in own:
        by_line.setdefault(row.line, set()).add(row.vaddr)
    if not by_line:
        return ()
    numbers = range(min(by_line), max(by_line) + 1) if text else sorted(by_line)
    return tuple(
        ListedLine(
            number=number - first,
            text=text[number - 1] if number <= len(text) else "",
            places=tuple((vaddr, target.judge_at(vaddr).answer(vaddr)) for vaddr in sorted(by_line.get(number, ()))),
        )
        for number in numbers
    )
