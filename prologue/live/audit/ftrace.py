"""ftrace's words: first and second slots, CALL_OPS literals, and the words of ``ftrace_caller`` that it patches.

arch/arm64/kernel/ftrace.c (6.1-7.2): ``ftrace_init`` writes every MOV. A second slot is NOP, or BL to ``ftrace_caller``
(``ftrace_regs_caller``, a direct trampoline). A literal is the address of ``ftrace_nop_ops`` unless the site is traced;
it changes before the slot does, both under ``ftrace_lock``. A kernel with our patch sets all of its own literals in one
pass before its first BL of all: until then they are those of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import U32, U64, Bool, among
from prologue.insn import a64
from prologue.insn.decode import BL, jump, jump_distance, matches
from prologue.kernel.sites import Sites
from prologue.live.audit.claims import Claims, Scene, halves, words_from
from prologue.live.audit.ftrace_state import FtraceState
from prologue.live.memory.ranges import KERNEL_LOWEST
from prologue.live.structs.ftrace_lists import ENABLED

_LINKED: Final = np.uint64(a64.NOP | a64.NOP << 32)  # a literal, as the compiler left it


def claim_ftrace(scene: Scene, state: FtraceState, plts: U64) -> Iterator[Claims]:
    """Claim all of ftrace's words; ``plts`` are run-time addresses of a module's own PLT entries for ftrace."""
    sites = scene.binary.sites
    if sites is not None:
        yield _first_slots(scene, sites)
        slots = _Slots(scene, sites, state, plts)
        yield slots.seconds()
        if sites.layout == "4,2":
            yield slots.literals()
    yield from _ftrace_call(scene, state)
    yield from _ftrace_graph_call(scene, state)


def _first_slots(scene: Scene, sites: Sites) -> Claims:
    text = scene.binary.text
    first = sites.first[text.in_text(sites.first)]
    live = text.words(first)
    expected = np.full(len(first), a64.MOV_X9_X30, np.uint32)
    reason = "a first slot, which boot makes a MOV"
    return Claims("first slots", first, live, expected, reason=lambda _: reason, kind="first slot", malformed=True)


class _Slots:
    """Second slots and literals: each decides the other."""

    def __init__(self, scene: Scene, sites: Sites, state: FtraceState, plts: U64) -> None:
        text = scene.binary.text
        self._scene, self._state = scene, state
        # A literal may be in the page before, and memory may have one of the two. The judge leaves out the other.
        has_literals = sites.layout == "4,2"
        literal_in_text = text.in_text(sites.entry - np.uint64(8)) & has_literals
        text_rows = np.flatnonzero(text.in_text(sites.second) | literal_in_text)
        self._second: U64 = sites.second[text_rows]
        self._live: U32 = text.words(self._second)
        self._literal: U64 | None = None
        self._has_literal: Bool = literal_in_text[text_rows]
        if has_literals:
            self._at: U64 = sites.entry[text_rows] - np.uint64(8)
            halves = text.words_around(self._at, (0, 1))
            self._literal = halves[0].astype(np.uint64) | halves[1].astype(np.uint64) << np.uint64(32)
            late = scene.binary is scene.kernel and state.sets_literals_late
            self._unset: Bool = (self._literal == _LINKED) & late & self._has_literal
            # All are set at once, so most of them show whether that was done.
            self._untraced = 2 * int(self._unset.sum()) > int(self._has_literal.sum())
        self._calls: Bool = matches(self._live, BL)
        runs = scene.runs_at(self._second)
        self._target: U64 = runs + jump_distance(self._live).view(np.uint64)
        known = np.array(sorted(state.trampolines), np.uint64)
        self._to_ftrace: Bool = self._calls & (among(self._target, known) | among(self._target, plts))
        self._direct, self._moving, self._in_doubt = self._direct_calls(runs)
        self._traced, self._decided = self._should_call(runs)
        default = known[0] if len(known) else np.uint64(0)
        away = (default - runs).view(np.int64)
        self._to_default: U32 = jump(BL, away >> 2)

    def _direct_calls(self, runs: U64) -> tuple[Bool, Bool, Bool]:
        """Find calls of the code that ftrace sends them to, which the kernel has to name.

        The second array has calls that ftrace may be at work on: ``modify_ftrace_direct`` moves them, and
        ``unregister_ftrace_direct`` takes their ops off the list before it writes text. The third has those of which
        ``direct_functions`` cannot be read.
        """
        direct, moving, in_doubt = np.zeros((3, len(self._second)), np.bool_)
        for k in np.flatnonzero(self._calls & ~self._to_ftrace).tolist():
            sent, target = self._sent(k, int(runs[k])), int(self._target[k])
            if sent is not None and self._state.is_code(target):
                direct[k], moving[k] = sent == target, sent != target and self._state.unstable
            elif self._state.direct_targets is None and self._state.is_code(target):
                in_doubt[k] = True
            else:
                moving[k] = self._is_leaving(k, target)
        return direct, moving, in_doubt

    def _is_leaving(self, k: int, target: int) -> bool:
        """Return whether a site may still call what an ops sent it to that was just taken off the list."""
        if self._literal is None:
            return False
        ops, state = int(self._literal[k]), self._state
        if ops in state.ops.places or not state.may_be_leaving(ops):
            return False
        return state.text_unstable or (state.direct_call(ops) == target and state.is_code(target))

    def _sent(self, k: int, place: int) -> int | None:
        """Return where ftrace sends the calls of a site directly: its literal's ops says it, or ``direct_functions``.

        Without a literal, or with one ops for many direct calls, the table alone has it (both after 7.2).
        """
        if self._literal is not None and self._has_literal[k]:
            ops = int(self._literal[k])
            if ops not in self._state.ops.places and self._state.ops.complete:
                return None
            sent = self._state.direct_call(ops) if ops in self._state.ops.places else None
            if sent is not None:
                return sent
        return (self._state.direct_targets or {}).get(place)

    def _should_call(self, runs: U64) -> tuple[Bool, Bool]:
        """Return which sites are traced, by ftrace's records or the literals, and for which of them that is known.

        A module that is being unloaded has no record any more, and its sites stay as they were (``ftrace_release_mod``,
        kernel/trace/ftrace.c, 5.10-7.3).
        """
        records = self._state.records
        if records is not None and len(records.places):
            at = np.minimum(np.searchsorted(records.places, runs), len(records.places) - 1)
            recorded = records.places[at] == runs
            if self._scene.binary is not self._scene.kernel and not recorded.any():
                return self._calls, recorded
            return recorded & (records.flags[at] & ENABLED != 0), np.ones(len(runs), np.bool_)
        if self._literal is not None and self._state.idle_ops is not None:
            places = {self._state.idle_ops, *self._state.ops.places, self._state.list_ops or 0}
            known = among(self._literal, np.array(sorted(places), np.uint64)) & self._has_literal | self._unset
            idle = (self._literal == np.uint64(self._state.idle_ops)) | self._unset
            return np.where(known, ~idle, self._calls), known
        return self._calls, np.zeros(len(runs), np.bool_)

    def seconds(self) -> Claims:
        """Claim the second slots."""
        good_call = self._to_ftrace | self._direct | self._moving | self._in_doubt
        is_nop = self._live == np.uint32(a64.NOP)
        wanted = np.where(self._traced & good_call & ~self._moving, self._live, self._to_default)
        expected = np.where(self._traced, wanted, np.uint32(a64.NOP))
        unsure = ~self._decided | self._in_doubt
        unstable = (is_nop | good_call) & self._state.unstable & (unsure | (self._live != expected))
        return Claims(
            "second slots", self._second, self._live, np.where(unstable | self._in_doubt, self._live, expected),
            reason=self._second_reason, kind="call", unsure=unsure, unstable=unstable,
            malformed=self._calls & ~good_call,
        )  # fmt: skip

    def _second_reason(self, k: int) -> str:
        if not self._decided[k]:
            return "a second slot, NOP or BL to ftrace"
        source = "ftrace's record" if self._state.records is not None else "the literal before it"
        target = int(self._target[k])
        if self._calls[k] and not self._state.is_code(target):
            return f"a second slot; nothing that the kernel names is at {target:#x}"
        return f"a second slot; {source} says that it is {'' if self._traced[k] else 'not '}traced"

    def literals(self) -> Claims:
        """Claim both words of every literal: a registered ops, or the idle one, as ftrace's records say."""
        assert self._literal is not None  # noqa: S101 - the caller looked
        state, literal = self._state, self._literal
        fixed = {place for place in (state.idle_ops, state.list_ops) if place is not None}
        ops = np.array(sorted(fixed | state.ops.places), np.uint64)
        good: Bool = among(literal, ops)
        # Memory has not all ops: one that lies where data may be could be one of those.
        maybe = (literal >= np.uint64(KERNEL_LOWEST)) & (literal & np.uint64(7) == 0)
        released = ~self._decided & (state.records is not None)
        unsure = ~good & maybe & (released | (not state.ops.complete))
        for place in np.unique(literal[~good & maybe]).tolist() if state.unstable else ():
            unsure |= (literal == np.uint64(place)) & state.may_be_leaving(place)
        idle: Bool = literal == np.uint64(state.idle_ops or 0)
        against: Bool = good & (idle == self._traced) & (state.records is not None) & ~released
        if state.unstable:  # literals and records are written one after the other
            unsure |= against
        elif state.records is not None:
            good, unsure = good & ~against, unsure & (self._traced | released)
        if self._unset.any():
            good, unsure = self._before_first_trace(idle, good, unsure)
        expected = np.where(good | unsure, literal, np.uint64(0))
        traced = self._calls if state.records is None else self._traced
        for k in np.flatnonzero(expected == 0).tolist():
            expected[k] = self._nearest(int(literal[k]), ops, traced=bool(traced[k]))
        note = f"nothing was traced since boot: {len(literal):,} CALL_OPS literals are those of the file"
        note = note if len(literal) and self._unset.all() else ""
        return Claims(
            "CALL_OPS literals", words_from(self._at, 2), halves(literal), halves(expected),
            reason=self._literal_reason, kind="data", unsure=np.repeat(unsure, 2),
            unstable=np.repeat(unsure & state.unstable, 2), note=note,
        )  # fmt: skip

    def _before_first_trace(self, idle: Bool, good: Bool, unsure: Bool) -> tuple[Bool, Bool]:
        """Return which literals are right, and which may be, if some were never set.

        Set and unset ones are both right only in the pass that sets them, or after one that ftrace broke off.
        """
        both: Bool = self._unset | idle
        if self._state.disabled:
            return both | good, unsure
        right = self._unset if self._untraced else good
        maybe = both & ~right if self._state.unstable else np.zeros(len(both), np.bool_)
        return right, maybe if self._untraced else unsure | maybe

    def _nearest(self, literal: int, ops: U64, *, traced: bool) -> int:
        """Choose the expected ops: the idle one if nothing traces the site, otherwise one that shares a half."""
        idle = self._state.idle_ops or 0
        if self._untraced:
            return int(_LINKED)
        if not traced:
            return idle
        halves = [place for place in ops.tolist() if not (place ^ literal) >> 32 or not (place ^ literal) & 0xFFFFFFFF]
        return next((place for place in halves if place != idle), self._state.list_ops or idle)

    def _literal_reason(self, k: int) -> str:
        assert self._literal is not None  # noqa: S101 - the caller looked
        at = int(self._literal[k // 2])
        name = f"the literal of {self._scene.binary.symbols.locate(int(self._second[k // 2])).symbol}"
        if self._untraced:
            return f"{name}; nothing was traced since boot, so that it is the one of the file"
        if self._unset[k // 2]:
            return f"{name}; it was never set, and others were"
        if at in self._state.ops.places or at in (self._state.idle_ops, self._state.list_ops):
            return f"{name}; ftrace's record says that the site is {'' if self._traced[k // 2] else 'not '}traced"
        return f"{name}; no registered ftrace_ops is at {at:#x}"


def _call(pc: int, target: int) -> U32:
    """Encode a BL; UDF, which no word may be, if it does not reach."""
    reaches = target % 4 == 0 and -a64.BL_REACH <= target - pc < a64.BL_REACH
    return np.array([a64.encode_b(pc, target, link=True) if reaches else 0], np.uint32)


def _traced_by(scene: Scene, state: FtraceState) -> tuple[int | None, bool]:
    """Return the function that ``ftrace_call`` was last given, and whether it cannot be another.

    ``ftrace_enable_sysctl`` and ``ftrace_kill`` set ``ftrace_trace_function`` to ``ftrace_stub``, and leave text alone.
    What is registered while ftrace is off sets ``saved_ftrace_func``, too; enabling ftrace clears that, and writes text
    only if there is something to trace (kernel/trace/ftrace.c, 5.10-7.2; 7.3 does not let ftrace be turned off). So
    while something is traced, text is up to date.
    """
    function, saved = (scene.variables.number(name) for name in ("ftrace_trace_function", "saved_ftrace_func"))
    if not _is_off(scene, state):
        return function, saved != 0 or state.tracing
    return (saved, not state.disabled) if saved and saved != function else (function, False)


def _is_off(scene: Scene, state: FtraceState) -> bool:
    return scene.variables.number("ftrace_enabled", 4) == 0 and (state.disabled or not state.tracing)


def _ftrace_call(scene: Scene, state: FtraceState) -> Iterator[Claims]:
    """Claim the BL to the function in ``ftrace_trace_function`` (5.5-6.2, and later without CALL_OPS)."""
    symbol = scene.binary.symbols.find("ftrace_call")
    if symbol is None:
        return
    vaddrs = np.array([symbol.vaddr], np.uint64)
    text = scene.binary.text
    if not text.in_text(vaddrs).all():
        return
    target, is_last = _traced_by(scene, state)
    live = text.words(vaddrs)
    runs = int(scene.runs_at(vaddrs)[0])
    call = live if target is None else _call(runs, target)
    calls = a64.branch_target(int(live[0]), runs) if matches(live, BL).all() else None
    may_be = not is_last and calls is not None and state.is_code(calls)
    unsure: Bool = (live != call) & may_be | (target is None)
    wanted = np.where(unsure, live, call)
    several = scene.variables.place("arch_ftrace_ops_list_func") or scene.variables.place("ftrace_ops_list_func")
    unstable = (live == _call(runs, several or runs)) & (several is not None) & state.unstable & (live != wanted)
    reason = "ftrace_call, which calls what ftrace_trace_function has, or had before ftrace was turned off"
    yield Claims(
        "ftrace_call", vaddrs, live, np.where(unstable, live, wanted), reason=lambda _: reason, kind="call",
        unsure=unsure, unstable=unstable, malformed=matches(live, BL),
    )  # fmt: skip


def _ftrace_graph_call(scene: Scene, state: FtraceState) -> Iterator[Claims]:
    """Claim the NOP that is a B to ``ftrace_graph_caller`` while the graph tracer is used (5.10; gone before 6.1)."""
    symbol, target = (scene.binary.symbols.find(name) for name in ("ftrace_graph_call", "ftrace_graph_caller"))
    if symbol is None or target is None:
        return
    vaddrs = np.array([symbol.vaddr], np.uint64)
    if not scene.binary.text.in_text(vaddrs).all():
        return
    live = scene.binary.text.words(vaddrs)
    nop, branch = a64.NOP, a64.encode_b(symbol.vaddr, target.vaddr)
    formed: Bool = (live == np.uint32(nop)) | (live == np.uint32(branch))
    users = scene.variables.number("ftrace_graph_active", 4)
    active = None if state.disabled else 0 if _is_off(scene, state) else users
    wanted = np.where(formed, live, nop) if active is None else np.array([branch if active else nop], np.uint32)
    unstable = formed & state.unstable & (live != wanted)
    reason = "ftrace_graph_call, a branch while ftrace is on and ftrace_graph_active is not 0"
    yield Claims(
        "ftrace_graph_call", vaddrs, live, np.where(unstable, live, wanted).astype(np.uint32), reason=lambda _: reason,
        unsure=active is None, unstable=unstable,
    )  # fmt: skip
