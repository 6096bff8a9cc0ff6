"""Statements of the source and the instructions that begin them, by DWARF's line tables, for one unit at a time."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from prologue.dwarf.debug_info import Unit
from prologue.dwarf.dwarf_entries import DEEPEST, code_of, entry_pc, number_of, origin, text_of
from prologue.errors import InputError

_MACRO_CALL: Final = re.compile(r"(?:(?:static|inline|asmlinkage|noinline)\s+)*\w+\s*\(", re.ASCII)
_MACRO_LINES: Final = 3  # of a macro's call, in which the name may be that it makes a function's name of


class Statement(NamedTuple):
    """An instruction that begins a statement."""

    vaddr: int
    file: str
    line: int


def file_names(unit: Unit) -> list[str]:
    """Return the names of the unit's files, by the numbers of its entries: from 0 on in DWARF 5, from 1 on before."""
    program = unit.debug.dwarf.line_program_for_CU(unit.cu)
    if program is None:
        return [unit.name]
    header = program.header
    old = header["version"] < 5
    directories = [d.decode("utf-8", "replace") for d in header["include_directory"]]
    directories = [unit.directory, *directories] if old else directories
    names = [unit.name] if old else []
    for entry in header["file_entry"]:
        index = entry["dir_index"]
        folder = directories[index] if index < len(directories) else ""
        names.append(str(PurePosixPath(folder) / entry["name"].decode("utf-8", "replace")))
    return names


def unit_statements(unit: Unit) -> list[Statement]:
    """Return all statements of a unit, by address."""
    names, result = file_names(unit), []
    for address, state in unit.line_rows():
        if state.is_stmt and not state.end_sequence and state.line:
            name = names[state.file] if state.file < len(names) else ""
            result.append(Statement(address, name, state.line))
    return sorted(result)


def row_start(unit: Unit, vaddr: int) -> int:
    """Return the start of the row of the line table that has an address; the address itself if none has it.

    A compiler begins a row before an instruction of its own, not within one that is several of the machine: inline
    assembly, or GCC's stack protector. What it says of variables is right only where such an instruction begins.
    """
    index = bisect_right(unit.row_starts, vaddr)
    return unit.row_starts[index - 1] if index else vaddr


def declared(unit: Unit, function: Any) -> tuple[str, int]:
    """Return file and line of a function's declaration."""
    names, number = file_names(unit), number_of(function, "DW_AT_decl_file")
    return (names[number] if number < len(names) else ""), number_of(function, "DW_AT_decl_line")


def function_statements(unit: Unit, function: Any) -> list[Statement]:
    """Return the statements of a function, inlined or not, without those of functions that are inlined into it.

    A call of such a function is a statement: it begins with its first instruction, and with those in it that have the
    line of the call, as ``perf probe`` has it (tools/perf/util/dwarf-aux.c, ``die_walk_lines``, 6.1). A part of the
    function itself (``is_split``) has its statements, and nothing calls it.
    """
    dwarf, names = unit.debug.dwarf, file_names(unit)
    runs = list(code_of(dwarf, function))
    inner = [(entry, list(code_of(dwarf, entry)), _call(names, entry), part) for entry, part in inlined_into(function)]
    result = {
        row
        for row in unit_statements(unit)
        if _inside(row.vaddr, runs)
        and all((call == row[1:]) is not part or not _inside(row.vaddr, taken) for _, taken, call, part in inner)
    }
    file, line = declared(unit, function)
    start = entry_pc(dwarf, function)
    if start is not None:
        result.add(Statement(start, file, line))
    for entry, _, call, part in inner:
        start = entry_pc(dwarf, entry)
        if start is not None and call is not None and not part:
            result.add(Statement(start, *call))
    return sorted(result)


class CallStatement(NamedTuple):
    """A statement that calls inlined code, the function that makes the call, and the one that has both in its code."""

    row: Statement
    caller: Any
    outer: Any


