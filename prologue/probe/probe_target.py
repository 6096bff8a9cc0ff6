"""The target of probes: a kernel or one of its modules, with its judges, symbols and debug information."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.dwarf.btf import Btf
from prologue.dwarf.debug_info import DebugInfo, open_debug
from prologue.dwarf.dwarf_entries import readable_dwarf
from prologue.errors import InputError
from prologue.insn.a64 import INSN_SIZE
from prologue.insn.rows import must_write
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import mismatch
from prologue.kernel.module import Module
from prologue.probe.btf_variables import BtfVariables
from prologue.probe.judge import Judge, judge_module
from prologue.probe.scopes import ALL_RAN, CodeBefore

_ALWAYS_IN_DATA: Final = "linux_banner"  # init/version.c; kallsyms have it only with CONFIG_KALLSYMS_ALL


class ProbeTarget:
    """The kernel, or a module of ``kernel``. ``module`` is its name as the kernel has it; empty for the kernel."""

    def __init__(self, judges: Sequence[Judge], module: str = "", kernel: ProbeTarget | None = None) -> None:
        self._judges = tuple(judges)
        self._kernel = kernel
        self.module = module
        self.binary: Kernel | Module = self._judges[0].kernel
        self.path = self.binary.path
        self.names = self._judges[0].kallsyms

    @cached_property
    def debug(self) -> DebugInfo | None:
        """DWARF of the file; None if it has none."""
        with readable_dwarf(self.path, "debug information"):
            return open_debug(self.binary.image)

    @cached_property
    def btf(self) -> Btf | None:
        """Types in BTF; None if the file has none, or if it is a module's whose types refer to no kernel's.

        A module that was built outside of a kernel's tree has a copy of what it needs of the kernel's (``.BTF.base``,
        tools/lib/bpf/btf.c, ``btf__distill_base``, 6.11), which is not read.

        Raises:
            InputError: BTF is damaged, or a module's was made with another kernel's.

        """
        image, base = self.binary.image, self._kernel.btf if self._kernel is not None else None
        section = image.section(".BTF")
        if section is None or not section.has_bytes or (self._kernel is not None and base is None):
            return None
        if image.section(".BTF.base") is not None:
            return None
        return Btf(image.data(section), str(self.path), base)

    def prototype_of(self, vaddr: int, asked: str = "") -> BtfVariables | None:
        """Return the parameters of the function that has an address, by BTF; None if it does not describe it.

        BTF knows functions by their names only. ``asked`` is the better one if the function has several.
        """
        where = self.binary.symbols.locate(vaddr)
        if self.btf is None or where.symbol is None:
            return None
        start = vaddr - where.symbol_offset
        prototypes = {
            name: number
            for name in sorted(self.binary.symbols.names_at(start), key=lambda name: name != asked)
            if self.names.by_name.get(name) == [start] and self._keeps_parameters(name)
            if (number := self.btf.function(name)) is not None
        }
        if asked not in prototypes and len(set(prototypes.values())) != 1:
            return None
        name, number = next(iter(prototypes.items()))
        return BtfVariables(self.btf, name, number, at_entry=self.has_run_nothing_at(vaddr))

    def _keeps_parameters(self, name: str) -> bool:
        """Return whether a function's parameters are those of its prototype.

        GCC gives a copy with fewer of them another name. LLVM leaves them out of static functions that keep theirs
        (DeadArgumentElimination), and pahole before 1.25 did not notice.
        """
        comment = self.binary.image.section(".comment")
        by_gcc = comment is not None and b"clang" not in self.binary.image.data(comment).lower()
        return by_gcc or self.binary.symbols.is_global(name)

    def trim(self) -> None:
        """Drop parsed debug information, if it is much."""
        if "debug" in self.__dict__ and self.debug is not None:  # FUNC+OFFSET needs none of it
            self.debug.trim()

    def judge_at(self, vaddr: int) -> Judge:
        """Return the judge of the text at an address; the first one if it is in no text."""
        return next((judge for judge in self._judges if vaddr in judge.text_range), self._judges[0])

    @property
    def text_ranges(self) -> list[range]:
        """Address ranges of the text."""
        return [judge.text_range for judge in self._judges]

    def described_at(self, vaddr: int) -> int:
        """Return the address at which to look up variables of a place: slots change nothing, so it is after the pair.

        In DWARF of GCC 12 (Debian's 6.1), the function begins after the pair.
        """
        entries, seconds = self._slots
        row = int(np.searchsorted(entries, np.uint64(vaddr), side="right")) - 1
        return int(seconds[row]) + INSN_SIZE if row >= 0 and vaddr <= int(seconds[row]) else vaddr

    @cached_property
    def _slots(self) -> tuple[U64, U64]:
        """Entry and second slot of each site, by address."""
        sites = self.binary.sites
        if sites is None:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        entries = sites.entry
        order = np.argsort(entries)
        return entries[order], sites.second[order]

    def has_run_nothing_at(self, vaddr: int) -> bool:
        """Return whether an address is that of a function's entry, or of its slots."""
        start = vaddr - self.binary.symbols.locate(vaddr).symbol_offset
        return self.described_at(vaddr) == self.described_at(start)

    def code_before(self, vaddr: int) -> CodeBefore:
        """Return what the function of an address has done before it, instruction by instruction of its text."""
        where = self.binary.symbols.locate(vaddr)
        if where.symbol is None or ".cold" in where.symbol:  # the other part of that function has run
            return ALL_RAN
        begin = np.uint64(vaddr - where.symbol_offset)
        words = self.binary.image.words(begin + np.arange(0, where.symbol_offset, INSN_SIZE, dtype=np.uint64))
        return CodeBefore(
            keeps_arguments=(
                self.has_run_nothing_at(vaddr) and "." not in where.symbol and self._keeps_parameters(where.symbol)
            ),
            has_set=lambda register: bool(must_write(words, register).any()),
        )

    def is_entry(self, vaddr: int) -> bool:
        """Return whether a function begins there."""
        return self.binary.symbols.function_at(vaddr) is not None

    def end_of(self, vaddr: int) -> int:
        """Return the end of the function that begins there: by its size in the file, otherwise at the next symbol."""
        symbol = self.binary.symbols.function_at(vaddr)
        if symbol is not None and symbol.vaddr == vaddr and symbol.size:
            return vaddr + symbol.size
        return int(self.names.spans(np.array([vaddr], np.uint64))[1][0])

    def place_text(self, vaddr: int) -> str:
        """Name a code address as events do, independent of the slide.

        The name is symbol and offset; if the kernel knows several symbols of that name, or none, it counts from a
        unique one before the address.

        Raises:
            InputError: a module has no unique symbol before the address.

        """
        where = self.binary.symbols.locate(vaddr)
        start = vaddr - where.symbol_offset
        prefix = f"{self.module}:" if self.module else ""
        if where.symbol is not None and self.names.by_name.get(where.symbol) == [start]:
            return f"{prefix}{where.symbol}+{where.symbol_offset:#x}" if where.symbol_offset else prefix + where.symbol
        base, name = self._unique_before(vaddr) if self.module else (self._judges[0].text_range.start, "_stext")
        if not name:
            raise InputError(f"no unique symbol is before {vaddr:#x}, so an event cannot name it", path=self.path)
        return f"{prefix}{name}+{vaddr - base:#x}"

    def _unique_before(self, vaddr: int, other_names: Container[str] = ()) -> tuple[int, str]:
        """Return address and name of the nearest symbol in the section that is unique; an empty name if there is none.

        Args:
            vaddr: an address of a module.
            other_names: names that are not unique.

        """
        section = self.binary.image.section_at(vaddr)
        low = section.addr if section is not None else 0
        named = ((at[0], name) for name, at in self.names.by_name.items() if len(at) == 1 and name not in other_names)
        return max(((at, name) for at, name in named if low <= at <= vaddr), default=(0, ""))

    def symbol_at(self, vaddr: int) -> str:
        """Return ``SYMBOL+OFFSET``, as events name data after an @; empty if no symbol is near.

        Such a name has no module in it: the kernel looks for it among its own symbols first (kernel/kallsyms.c,
        ``kallsyms_lookup_name``).
        """
        if self._kernel is not None:
            base, name = self._unique_before(vaddr, self._kernel.names.by_name)
            return f"{name}+{vaddr - base}" if name and vaddr > base else name
        where = self.binary.symbols.locate(vaddr)
        if where.symbol is not None and self.names.by_name.get(where.symbol) == [vaddr - where.symbol_offset]:
            return f"{where.symbol}+{where.symbol_offset}" if where.symbol_offset else where.symbol
        # KASLR moves data and text alike.
        return f"_stext{vaddr - self._judges[0].text_range.start:+d}"

    def address_of(self, name: str) -> int | None:
        """Return the address of a variable; None if there is none, or if there are several."""
        values = set(self.names.by_name.get(name, ()))
        if not values:  # a kernel without CONFIG_KALLSYMS_ALL knows no variables by name
            symbol = self.binary.symbols.find(name)
            return symbol.vaddr if symbol is not None else None
        return values.pop() if len(values) == 1 else None

    def knows(self, name: str) -> bool:
        """Return whether the kernel finds a symbol of this name; for a module yes: it may be one of the kernel."""
        return bool(self.module) or name in self.names.by_name

    def read_refusal(self, vaddr: int) -> str:
        """Return the reason why an event cannot read a variable there; empty if it can."""
        bounds = [self.binary.symbols.find(name) for name in ("__per_cpu_start", "__per_cpu_end")]
        low, high = (symbol.vaddr if symbol is not None else 0 for symbol in bounds)
        section = self.binary.image.section_at(vaddr)
        if low <= vaddr < high or (section is not None and section.name.startswith(".data..percpu")):
            return "it is a per-CPU variable, of which the kernel has several"
        if section is not None and section.name.startswith(".init"):
            return "it is init data, which is freed before an event reads it"
        if self._kernel is not None and _ALWAYS_IN_DATA not in self._kernel.names.by_name:
            return "this kernel has no names for the data of modules (CONFIG_KALLSYMS_ALL)"
        return ""


def kernel_target(kernel: Kernel) -> ProbeTarget:
    """Open the kernel as a target.

    Raises:
        InputError: it has no kprobes, or its rules are not known.

    """
    return ProbeTarget([Judge(kernel)])


def module_target(kernel: ProbeTarget, module: Module) -> ProbeTarget:
    """Open a module of that kernel as a target.

    Raises:
        InputError: it is not of that kernel, or has no text.

    """
    wrong = mismatch(module, kernel.binary) if isinstance(kernel.binary, Kernel) else "no kernel"
    if wrong:
        raise InputError(f"{wrong}: name its own kernel", path=module.path)
    name = module.modinfo.get("name") or module.path.name.partition(".ko")[0]
    judges = judge_module(kernel.judge_at(0), module)
    if not judges:
        raise InputError("has no text to probe", path=module.path)
    return ProbeTarget(judges, name.replace("-", "_"), kernel)
