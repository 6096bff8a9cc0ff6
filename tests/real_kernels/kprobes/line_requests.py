"""Requests for ``prologue probe --event``, by kind: every kind of place and argument that docs/probe.md has.

Functions are drawn by lot. Types come from BTF, so that it is not the DWARF reader under test that says which members
there are; locals, lines and inlined functions are DWARF's alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from prologue.dwarf.c_types import CType
from prologue.dwarf.debug_info import Unit
from prologue.dwarf.dwarf_entries import number_of, text_of
from prologue.dwarf.statements import Statement, declared, function_statements
from prologue.kernel.load import open_binary
from prologue.probe.judge import Reason
from prologue.probe.places import ProbePlace
from prologue.probe.prober import Prober
from prologue.probe.scopes import Variable

FETCH: Final = "fetch argument"
REFUSED_FETCH: Final = "fetch argument, refused"
MODULE: Final = "module"
# Fetch arguments that every kernel takes from 5.10 on, and some that none takes; but 7.3 takes more than 63 characters.
_TAKEN: Final = r"""
    %x0 %x30 %sp %pc %pstate $stack $stack0 $stack12 $stack128 $stack2048 $comm @jiffies_64:u64 %x1:s8 %x2:x16
    @linux_banner:string @linux_banner+6:string @jiffies_64-8:x64 \1 \0xff:x8 \-1:s32 \"text" +8(%x0) -8(%sp):x32
    +u0(%x1):ustring +0(+8(%x0)):string +0(%x0):u8[64] +0(%sp):x64[3] %x0:b4@2/32 %x3:b64@0/64 %x0:symbol
    +0(%x0):symbol $arg1 $arg8:u32 +0x10($arg1):u64 +0($stack):u32 +u8(+0(%x1)):x64 +0(%x0):string[2] -0x10(%x29)
    +0(%x0):b3@1/8 +0(+0(+0(+0(+0(+0(+0(+0(%x0))))))))
    +0x12345678(+0x12345678(+0x12345678(+0x12345678(+0x12(%x29)))))"""
_REFUSED: Final = r"""
    %x31 %w0 %r0 %xzr $arg0 $arg $stackx $nothing @no_such_symbol %x0:u7 %x0:u128 %x0:string %x0:ustring
    +0(%x0):u8[65] +0(%x0):u8[0] %x0:u8[4] $retval $comm:u8 %x0:b0@0/32 %x0:b33@0/32 %x0:b8@60/64 %x0:b4@30/32
    %x0:b8@0/24 +0($comm) %x0:struct % $ @ +8 +8() +8(%x0 \ +0(\"a"):u8 %x0:u8[ --8(%x0) %x0:int vfs_read +0(%x99)
    +8(8(%x0)) @jiffies_64*2 $stack2049 +u0(%x1):u8[4]
    +0x12345678(+0x12345678(+0x12345678(+0x12345678(+0x123(%x29)))))"""
# Of the equal share of each kind: pyelftools reads a table of lines for up to a second; all fetch arguments are wanted.
_SHARES: Final = {"FUNC:LINE": 0.4, "FUNC;PATTERN": 0.4, "FILE:LINE": 0.2, FETCH: 3, REFUSED_FETCH: 3}
_WORD: Final = re.compile(r"[^\w()>,.-]+", re.ASCII)
_LEAVES: Final = ("int", "pointer")


@dataclass(frozen=True, slots=True)
class LineRequest:
    """A request, and the kind that it was drawn for."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The end of a walk over members: its C expression, steps, and type, and whether it is a bit field."""

    text: str
    steps: int
    type: CType
    bits: int


def choose_requests(
    prober: Prober, count: int, seed: int, *, modules: Path | None = None, source: Path | None = None
) -> list[LineRequest]:
    """Draw requests, a kind at a time, so that no rare kind drowns; the same for the same seed and kernel."""
    chooser = _Chooser(prober, seed, source)
    kinds = chooser.kinds()
    if modules is not None:
        kinds[MODULE] = partial(chooser.of_modules, modules)
    each = -(-count // len(kinds))
    chosen = []
    for kind, make in kinds.items():
        chooser.random = random.Random(f"{seed} {kind}")  # noqa: S311 - not a secret
        chosen += [LineRequest(kind, text) for text in islice(make(), round(each * _SHARES.get(kind, 1)))]
        prober.kernel.trim()
    return chosen


class _Chooser:
    def __init__(self, prober: Prober, seed: int, source: Path | None) -> None:
        target = prober.kernel
        assert target.debug is not None
        assert target.binary.sites is not None
        self.random = random.Random(seed)  # noqa: S311 - not a secret
        self._prober, self._target, self._debug, self._source = prober, target, target.debug, source
        self._entries = set(target.binary.sites.entry.tolist())
        in_text = [
            (name, at)
            for name, at in sorted(target.names.by_name.items())
            if "." not in name and any(at[0] in text for text in target.text_ranges)
        ]
        self._traced = [(name, at[0]) for name, at in in_text if len(at) == 1 and at[0] in self._entries]
        self._ambiguous = [name for name, at in in_text if len(set(at)) > 1 and set(at) & self._entries]

    def kinds(self) -> dict[str, Callable[[], Iterator[str]]]:
        """Every kind of a kernel."""
        by_leaf: dict[str, Callable[[_Leaf], str]] = {
            "member": lambda leaf: f"{leaf.text}" if leaf.steps == 1 and leaf.type.kind in _LEAVES else "",
            "members": lambda leaf: f"{leaf.text}" if leaf.steps > 2 and leaf.type.kind in _LEAVES else "",
            "bit field": lambda leaf: leaf.text if leaf.bits else "",
            "array": lambda leaf: leaf.text if leaf.type.kind == "array" else "",
            "element": lambda leaf: leaf.text if leaf.text.endswith("]") and leaf.type.kind in _LEAVES else "",
            "string": lambda leaf: f"{leaf.text}:string" if _is_text(leaf.type) else "",
            "string of a process": self._user_string,
            "cast": self._cast,
            "struct": lambda leaf: leaf.text if leaf.type.kind == "struct" and leaf.steps else "",
        }
        made: dict[str, Callable[[], Iterator[str]]] = {
            "FUNC": lambda: (name for name, _ in self._functions()),
            "FUNC $vars": lambda: (f"{name} $vars" for name, _ in self._functions()),
            "FUNC+OFF": self._offsets,
            "FUNC+OFF local": self._locals,
            "FUNC%return": self._returns,
            "FUNC%return cast": self._returns_of_type,
            "FUNC:LINE": self._lines,
            "FILE:LINE": self._lines_of_files,
            "FUNC@FILE": self._in_files,
            "ambiguous FUNC": partial(self._shuffled, self._ambiguous),
            "glob": self._globs,
            "address": self._addresses,
            "inlined": self._inlined,
            "global": self._globals,
            "stack argument": self._on_stack,
            "struct by value": self._by_value,
            FETCH: partial(self._fetches, _TAKEN.split()),
            REFUSED_FETCH: partial(self._fetches, _REFUSED.split()),
            **({"FUNC;PATTERN": self._patterns} if self._source is not None else {}),
        }
        leaves = {kind: partial(self._of_leaves, wanted) for kind, wanted in by_leaf.items()}
        reasons = {f"refused: {reason.name}": partial(self._refused, reason) for reason in Reason}
        return {**made, **leaves, **reasons}

    def _shuffled(self, items: list[Any]) -> Iterator[Any]:
        yield from self.random.sample(items, len(items))

    def _functions(self) -> Iterator[tuple[str, int]]:
        """Yield functions that ftrace can trace and DWARF describes."""
        for count, (name, vaddr) in enumerate(self._shuffled(self._traced)):
            if count % 64 == 63:
                self._target.trim()
            if self._debug.function_at(self._target.described_at(vaddr)) is not None:
                yield name, vaddr

    def _parameters(self) -> Iterator[tuple[str, list[Variable]]]:
        for name, vaddr in self._shuffled(self._traced):
            by_btf = self._target.prototype_of(vaddr, name)
            parameters = by_btf.parameters() if by_btf is not None else []
            if parameters:
                yield name, parameters

    def _of_leaves(self, wanted: Callable[[_Leaf], str]) -> Iterator[str]:
        for name, parameters in self._parameters():
            for _ in range(8):
                parameter = self.random.choice(parameters)
                text = next(filter(None, map(wanted, self._walk(parameter.name, parameter.type))), "")
                if text:
                    yield f"{name} {text}"
                    break

    def _walk(self, text: str, kind: CType) -> Iterator[_Leaf]:
        """Yield what a random walk over members and elements comes by."""
        bits, steps = 0, 0
        yield _Leaf(text, steps, kind, bits)
        for steps in range(1, 7):
            struct = kind.target if kind.kind == "pointer" else kind
            if kind.kind == "array" and kind.count:
                text, kind = f"{text}[{self.random.randrange(min(kind.count, 5))}]", kind.target
            elif struct.kind == "struct" and (names := list(struct.member_names())):
                member = struct.member(self.random.choice(names))
                assert member is not None
                text = f"{text}{'->' if kind.kind == 'pointer' else '.'}{member.name}"
                kind, bits = member.type, member.bits
            else:
                return
            yield _Leaf(text, steps, kind, bits)
            if bits:
                return

    def _user_string(self, leaf: _Leaf) -> str:
        pointer = _is_text(leaf.type) and leaf.type.kind == "pointer"
        return f"{leaf.text}:{self.random.choice(('ustring', 'string@user'))}" if pointer else ""

    def _cast(self, leaf: _Leaf) -> str:
        kind = self.random.choice(("u8", "s16", "x32", "u64", "x64", "s64"))
        return f"again={leaf.text}:{kind}" if leaf.type.kind in _LEAVES and not leaf.bits else ""

    def _inside(self) -> Iterator[tuple[str, int, int]]:
        for name, vaddr in self._functions():
            offset = 4 * self.random.randrange(1, max((self._target.end_of(vaddr) - vaddr) // 4, 2))
            yield name, vaddr, offset

    def _offsets(self) -> Iterator[str]:
        return (f"{name}+{offset:#x} $vars" for name, _, offset in self._inside())

    def _locals(self) -> Iterator[str]:
        for name, vaddr, offset in self._inside():
            place = ProbePlace(asked=name, vaddr=vaddr + offset)
            known = self._prober.variables(self._target, place)
            if known is None or not known.variables():
                continue
            variable = self.random.choice(known.variables())
            leaves = [leaf for leaf in self._walk(variable.name, variable.type) if leaf.type.kind in _LEAVES]
            yield f"{name}+{offset} {variable.name}" + (f" {leaves[-1].text}" if leaves and leaves[-1].steps else "")

    def _returns(self) -> Iterator[str]:
        return (f"{name}%return" for name, _ in self._functions())

    def _returns_of_type(self) -> Iterator[str]:
        for name, vaddr in self._functions():
            by_btf = self._target.prototype_of(vaddr, name)
            kind = by_btf.return_type() if by_btf is not None else None
            if kind is None or kind.kind == "void":
                continue
            leaves = list(self._walk("$retval", kind))
            if kind.kind == "pointer" and len(leaves) > 1:
                yield f"{name}%return {leaves[1].text}"
            else:
                yield f"{name}%return $retval:{self.random.choice(('s32', 'x64', 'u8'))}"

    def _statements(self) -> Iterator[tuple[str, Unit, int, Statement]]:
        """Yield functions, their units and first lines, and one of their statements."""
        for name, vaddr in self._functions():
            function = self._debug.function_at(self._target.described_at(vaddr))
            assert function is not None
            file, first = declared(*function)
            own = [row for row in function_statements(*function) if row.file == file and row.line > first]
            if own:
                yield name, function[0], first, self.random.choice(own)

    def _lines(self) -> Iterator[str]:
        return (f"{name}:{row.line - first} $vars" for name, _, first, row in self._statements())

    def _lines_of_files(self) -> Iterator[str]:
        for _, unit, _, row in self._statements():
            if row.file == unit.name or unit.name.endswith(row.file):
                yield f"{unit.name.removeprefix('./')}:{row.line} $params"

    def _patterns(self) -> Iterator[str]:
        for name, unit, _, row in self._statements():
            text = self._prober.sources.lines(unit, row.file, [])
            wanted = _WORD.sub("*", text[row.line - 1].strip()) if row.line <= len(text) else ""
            if len(wanted) > 8:
                yield f"{name};*{wanted.strip('*')}*"

    def _in_files(self) -> Iterator[str]:
        for name in self._shuffled(self._ambiguous):
            functions = [
                self._debug.function_at(self._target.described_at(at)) for at in self._target.names.by_name[name]
            ]
            files = sorted({declared(*function)[0] for function in functions if function is not None})
            if files:
                yield f"{name}@{self.random.choice(files).removeprefix('./')}"

    def _globs(self) -> Iterator[str]:
        names = [name for name, _ in self._traced]
        for name in self._shuffled(names):
            for cut in range(len(name) - 1, 3, -1):
                matching = sum(other.startswith(name[:cut]) for other in names)
                if matching > 1:
                    break
            if 1 < matching < 4:
                yield f"{name[:cut]}*"

    def _addresses(self) -> Iterator[str]:
        return (f"{vaddr + offset:#x} $params" for _, vaddr, offset in self._inside())

    def _inlined(self) -> Iterator[str]:
        for offset in self._shuffled(self._debug.unit_offsets):
            unit = self._debug.unit(offset)
            abstract = [
                entry
                for place in unit.entries.tagged("DW_TAG_subprogram")
                if number_of(entry := unit.entry(place), "DW_AT_inline") & 1
            ]
            for entry in self.random.sample(abstract, min(len(abstract), 6)):
                name = text_of(entry, "DW_AT_name")
                # Those of a header are in hundreds of units.
                if 0 < len(list(unit.inlined(entry))) < 4 and not declared(unit, entry)[0].endswith(".h"):
                    yield f"{name} $vars"
                    break
            self._target.trim()

    def _globals(self) -> Iterator[str]:
        for name, vaddr in self._functions():
            function = self._debug.function_at(self._target.described_at(vaddr))
            assert function is not None
            unit = function[0]
            places = unit.entries.tagged("DW_TAG_variable")
            names = {
                text_of(unit.entry(place), "DW_AT_name") for place in self.random.sample(places, min(len(places), 20))
            }
            known = sorted(name for name in names if len(self._target.names.by_name.get(name, ())) == 1)
            if known:
                variable = self.random.choice(known)
                yield f"{name} {variable} @{variable}:u32"

    def _on_stack(self) -> Iterator[str]:
        for name, parameters in self._parameters():
            if len(parameters) > 8:
                yield " ".join([name, *(parameter.name for parameter in parameters[8:]), "+0(%sp)"])

    def _by_value(self) -> Iterator[str]:
        for name, parameters in self._parameters():
            structs = [each for each in parameters if each.type.kind == "struct"]
            for struct in structs[:1]:
                member = self.random.choice(list(struct.type.member_names()) or [""])
                yield f"{name} {struct.name}" + (f" {struct.name}.{member}" if member else "")

    def _fetches(self, arguments: list[str]) -> Iterator[str]:
        functions = self._functions()
        for argument in self._shuffled(arguments):
            yield f"{next(functions)[0]} value={argument}"

    def _refused(self, reason: Reason) -> Iterator[str]:
        judge = self._target.judge_at(0)
        index = np.flatnonzero(judge.reasons & np.uint16(reason))
        for row in self._shuffled(index.tolist()):
            vaddr = judge.text.addr + 4 * row
            where = self._target.binary.symbols.locate(vaddr)
            start = vaddr - where.symbol_offset
            unique = self._target.names.by_name.get(where.symbol or "") == [start]
            inside = unique and vaddr < self._target.end_of(start)
            yield f"{where.symbol}+{where.symbol_offset:#x}" if inside else f"{vaddr:#x}"

    def of_modules(self, directory: Path) -> Iterator[str]:
        """Yield functions of modules, whose files have no debug information."""
        for path in self._shuffled(sorted(directory.rglob("*.ko*"))):
            module = open_binary(path, unpack=True)
            sites = module.sites
            names = module.symbols.function_names() if sites is not None and len(sites.entry) else []
            name = path.name.partition(".ko")[0].replace("-", "_")
            for function in self.random.sample(names, min(len(names), 2)):
                end = self.random.choice((" file=%x0 %x1:u32", "%return", "%return $retval:s32", "+0x10 %x20", ""))
                yield f"{name}:{function}{end}"


def _is_text(kind: CType) -> bool:
    element = kind.target if kind.kind in ("pointer", "array") else None
    return element is not None and element.kind == "int" and element.size == 1 and "char" in element.name