def call_statements(unit: Unit) -> Iterator[CallStatement]:
    """Yield each call of inlined code in a unit: the line table need not have the line of a call."""
    names = file_names(unit)
    for offset in unit.entries.tagged("DW_TAG_subprogram"):
        function = unit.entry(offset)
        yield from _calls(unit, names, CallStatement(Statement(0, "", 0), function, function), function, 0)


def _calls(unit: Unit, names: list[str], outside: CallStatement, entry: Any, depth: int) -> Iterator[CallStatement]:
    if depth > DEEPEST:
        return
    for child in entry.iter_children():
        inside = outside
        if child.tag == "DW_TAG_inlined_subroutine":
            start, call = entry_pc(unit.debug.dwarf, child), _call(names, child)
            if start is not None and call is not None:
                yield outside._replace(row=Statement(start, *call))
            inside = outside._replace(caller=child)
        elif child.tag != "DW_TAG_lexical_block":
            continue
        yield from _calls(unit, names, inside, child, depth + 1)


def is_call(unit: Unit, entry: Any, row: Statement) -> bool:
    """Return whether a statement has the line of an inlined function's call, whose code may be there several times."""
    return _call(file_names(unit), entry) == (row.file, row.line)


def _call(names: list[str], entry: Any) -> tuple[str, int] | None:
    """Return file and line of an inlined function's call; None if they are not known."""
    number = _own_number(entry, "DW_AT_call_file")
    return (names[number], _own_number(entry, "DW_AT_call_line")) if number < len(names) else None


def is_split(abstract: Any, entry: Any) -> bool:
    """Return whether an inlined function is called where it is declared.

    So GCC describes a part that it separated from a function and put back, or that another function shares: perf leaves
    it out, too (tools/perf/util/dwarf-aux.c, ``__die_walk_instances_cb``, 6.1).
    """
    place = _own_number(abstract, "DW_AT_decl_file"), _own_number(abstract, "DW_AT_decl_line")
    return any(place) and place == (_own_number(entry, "DW_AT_call_file"), _own_number(entry, "DW_AT_call_line"))


def _own_number(entry: Any, name: str) -> int:
    """Return a number attribute of the inlined entry itself; 0 if it has none."""
    attribute = entry.attributes.get(name)
    return int(attribute.value) if attribute is not None else 0


def _inside(vaddr: int, runs: list[tuple[int, int]]) -> bool:
    return any(low <= vaddr < high for low, high in runs)


def inlined_into(function: Any, block: Any = None, depth: int = 0) -> Iterator[tuple[Any, bool]]:
    """Yield the functions that are inlined into a function, and whether each is a part of it.

    Those that are inlined into these are left out, except into parts.
    """
    if depth > DEEPEST:
        return
    for child in (block or function).iter_children():
        part = child.tag == "DW_TAG_inlined_subroutine" and is_part(function, child)
        if child.tag == "DW_TAG_inlined_subroutine":
            yield child, part
        if part or child.tag == "DW_TAG_lexical_block":
            yield from inlined_into(function, child, depth + 1)


def is_part(function: Any, entry: Any) -> bool:
    """Return whether an inlined entry is a part of the function that it is in, and no call."""
    abstract = origin(entry)
    return abstract.offset == origin(function).offset and is_split(abstract, entry)


def is_of_header(unit: Unit, function: Any) -> bool:
    """Return whether a function is declared in another file than the unit's own: other units may have it, too."""
    return PurePosixPath(declared(unit, origin(function))[0]).name != PurePosixPath(unit.name).name


def declares(lines: Sequence[str], name: str) -> bool:
    """Return whether a function of that name is declared in the first line: by its name, or by a macro that makes it.

    ``SYSCALL_DEFINE3(read, ...)`` declares ``__do_sys_read``: at a file's left edge, a part of the name in parentheses.
    """
    if not lines or lines[0].lstrip().startswith(("/*", "*", "//")):
        return False
    if name in re.findall(r"\w+", lines[0]):
        return True
    call = _MACRO_CALL.match(lines[0])
    arguments = " ".join(lines[:_MACRO_LINES])[call.end() :].partition(")")[0] if call else ""
    return any(word in name for word in re.findall(r"\w+", arguments))


