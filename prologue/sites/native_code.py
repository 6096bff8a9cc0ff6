"""Whether a kernel's code does what its marker promises: the native contract, followed in the binary.

The kernel's boot is followed from ``ftrace_init`` on (kernel/trace/ftrace.c, arch/arm64/kernel/ftrace.c with our
patch), once with the marker's flag set and once with it clear:

* ``ftrace_dyn_arch_init`` reads the flag, and what it leaves in memory is known from then on;
* ``ftrace_process_locs`` takes every record through ``ftrace_call_adjust`` (in 6.1 inline, with
  ``ftrace_record_is_adjusted``) and stores the result. With the flag set that must be the record itself, with the flag
  clear it must not;
* ``ftrace_init_nop`` is called with no module. With the flag set it may write nothing but the site's CALL_OPS literal,
  which it must write, and must be able to return 0; with the flag clear it must get to the code that writes text.

Nothing is guessed: code that cannot be followed is not recognised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from prologue.sites.code import Code, UnrecognisedError
from prologue.sites.follow import Cells, Follower, Summary
from prologue.sites.init_path import ENTRY
from prologue.sites.init_stub import FUNCTION, HARMLESS, LITERAL_WRITER, STACK_CHECK, TEXT_WRITERS
from prologue.sites.knowledge import Knowledge
from prologue.sites.marker import MAGIC, PROCESSED, VERSION, Marker
from prologue.sites.values import Limits, McountRecord, Value, is_zero

if TYPE_CHECKING:
    from prologue.sites.kernel import Kernel

READER: Final = "ftrace_dyn_arch_init"
PROCESS: Final = "ftrace_process_locs"
ADJUST: Final = "ftrace_call_adjust"
IS_ADJUSTED: Final = "ftrace_record_is_adjusted"
NOP_OPS: Final = "ftrace_nop_ops"
# Functions that are followed when they are called, and how many of their arguments matter.
_FOLLOWED: Final = {
    ENTRY: 0,
    READER: 0,
    PROCESS: 3,
    "ftrace_update_code": 1,
    "ftrace_nop_initialize": 1,
    FUNCTION: 1,
    ADJUST: 1,
    IS_ADJUSTED: 1,
    "ftrace_rec_set_nop_ops_early": 0,
    "ftrace_rec_set_ops": 2,
    "ftrace_rec_set_nop_ops": 0,
    "ftrace_rec_update_ops": 0,
}
_OF_RECORDS: Final = (ADJUST, IS_ADJUSTED)
# What compilers call for KASAN, KCSAN, KCOV, UBSAN and gcov, and messages: none of it writes text.
_INSTRUMENTATION: Final = ("__asan_", "__hwasan_", "__tsan_", "__sanitizer_cov_", "__ubsan_handle_", "__gcov_")
_MESSAGES: Final = ("_printk", "__warn_printk")
_NO_RETURN: Final = (STACK_CHECK, "panic")
_NAMES: Final = (*_FOLLOWED, *TEXT_WRITERS, *HARMLESS, LITERAL_WRITER, *_NO_RETURN)


class Problem(NamedTuple):
    """Why code was not recognised: the instruction, and the function that it is in."""

    reason: str
    place: int
    start: int
    words: tuple[int, ...]


def find_problem(kernel: Kernel, marker: Marker) -> Problem | None:
    """Follow the code; None if it reads the marker and obeys it."""
    boot = FollowedBoot(kernel, marker)
    return boot.find_problem(processed=True) or boot.find_problem(processed=False)


def _record_ranges(kernel: Kernel, *, processed: bool) -> list[tuple[int, int]]:
    """Lowest and highest record in each section of text: second slots, or what the compiler put there."""
    if kernel.sites is None:
        return []
    values = kernel.sites.second if processed else kernel.sites.unmoved_values()
    ranges = []
    for section in kernel.text.text_sections:
        inside = values[(values >= section.addr) & (values < section.addr + section.size)]
        if len(inside):
            ranges.append((int(inside.min()), int(inside.max())))
    return ranges


class FollowedBoot:
    """One kernel's boot, to be followed with the marker set and with it clear."""

    def __init__(self, kernel: Kernel, marker: Marker) -> None:
        self._code = Code(kernel, _NAMES)
        self._marker = marker
        self._entry, start, stop, ops = (
            None if symbol is None else symbol.vaddr
            for symbol in map(kernel.symbols.find, (ENTRY, "__start_mcount_loc", "__stop_mcount_loc", NOP_OPS))
        )
        self._table = (start or 0, stop or 0)
        self._ranges = {processed: _record_ranges(kernel, processed=processed) for processed in (False, True)}
        self._nop_ops = ops

    def find_problem(self, *, processed: bool) -> Problem | None:
        """What does not obey the marker that is set, or clear; None if all does."""
        if self._entry is None or not self._code.known(self._entry):
            return Problem(
                f"no {ENTRY}: where the boot begins is not known", self._marker.vaddr, self._marker.vaddr, ()
            )
        try:
            self._follow(self._entry, processed=processed)
        except UnrecognisedError as error:
            return Problem(error.reason, error.place, *self._code.listing(error.place))
        return None

    def _follow(self, entry: int, *, processed: bool) -> None:
        """For any record; if that does not do, for the records of one section after the other."""
        ranges = self._ranges[processed]
        if not ranges:
            raise UnrecognisedError("no record is in text", entry)
        try:
            taken = self._takes(entry, processed, None)
        except UnrecognisedError:
            taken = False
            for records in ranges:  # each of them, taken or not
                taken |= self._takes(entry, processed, records)
        if not taken:
            when = "set" if processed else "clear"
            raise UnrecognisedError(f"no record is seen to be taken with the marker {when}", entry)

    def _takes(self, entry: int, processed: bool, records: tuple[int, int] | None) -> bool:
        """Whether such records are taken at all: 6.12 skips those that are in neither text nor init text."""
        limits = Limits(self._table, records)
        follower = _Judge(self._code, limits, self._ranges[processed], self._nop_ops, processed=processed)
        flags = PROCESSED if processed else 0
        known: Cells = {self._marker.vaddr: (8, MAGIC), self._marker.vaddr + 8: (8, VERSION | flags << 32)}
        follower.run(entry, [], known)
        return follower.conclude(entry)


