"""The judge of kprobes: every word of the kernel's text, judged at once by the rules of the kernel.

Two callers ask the kernel. ``register_kprobe`` (kernel/kprobes.c, ``check_kprobe_address_safe`` and arm64's
``arch_prepare_kprobe``) is what modules call. kprobe events, and with them perf and BPF, ask first whether ftrace could
trace the function (kernel/trace/trace_kprobe.c, ``within_notrace_func``). Code that kprobes, or the entry of
exceptions, run is on a list, by whole symbols, as kallsyms bound them (``populate_kprobe_blacklist``, and arm64's
``arch_populate_kprobe_blacklist``). In modules the same rules apply to each section of the text
(``add_module_kprobe_blacklist``; kernel/module/kallsyms.c, ``is_core_symbol`` and ``find_kallsyms_symbol``).
Read in 6.1.192, 6.12.107 and 7.2.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.elf.sections import Section
from prologue.errors import InputError
from prologue.kernel.binary import Binary
from prologue.kernel.kallsyms import Kallsyms
from prologue.kernel.kernel import Kernel
from prologue.kernel.module import Module
from prologue.kernel.tables import bug_words, exception_words, jump_labels, kprobe_blacklist
from prologue.probe.booted_text import BootedText, Switch, booted_text
from prologue.probe.instructions import MAX_ATOMIC_CONTEXT, REFUSED, Outcomes, decoding_of

Answer = Literal["yes", "no", "depends"]
Reasons = npt.NDArray[np.uint16]
_NOTRACE_CHECK: Final = b"Could not probe notrace function"
# In the kernel's order: symbols that bound an area, and its name. The identity map is listed up to 6.1 and is no kernel
# text later; the two of EL2 are listed where the kernel has them.
_AREAS: Final = (
    ("__kprobes_text_start", "__kprobes_text_end", ".kprobes.text (__kprobes)"),
    ("__noinstr_text_start", "__noinstr_text_end", ".noinstr.text (noinstr)"),
    ("__entry_text_start", "__entry_text_end", ".entry.text"),
    ("__irqentry_text_start", "__irqentry_text_end", ".irqentry.text"),
    ("__idmap_text_start", "__idmap_text_end", ".idmap.text (identity map)"),
    ("__hyp_text_start", "__hyp_text_end", ".hyp.text (EL2)"),
    ("__hyp_idmap_text_start", "__hyp_idmap_text_end", ".hyp.idmap.text (EL2)"),
)
_LISTED_SECTIONS: Final = (".kprobes.text", ".noinstr.text")  # of modules


class Reason(IntFlag):
    """A reason against a probe, in the order in which the kernel checks; it does not check the last one."""

    NOTRACE = 1
    SECOND_SLOT = 2
    NOT_TEXT = 4
    BLACKLIST = 8
    JUMP_LABEL = 16
    BUG = 32
    CFI_PREAMBLE = 64
    EXCEPTION_TABLE = 128
    INSTRUCTION = 256
    EXCLUSIVE = 512
    DATA = 1024


KERNEL_REASONS: Final = Reason.DATA - 1  # all for which a kernel refuses a kprobe event


class Area(NamedTuple):
    """Addresses ``[start, stop)`` that no kprobe may be put on, and the list that has them."""

    start: int
    stop: int
    reason: str


class Judge:
    """The judge of one kernel's text.

    Raises:
        InputError: a kernel without kprobes or kallsyms, of an unknown release, or older than 5.5.

    """

    kernel: Kernel | Module
    kallsyms: Kallsyms

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.decoding = decoding_of(kernel)
        self.kallsyms = Kallsyms(kernel)
        start, stop = kernel.symbols.find("_stext"), kernel.symbols.find("_etext")
        section = kernel.image.section_at(start.vaddr) if start else None
        if start is None or stop is None or section is None or start.vaddr != section.addr:
            raise InputError("_stext and _etext do not bound its text: damaged?", path=kernel.path)
        self.text: Section = section
        self.text_range = range(start.vaddr, stop.vaddr)
        self._count = section.size // 4

    def judge(self, vaddrs: U64) -> tuple[Reasons, Outcomes]:
        """Return the reasons against a probe at each link-time address, and what the kernel would do with the word.

        Both have the shape of ``vaddrs``; ``Reason`` has the bits of a uint16, ``instructions`` those of a uint8. An
        outcome of several bits, REFUSED among them, means that the machine decides. Outside of the text from _stext to
        _etext the reason is NOT_TEXT.
        """
        index = (vaddrs - np.uint64(self.text.addr)) >> np.uint64(2)
        inside = (vaddrs >= np.uint64(self.text.addr)) & (index < np.uint64(self._count))
        at = np.where(inside, index, np.uint64(0)).astype(np.int64)
        reasons = np.where(inside, self.reasons[at], np.uint16(Reason.NOT_TEXT))
        return reasons, np.where(inside, self.outcomes[at], np.uint8(REFUSED))

    def answer(self, vaddr: int) -> Answer:
        """Say whether a probe can be there."""
        reasons, outcomes = self.judge(np.array([vaddr], np.uint64))
        return "no" if reasons[0] else "depends" if outcomes[0] & REFUSED else "yes"

    def word(self, vaddr: int) -> int:
        """Return the word there when the kernel has booted, if no alternative replaces it."""
        at = self._index(np.array([vaddr], np.uint64))
        return int(self.booted.words[at[0]] if len(at) else self.kernel.text.words(np.array([vaddr], np.uint64))[0])

    def replaced(self, vaddr: int) -> bool:
        """Return whether boot may put an alternative there."""
        return bool(self.booted.replaced[self._index(np.array([vaddr], np.uint64))].any())

    @cached_property
    def booted(self) -> BootedText:
        """Text as it is when the kernel has booted."""
        return booted_text(self.kernel, self.text, self.decoding)

    @cached_property
    def outcomes(self) -> Outcomes:
        """Outcome of every word of the text, with the exclusive sequence that it may be in; shape (n,)."""
        result = self.booted.outcomes.copy()
        result[self._exclusive[1]] |= np.uint8(REFUSED)
        return result

    @cached_property
    def reasons(self) -> Reasons:
        """Reasons of every word of the text, shape (n,)."""
        reasons_of = np.zeros(self._count, np.uint16)
        labels, bugs, faults = jump_labels(self.kernel).code, bug_words(self.kernel)[0], exception_words(self.kernel)[0]
        named = ((Reason.JUMP_LABEL, labels), (Reason.BUG, bugs), (Reason.EXCEPTION_TABLE, faults))
        for reason, vaddrs in (*named, (Reason.SECOND_SLOT, self._second_slots)):
            reasons_of[self._index(vaddrs)] |= np.uint16(reason)
        reasons_of[self._words(self.text_range.stop, self.text.addr + self.text.size)] |= np.uint16(Reason.NOT_TEXT)
        for area in self.blacklist:
            reasons_of[self._words(area.start, area.stop)] |= np.uint16(Reason.BLACKLIST)
        for reason, symbols in ((Reason.NOTRACE, self._notrace), (Reason.CFI_PREAMBLE, self._preambles)):
            reasons_of[symbols[self._symbol]] |= np.uint16(reason)
        reasons_of[self.booted.outcomes == REFUSED] |= np.uint16(Reason.INSTRUCTION)
        reasons_of[self._exclusive[0] & (self.booted.outcomes != REFUSED)] |= np.uint16(Reason.EXCLUSIVE)
        reasons_of[~self.kernel.symbols.is_code(self.text)] |= np.uint16(Reason.DATA)
        reasons_of[self._literals] |= np.uint16(Reason.DATA)
        return reasons_of

    @cached_property
    def checks_notrace(self) -> bool:
        """True if events of functions that ftrace cannot trace are refused: no KPROBE_EVENTS_ON_NOTRACE.

        A kernel with the check has its message (kernel/trace/trace_kprobe.c, ``__register_trace_kprobe``).
        """
        image = self.kernel.image
        data = (s for s in image.sections if s.allocated and s.has_bytes and s.name.startswith(".rodata"))
        return any(image.find(_NOTRACE_CHECK, section) >= 0 for section in data)

    @cached_property
    def blacklist(self) -> list[Area]:
        """Areas that are listed, and symbols with a suffix (``f.part.0``) of listed functions, which count as these."""
        areas = list(self._listed())
        starts = np.array([area.start for area in areas], np.uint64)
        stops = np.array([area.stop for area in areas], np.uint64)
        result, all_starts = list(areas), self.kallsyms.starts
        for row, base in self._suffixed.items():
            if base and bool(((starts <= np.uint64(base)) & (np.uint64(base) < stops)).any()):
                start, stop = all_starts[row], all_starts[min(row + 1, len(all_starts) - 1)]
                result.append(Area(int(start), int(stop), "the kprobe blacklist, under its name without the suffix"))
        return result

    def _listed(self) -> Iterator[Area]:
        """Yield all areas, single symbols first."""
        yield from listed_symbols(self.kernel, self.kallsyms, self.text_range, "the kprobe blacklist")
        for low, high, reason in _AREAS:
            start, stop = self.kernel.symbols.find(low), self.kernel.symbols.find(high)
            if start is not None and stop is not None and start.vaddr < stop.vaddr and start.vaddr in self.text_range:
                # The list is made symbol by symbol, so the last one belongs to it as a whole.
                end = self.kallsyms.spans(np.array([stop.vaddr - 1], np.uint64))[1]
                yield Area(start.vaddr, max(stop.vaddr, int(end[0])), reason)

    @cached_property
    def _exclusive(self) -> tuple[Bool, Bool]:
        """Masks of words that are certainly, and perhaps, in an exclusive sequence: the CPUs' capabilities decide.

        Of the capabilities that decide, none, each alone and all are looked at. The compared kernels have two at most:
        LSE atomics, and an erratum that makes loads from devices LDAR.
        """
        text = self.booted
        worlds: list[tuple[Switch, ...]] = [(), *((switch,) for switch in text.switches)]
        if len(text.switches) > 1:
            worlds.append(text.switches)
        certain, perhaps = np.ones(self._count, np.bool_), np.zeros(self._count, np.bool_)
        for world in worlds:
            inside = self._in_sequence(world)
            certain &= inside
            perhaps |= inside
        return certain, perhaps & ~certain

    def _in_sequence(self, applied: tuple[Switch, ...]) -> Bool:
        """Return which words come after an LDXR and no STXR, as far as the kernel looks (``is_probed_address_atomic``).

        It looks back to the start of the symbol, and not further than 32 words.
        """
        begins, ends = self.booted.begins, self.booted.ends
        if applied:
            begins, ends = begins.copy(), ends.copy()
        for switch in applied:
            begins[switch.at], ends[switch.at] = switch.begins, switch.ends
        place = np.arange(self._count, dtype=np.int32)
        last = np.maximum.accumulate(np.where(begins | ends, place, np.int32(-1)))
        last = np.concatenate([np.array([-1], np.int32), last[:-1]])
        is_inside: Bool = (last >= place - self._look_back) & begins[last] & (last >= 0)
        return is_inside

    @cached_property
    def _look_back(self) -> npt.NDArray[np.int32]:
        """Number of words before each word in which the kernel looks for exclusives."""
        start = (self.kallsyms.starts - np.uint64(self.text.addr)).view(np.int64)[self._symbol]
        # Symbols need not begin at a word: the kernel divides the distance.
        distance: npt.NDArray[np.int32] = (((np.arange(self._count) << 2) - start) >> 2).astype(np.int32)
        return np.minimum(distance, np.int32(MAX_ATOMIC_CONTEXT))

    @cached_property
    def _second_slots(self) -> U64:
        sites = self.kernel.sites
        return sites.second if sites is not None else np.zeros(0, np.uint64)

    @cached_property
    def _literals(self) -> I64:
        """The two words of each CALL_OPS literal, which boot writes."""
        sites = self.kernel.sites
        if sites is None or sites.layout != "4,2":
            return np.zeros(0, np.int64)
        return self._index(np.concatenate([sites.entry - np.uint64(8), sites.entry - np.uint64(4)]))

    @cached_property
    def _symbol(self) -> I64:
        """Number of each word's symbol in ``kallsyms.starts``."""
        starts = self.kallsyms.starts
        words = (starts - np.uint64(self.text.addr) + np.uint64(3)) >> np.uint64(2)
        inside = (starts > np.uint64(self.text.addr)) & (words < np.uint64(self._count))
        steps = np.bincount(words[inside].astype(np.int64), minlength=self._count)
        first = int(np.searchsorted(starts, np.uint64(self.text.addr), side="right")) - 1
        numbers: I64 = np.cumsum(steps) + first
        return numbers

    @cached_property
    def _suffixed(self) -> dict[int, int]:
        """Symbols of the text whose name has a dot: number, and address of the name before the dot, 0 if unknown."""
        kallsyms = self.kallsyms
        low, high = np.searchsorted(kallsyms.starts, np.array([self.text_range.start, self.text_range.stop], np.uint64))
        result = {}
        for number in range(int(low), int(high)):
            name = kallsyms.names[int(kallsyms.first_rows[number])]
            if "." in name:
                result[number] = kallsyms.by_name.get(name.partition(".")[0], [0])[0]
        return result

    @cached_property
    def _notrace(self) -> Bool:
        """Mask of the symbols that ftrace cannot trace, shape of ``kallsyms.starts``."""
        starts = self.kallsyms.starts
        if not self.checks_notrace:
            return np.zeros(len(starts), np.bool_)
        slots = np.sort(self._second_slots)
        # When init text is freed, ftrace forgets its records.
        low, high = np.array([self.text_range.start, self.text_range.stop], np.uint64)
        slots = slots[(slots >= low) & (slots < high)]
        traced = np.zeros(len(starts), np.bool_)
        # A slot counts that has any byte in the symbol (ftrace_location_range).
        traced[:-1] = np.searchsorted(slots, starts[1:]) > np.searchsorted(slots, starts[:-1] - np.uint64(3))
        by_name = traced.copy()
        for number, base in self._suffixed.items():
            if base and not traced[number]:
                by_name[number] = traced[int(np.searchsorted(starts, np.uint64(base)))]
        return ~by_name

    @cached_property
    def _preambles(self) -> Bool:
        """Mask of the symbols of preambles, which a compiler puts before functions (``is_cfi_preamble_symbol``)."""
        names, rows = self.kallsyms.names, self.kallsyms.first_rows.tolist()
        return np.array([names[row].startswith(("__cfi_", "__pfx_")) for row in rows], np.bool_)

    def _index(self, vaddrs: U64) -> I64:
        """Return the index of the word of each address that is in the text, in any order."""
        index = (vaddrs - np.uint64(self.text.addr)) >> np.uint64(2)
        return index[(vaddrs >= np.uint64(self.text.addr)) & (index < np.uint64(self._count))].astype(np.int64)

    def _words(self, start: int, stop: int) -> slice:
        low = max(start - self.text.addr, 0)
        return slice(low // 4, max(stop - self.text.addr + 3, 0) // 4)


def listed_symbols(binary: Binary, kallsyms: Kallsyms, text: range, name: str) -> Iterator[Area]:
    """Yield the areas of NOKPROBE_SYMBOL: as many bytes as the symbol has, from the listed address on."""
    entries = kprobe_blacklist(binary)
    starts, ends = kallsyms.spans(entries)
    for entry, start, end in zip(entries.tolist(), starts.tolist(), ends.tolist(), strict=True):
        if entry in text:
            yield Area(entry, entry + end - start, f"{name} (NOKPROBE_SYMBOL)")


class ModuleSymbols(Kallsyms):
    """The symbols that a running kernel has of a module: those of its symbol table in memory that stays.

    A section's start and end bound its symbols: they are symbols without a name.
    """

    def __init__(self, module: Module) -> None:
        symbols, image = module.symbols, module.image
        rows = np.flatnonzero(symbols.defined)
        named = ((symbols.name_of(row), int(symbols.values[row])) for row in rows.tolist())
        text = [section for section in image.sections if section.allocated and section.size]
        bounds = [("", edge) for section in text for edge in (section.addr, section.addr + section.size)]
        pairs = sorted(
            ((vaddr, name) for name, vaddr in named if name and name[0] != "$" and image.section_at(vaddr)),
        )
        every = sorted([*pairs, *((vaddr, name) for name, vaddr in bounds)], key=lambda pair: (pair[0], not pair[1]))
        self.names = tuple(name for _, name in every)
        self.addresses = np.array([vaddr for vaddr, _ in every], np.uint64)

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """Addresses of each name, ascending."""
        return {name: vaddrs for name, vaddrs in super().by_name.items() if name}


class ModuleJudge(Judge):
    """The judge of one section of a module's text, by the rules of its kernel."""

    def __init__(self, kernel: Judge, module: Module, symbols: ModuleSymbols, section: Section) -> None:
        self.kernel = module
        self.decoding = kernel.decoding
        self.checks_notrace = kernel.checks_notrace
        self.kallsyms = symbols
        self.text = section
        self.text_range = range(section.addr, section.addr + section.size)
        self._count = section.size // 4

    def _listed(self) -> Iterator[Area]:
        """Yield the areas of the module's own list, and sections that are listed as a whole."""
        yield from listed_symbols(self.kernel, self.kallsyms, self.text_range, "the module's kprobe blacklist")
        if self.text.name in _LISTED_SECTIONS:
            yield Area(self.text_range.start, self.text_range.stop, self.text.name)


def judge_module(kernel: Judge, module: Module) -> tuple[Judge, ...]:
    """Return a judge for each section of the module's text, by address."""
    symbols = ModuleSymbols(module)
    text = sorted(module.image.text_sections, key=lambda section: section.addr)
    return tuple(ModuleJudge(kernel, module, symbols, section) for section in text if np.uint64(section.size) >= 4)