def _is_in_place(unit: Unit, function: Any, text: Sequence[str]) -> bool:
    """Return whether a function, or one that its file has after it, is declared in the line where the compiler saw it.

    Lines that are added move all that follow. Some names come from macros that no line shows (3 of 7,000 in 6.12).
    """
    file, first = declared(unit, origin(function))

    def is_declared(entry: Any) -> bool:
        line = declared(unit, origin(entry))[1]
        return declares(text[line - 1 :][:_MACRO_LINES], text_of(entry, "DW_AT_name"))

    places = ((entry, declared(unit, origin(entry))) for entry in unit.functions())
    return is_declared(function) or any(is_declared(entry) for entry, at in places if at[0] == file and at[1] > first)


class Sources:
    """The text of source files that are on this machine.

    Args:
        root: a directory with the kernel's source, used instead of the compiler's directory; None for the latter.
        release: the kernel's; empty if it is not known.

    Raises:
        InputError: there is no such directory, or its Makefile is of another release.

    """

    def __init__(self, root: Path | None, release: str = "") -> None:
        if root is not None and not root.is_dir():
            raise InputError("is not a directory: name the kernel's source", path=root)
        if root is not None and (tree := tree_release(root)):
            require_same_release(root, tree, release)
        self._root = root
        self._texts: dict[str, tuple[Path, list[str]]] = {}

    def lines(self, unit: Unit, name: str, functions: Iterable[Any]) -> list[str]:
        """Return all lines of a file; empty if it is not here. ``functions`` are entries of the unit.

        Raises:
            InputError: it is here, and cannot be read; or it is not what was compiled: one of the functions that the
                file declares is not where the compiler saw it.

        """
        if name not in self._texts:
            self._texts[name] = self._read(unit, name)
        path, text = self._texts[name]
        for function in functions if text else ():
            file, line = declared(unit, origin(function))
            if file == name and not _is_in_place(unit, function, text):
                why = f"line {line} does not declare {text_of(function, 'DW_AT_name')}: the source of another build"
                raise InputError(f"{why}; give the tree that this kernel was built from", path=path)
        return text

    def _read(self, unit: Unit, name: str) -> tuple[Path, list[str]]:
        parts = PurePosixPath(unit.directory, name).parts
        # A build's directory is not the root's: the longest end of the path that is a file there. Its name alone may be
        # another file's.
        ends = range(1, max(len(parts) - 1, 2))
        paths = [self._root.joinpath(*parts[k:]) for k in ends] if self._root else [Path(*parts)]
        for path in paths:
            try:
                if path.is_file():
                    return path, path.read_text("utf-8", "replace").splitlines()
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", path=path) from error
        return Path(name), []


def tree_release(root: Path) -> tuple[int, int, int] | None:
    """Return VERSION, PATCHLEVEL and SUBLEVEL of a kernel tree's Makefile; None if it does not say."""
    try:
        text = (root / "Makefile").read_text("utf-8", "replace")[:4096]
    except OSError:
        return None
    fields = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", text, re.MULTILINE))
    return (int(fields["VERSION"]), int(fields["PATCHLEVEL"]), int(fields["SUBLEVEL"])) if len(fields) == 3 else None


def require_same_release(root: Path, tree: tuple[int, int, int], release: str) -> None:
    """Refuse the source of another release. Distributions count on their own: 6.1.0-44 is built from 6.1.176.

    Raises:
        InputError: it is of another.

    """
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    numbers = tuple(int(number or 0) for number in match.groups()) if match else tree
    if numbers[:2] != tree[:2] or (numbers[2] and numbers[2] != tree[2]):
        name = ".".join(map(str, tree))
        raise InputError(f"is the source of {name}, and the kernel is {release}: give that release's tree", path=root)