class _Judge(Follower):
    """What must and what must not happen on the way."""

    def __init__(
        self, code: Code, limits: Limits, ranges: list[tuple[int, int]], nop_ops: int | None, *, processed: bool
    ) -> None:
        super().__init__(code, limits)
        self._ranges = ranges
        self._nop_ops = nop_ops
        self._processed = processed
        self._inside = 0  # calls into ftrace_init_nop
        self._known: dict[tuple[object, ...], Summary] = {}
        self._stored: dict[int, Value] = {}  # records: instruction to the last value that it stored
        self._initialised = False
        self._written = False

    @property
    def _when(self) -> str:
        return f"with the marker {'set' if self._processed else 'clear'}"

    def called(self, target: int, pc: int, state: Knowledge) -> Summary | None:
        name = self.code.known(target)
        if name in _NO_RETURN:
            return Summary(None, {}, literal=False, returns=False)
        if name in _FOLLOWED:
            return self._followed(name, target, state)
        if self._inside:
            self._within(name or self.code.name(target), pc, state)
        return None

    def _within(self, name: str, pc: int, state: Knowledge) -> None:
        """A call from ftrace_init_nop."""
        if name in TEXT_WRITERS:
            self._written = True
        if not self._processed or name in (*HARMLESS, *_MESSAGES) or name.startswith(_INSTRUMENTATION):
            return
        if name == LITERAL_WRITER and self._nop_ops is not None and state.regs[1] == self._nop_ops:
            state.literal = True
            return
        raise UnrecognisedError(f"{FUNCTION} calls {name} {self._when}", pc)

    def stored(self, state: Knowledge, pc: int, address: Value, size: int, value: Value) -> None:
        if self._inside and self._processed:
            if isinstance(address, int) and not self.code.is_text(address):
                return
            if address is not None or self._nop_ops is None or (size, value) != (8, self._nop_ops):
                raise UnrecognisedError(f"{FUNCTION} writes to memory that is not known {self._when}", pc)
            state.literal = True
        elif isinstance(value, McountRecord) and size == 8:
            self._stored[pc] = value

    def _followed(self, name: str, target: int, state: Knowledge) -> Summary:
        """The function's outcome; each is followed once for the same arguments and memory."""
        arguments, cells = state.regs[: _FOLLOWED[name]], state.kept(stack=False)
        key = (target, tuple(arguments), frozenset(cells.items()), bool(self._inside), self.limits.records)
        if key not in self._known:
            if name == FUNCTION:
                self._known[key] = self._init_nop(target, arguments, cells)
            elif name in _OF_RECORDS:
                self._known[key] = self._adjusted(name, target, arguments, cells)
            else:
                self._known[key] = self.run(target, arguments, cells)
        return self._known[key]

    def _init_nop(self, target: int, arguments: list[Value], cells: Cells) -> Summary:
        self._inside += 1
        outcome = self.run(target, arguments, cells)
        self._inside -= 1
        self._initialised = True
        if self._processed:
            if not outcome.returns or is_zero(outcome.result) is False:
                raise UnrecognisedError(f"{FUNCTION} does not return 0 {self._when}", target)
            if self._nop_ops is not None and not outcome.literal:
                raise UnrecognisedError(f"{FUNCTION} does not write the site's literal {self._when}", target)
        return outcome

    def _adjusted(self, name: str, target: int, arguments: list[Value], cells: Cells) -> Summary:
        """The record, whichever it is, after ``ftrace_call_adjust``; or whether it already is adjusted."""
        limits, outcomes = self.limits, []
        for records in self._ranges if limits.records is None else [limits.records]:
            self.limits = limits._replace(records=records)
            outcomes.append(self.run(target, arguments, cells))
            same = outcomes[-1].result == arguments[0]
            if name == ADJUST and isinstance(arguments[0], McountRecord) and same != self._processed:
                self.limits = limits
                how = "does not return records as they are" if self._processed else "returns records as they are"
                raise UnrecognisedError(f"{ADJUST} {how} {self._when}", target)
        self.limits = limits
        result = outcomes[0].result
        for other in outcomes[1:]:
            result = limits.join(result, other.result, again=False)
        kept = frozenset.intersection(*(outcome.kept for outcome in outcomes))
        return outcomes[0]._replace(result=result, cells=cells, kept=kept)

    def conclude(self, entry: int) -> bool:
        """What must have happened; whether a record is stored anywhere.

        Raises:
            UnrecognisedError: it did not happen.

        """
        if not self._initialised:
            raise UnrecognisedError(f"{ENTRY} does not get to {FUNCTION} {self._when}", entry)
        if not self._processed and not self._written:
            raise UnrecognisedError(f"{FUNCTION} writes no prologue {self._when}", entry)
        for pc, value in self._stored.items():
            if (value == McountRecord()) != self._processed:
                how = "is not taken as it is" if self._processed else "is taken as it is"
                raise UnrecognisedError(f"a record {how} {self._when}", pc)
        return bool(self._stored) or not self._processed
