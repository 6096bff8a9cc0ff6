"""Writes the mini kernel as a listing: ``python -m tests.mini_kernel.listing`` makes mini.lst of prologue/examples."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from elftools.elf.elffile import ELFFile

import prologue.examples
from prologue.insn.a64 import NOP
from prologue.insn.disasm import insn_text
from tests.mini_kernel.build import Spec, build

SPEC: Final = Spec(form="static", marker=2, listed=True)
LISTING: Final = Path(prologue.examples.__file__).parent / "mini.lst"
_HEAD: Final = """\
# A kernel that boots in QEMU, for `make demo`: tests/mini_kernel as `python -m tests.mini_kernel.listing` wrote it.
# {compiler}
#
# Lines are those of kernel.lst, and more: `word` is 4 bytes of data, `zeros` so many bytes of them, `space` memory that
# the file does not have.
"""
_VERBS: Final = {"STT_FUNC": "function", "STT_OBJECT": "object", "STT_NOTYPE": "label"}


def compiler() -> str:
    """Return the version of the cross compiler, as a listing names it."""
    command = ["aarch64-linux-gnu-gcc", "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def listing_of(vmlinux: Path, made_by: str) -> str:
    """Make the listing of a static ELF file."""
    with vmlinux.open("rb") as stream:
        elf = ELFFile(stream)
        table: Any = elf.get_section_by_name(".symtab")
        symbols = [symbol for symbol in table.iter_symbols() if symbol.name and symbol["st_info"]["type"] in _VERBS]
        symbols.sort(key=lambda symbol: symbol["st_info"]["type"] != "STT_NOTYPE")  # of several names the best is last
        names = {symbol["st_value"]: symbol.name for symbol in symbols if not symbol.name.startswith("$")}
        lines = [_HEAD.format(compiler=made_by)]
        for number, section in enumerate(elf.iter_sections()):
            if section["sh_flags"] & 2 and section["sh_size"]:
                lines += _Section(section, [s for s in symbols if s["st_shndx"] == number], names).lines()
    return "\n".join(lines) + "\n"


class _Section:
    """A section of the file, with its symbols; ``names`` are of all sections, by address."""

    def __init__(self, section: Any, symbols: list[Any], names: dict[int, str]) -> None:
        self._section, self._names = section, names
        self._start, self._size = section["sh_addr"], section["sh_size"]
        self._absent = section["sh_type"] == "SHT_NOBITS"
        self._data = bytes(self._size) if self._absent else section.data()
        self._symbols = sorted((s for s in symbols if not s.name.startswith("$")), key=lambda s: s["st_value"])
        marks = sorted((s["st_value"], s.name == "$x") for s in symbols if s.name in ("$x", "$d"))
        self._is_code = [False] * self._size
        for vaddr, code in marks:
            self._is_code[vaddr - self._start :] = [code] * (self._size - (vaddr - self._start))

    def lines(self) -> Iterator[str]:
        """Yield its head, names and content."""
        flags = "".join(letter for letter, bit in (("W", 1), ("A", 2), ("X", 4)) if self._section["sh_flags"] & bit)
        yield f"section {self._section.name} {flags} {self._start:#x}"
        ends = [s["st_value"] for s in self._symbols] + [self._start + self._size]
        yield from self._content(self._start, ends[0])
        for symbol, end in zip(self._symbols, ends[1:], strict=True):
            kind = _VERBS[symbol["st_info"]["type"]]
            yield from ("", f"{kind} {symbol.name}") if kind != "label" else (f"label {symbol.name}",)
            yield from self._content(symbol["st_value"], end)
        yield ""

    def _content(self, vaddr: int, end: int) -> Iterator[str]:
        if self._absent:
            yield from [f"    space {end - vaddr:#x}"] * (end > vaddr)
            return
        while vaddr < end:
            code = self._is_code[vaddr - self._start]
            size, line = self._padding(vaddr, end, code) or (self._insn(vaddr) if code else self._value(vaddr, end))
            yield f"    {line}"
            vaddr += size

    def _bytes(self, vaddr: int, size: int) -> bytes:
        return self._data[vaddr - self._start : vaddr - self._start + size]

    def _padding(self, vaddr: int, end: int, code: bool) -> tuple[int, str] | None:
        """Return the size and the line of a run of NOPs until a multiple of 128, or of zeros."""
        if code:
            size = -vaddr % 128
            whole = size >= 32 and self._bytes(vaddr, size) == NOP.to_bytes(4, "little") * (size // 4)
            return (size, "align 128") if whole else None
        rest = self._bytes(vaddr, end - vaddr)
        size = len(rest) - len(rest.lstrip(b"\0"))
        size -= 0 if size == len(rest) else size % 8
        return (size, f"zeros {size:#x}") if size > 8 or (0 < size < 8) else None

    def _insn(self, vaddr: int) -> tuple[int, str]:
        word = int.from_bytes(self._bytes(vaddr, 4), "little")
        return 4, f"{word:08x}  {self._named(vaddr, insn_text(word, vaddr))}"

    def _named(self, vaddr: int, text: str) -> str:
        """Name the place that an instruction's last operand is, if it is one of the kernel's."""
        match = re.fullmatch(r"((?:b|bl|cb\S+|tb\S+|b\.\w+|adrp?)\b.*?)#(0x[0-9a-f]{16})", text)
        if match is None:
            return text
        place = int(match[2], 16)
        if text.startswith("adrp"):
            return f"{match[1]}{self._meant(vaddr, place, text.split()[1].rstrip(','))}"
        return f"{match[1]}{self._place(place)}"

    def _place(self, vaddr: int) -> str:
        """Name an address in the kernel; other numbers stand for themselves."""
        if not min(self._names) <= vaddr < max(self._names):
            return f"{vaddr:#x}"
        base = max(each for each in self._names if each <= vaddr)
        return self._names[base] + (f"+{vaddr - base:#x}" if vaddr > base else "")

    def _meant(self, vaddr: int, page: int, register: str) -> str:
        """Return what an ADRP begins to address: the next instructions add the rest."""
        for after in range(vaddr + 4, min(vaddr + 24, self._start + self._size), 4):
            text = insn_text(int.from_bytes(self._bytes(after, 4), "little"), after)
            match = re.search(rf"\b{register}, #(0x[0-9a-f]+|\d+)\b", text)
            if match is not None:
                page += int(match[1], 0)
                break
        return self._names.get(page, f"{page >> 12 << 12:#x}")

    def _value(self, vaddr: int, end: int) -> tuple[int, str]:
        size = 4 if vaddr % 8 or end - vaddr < 8 else 8
        value = int.from_bytes(self._bytes(vaddr, size), "little")
        place = self._place(value)
        text = re.match(rb"[\x20-\x7e]*\n\0*|[\x20-\x7e]+\0+", self._bytes(vaddr, end - vaddr))
        if text and not self._section["sh_flags"] & 1 and place.startswith("0x"):
            return len(text[0]), f"ascii {json.dumps(text[0].decode()).replace('u0000', '0')}"
        return size, f"{'quad' if size == 8 else 'word'} {place}"


def main() -> None:
    """Build the kernel and write its listing."""
    with tempfile.TemporaryDirectory() as directory:
        LISTING.write_text(listing_of(build(SPEC, Path(directory)), compiler()), "utf-8")


if __name__ == "__main__":
    main()
