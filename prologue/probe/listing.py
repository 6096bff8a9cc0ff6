"""Source lines with the instructions that begin them and the answers for these, as ``perf probe --line`` has them."""

from __future__ import annotations

from typing import Any

from prologue.dwarf.dwarf_entries import ends_path, readable_dwarf, text_of
from prologue.dwarf.statements import Sources, Statement, declared, function_statements, unit_statements
from prologue.errors import InputError
from prologue.probe.language import ProbeRequest
from prologue.probe.places import Instance, instances
from prologue.probe.probe_target import ProbeTarget


def list_lines(target: ProbeTarget, request: ProbeRequest, sources: Sources) -> list[dict[str, Any]]:
    """List a function wherever its code is, or the files of that name, as ``listings`` of docs/json.md.

    If the source is not here, only lines with code are listed.

    Raises:
        InputError: no such function or file, or no DWARF.

    """
    with readable_dwarf(target.path, "debug information"):
        if request.function:
            return [_of_function(target, instance, sources) for instance in instances(target, request)]
        if target.debug is None:
            raise InputError(f"{request.file} needs DWARF, which this file does not have", path=target.path)
        units = target.debug.units_of_file(request.file)
        if not units:
            raise InputError(f"no source file {request.file}", path=target.path)
        result = []
        for unit in units:
            rows = [row for row in unit_statements(unit) if ends_path(row.file, request.file)]
            file = rows[0].file if rows else request.file
            lines = _lines(target, rows, 0, sources.lines(unit, file, unit.functions()))
            result.append({"name": unit.name, "source": file, "first": 0, "lines": lines})
        return result


def _of_function(target: ProbeTarget, instance: Instance, sources: Sources) -> dict[str, Any]:
    file, first = declared(instance.unit, instance.entry)
    statements = function_statements(instance.unit, instance.entry)
    # Code that functions share has the lines of one of them.
    rows = [row for row in statements if row.file == file and row.line >= first]
    lines = _lines(target, rows, first, sources.lines(instance.unit, file, [instance.entry]))
    name, outer = (text_of(entry, "DW_AT_name") for entry in (instance.entry, instance.outer))
    title = name if instance.entry is instance.outer else f"{name} in {outer}"
    return {"name": title, "source": file, "first": first, "lines": lines}


def _lines(target: ProbeTarget, rows: list[Statement], first: int, text: list[str]) -> list[dict[str, Any]]:
    """List lines, counted from the function's first one; those without code have no places."""
    by_line: dict[int, set[int]] = {}
    for row in rows:
        by_line.setdefault(row.line, set()).add(row.vaddr)
    if not by_line:
        return []
    return [
        {
            "line": number - first,
            "text": (text[number - 1] if number <= len(text) else "") or None,
            "places": [
                {"place": target.place_text(vaddr), "answer": target.judge_at(vaddr).answer(vaddr)}
                for vaddr in sorted(by_line.get(number, ()))
            ],
        }
        for number in (range(min(by_line), max(by_line) + 1) if text else sorted(by_line))
    ]
