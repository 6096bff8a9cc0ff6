"""Recorded writes of the output of ``record.sh``, and the losses that it shows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.elf.notes import build_id_among
from prologue.errors import InputError
from prologue.live.memory.ranges import PAGE, TOP
from prologue.live.pokes import literals
from prologue.live.pokes.literals import Changed
from prologue.live.pokes.recorder_output import ProbeHit, RecorderOutput
from prologue.live.pokes.recording import (
    CALLERS,
    NO_CPU,
    Flag,
    Function,
    Header,
    Loss,
    Recording,
    Rows,
    Trailer,
    empty_rows,
)
from prologue.words import counted

_KERNEL_TOP: Final = 0xFFFF << 48  # bits of each kernel address that pointer authentication overwrites
_US: Final = 1000  # ns
_MOST_US: Final = 0xFFFF  # that a row has room for
_LITERAL: Final = "aarch64_insn_write_literal_u64"
_BPF: Final = "__text_poke"
# A module's text is made executable after this (load_module, kernel/module/main.c, 6.12: complete_formation).
_MODULE_INIT: Final = "ftrace_module_init"
_STOP: Final = "multi_cpu_stop"  # runs its function when all CPUs are in it (kernel/stop_machine.c, 6.12)
_NAMED: Final = re.compile(
    r"^(?P<start>[0-9a-f]{16}) (?P<end>[0-9a-f]{16}|-) (?P<name>\S+) *(?:\[?(?P<owner>[^\s\]]+)\]?)?$"
)
_NOTE: Final = re.compile(r"^(\w+) refused (.*)$")


class _Write(NamedTuple):
    """A word that was written."""

    hit: ProbeHit
    address: int
    old: int
    new: int
    flags: Flag


def writes_of_output(output: RecorderOutput) -> Recording:
    """Make a recording of the output.

    Raises:
        InputError: the output contradicts itself, or is damaged.

    """
    try:
        return _Reader(output).recording()
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise InputError(f"damaged: the recorder's output cannot be parsed ({error})", path=output.path) from error


class _Reader:
    """The reader of one output."""

    def __init__(self, output: RecorderOutput) -> None:
        self._output = output
        self._functions = _functions(output.parts["names"])
        self._starts = [function.start for function in self._functions]
        self._offset = int(output.value("voffset"), 16)
        self._text = range(int(output.value("_stext"), 16), int(output.value("_etext"), 16))
        self._odd = self._bpf = 0
        self._unknown_pages = 0
        self._pages_of_literals: dict[int, ProbeHit] = {}  # by their address; the last time that each was mapped
        self._unmap_times = _unmap_times(output.hits)

    def recording(self) -> Recording:
        """Make the recording."""
        writes = [write for hit in self._output.hits if hit.name == "fixmap" for write in self._writes(hit)]
        self._require_own(writes)
        changed = self._changed_words()
        # Nothing sets a literal before all of them are set.
        writes = [*self._literals(writes, changed or {}), *writes]
        unseen, losses = self._compare(writes, changed)
        rows = self._rows(writes, unseen)
        machine, release, online, *_ = self._output.parts["machine"]
        ranges = (part.split("-") for part in online.split(","))  # 0-3,5
        slide = self._output.value("slide")
        notes = bytes.fromhex("".join(self._output.parts["notes"]))  # as the kernel has them
        return Recording(
            str(self._output.path),
            Header(
                source="kprobe events", machine=machine, clock="ns",
                sees=("old", "paddr", "pc", "stopped", "unreachable", "callers", "literal"),
                release=release, build_id=build_id_among(notes),
                cpus=sum(int(numbers[-1]) - int(numbers[0]) + 1 for numbers in ranges),
            ),
            Trailer(
                slide=int(slide, 16) if slide else None,
                functions=self._functions,
                lost=(*self._losses(), *losses),
                notes=tuple(self._notes()),
            ),
            rows,
        )  # fmt: skip

    def _require_own(self, writes: list[_Write]) -> None:
        """Refuse output without the recorder's own test writes: others may be missing, too."""
        if not any(write.hit.time <= self._output.marks["armed"] for write in writes):
            raise InputError(
                "lacks the recorder's own test writes: record again with a larger --buffer", path=self._output.path
            )

    def name(self, address: int) -> str:
        """Name the function that has an address; empty if it is not known."""
        at = bisect_right(self._starts, address) - 1
        return self._functions[at].name if at >= 0 and address < self._functions[at].end else ""

    def _chain(self, hit: ProbeHit) -> list[int]:
        """Return the return addresses, from the function that asked for the page on, without the mapping itself."""
        chain = []
        for k in range(1, 11):
            address = hit.fields[f"c{k}"]
            if not address:
                break
            chain.append(address | _KERNEL_TOP)
        while len(chain) > 1 and self.name(chain[0]).startswith("patch_map"):
            chain.pop(0)
        return chain

    def _writes(self, hit: ProbeHit) -> Iterator[_Write]:
        fields = hit.fields
        address, known = fields["addr"], Flag(0)
        image = fields["page"] + self._offset & TOP
        if image in self._text:
            # A writer with an unusual caller: the address is certain, but the old word was not read there.
            known = Flag(0) if address == image else Flag.OLD_UNKNOWN
            address = image
        elif address % PAGE != fields["page"] % PAGE:
            self._odd += 1
            return
        chain = self._chain(hit)
        names = [self.name(place) for place in chain]
        flags = known | (Flag.STOPPED if _STOP in names else Flag(0))
        if _MODULE_INIT in names:
            flags |= Flag.UNREACHABLE
        if _BPF in names[:2]:
            self._bpf += 1
        elif literals.WRITER in names[:2]:
            self._pages_of_literals[address // PAGE * PAGE] = hit
        elif _LITERAL in names[:2]:
            yield _Write(hit=hit, address=address, old=fields["old"], new=fields["low"], flags=flags | Flag.LITERAL)
            yield _Write(
                hit=hit, address=address + 4, old=fields["next"], new=fields["new"], flags=flags | Flag.LITERAL
            )
        else:
            yield _Write(hit=hit, address=address, old=fields["old"], new=fields["new"], flags=flags)

    def _rows(self, writes: list[_Write], unseen: list[Changed]) -> Rows:
        rows = empty_rows(len(writes) + len(unseen))
        for row, write in zip(rows, writes, strict=False):
            chain = self._chain(write.hit)
            row["time"], row["cpu"], row["paddr"] = write.hit.time, write.hit.cpu, write.hit.fields["page"]
            row["address"], row["new"] = write.address, write.new
            row["within"] = self._within(write.hit)
            row["old"] = 0 if write.flags & Flag.OLD_UNKNOWN else write.old
            row["pc"] = chain[0] if chain else 0
            callers = chain[1 : 1 + CALLERS]
            row["callers"][: len(callers)] = callers
            # Callers after a zero are left from older events.
            is_cut = all(write.hit.fields[f"c{k}"] for k in range(1, 11))
            row["flags"] = write.flags | (Flag.CUT_CHAIN if is_cut else 0)
        for row, change in zip(rows[len(writes) :], unseen, strict=True):
            row["time"], row["cpu"] = self._output.marks["end"], NO_CPU
            row["address"], row["old"], row["new"], row["flags"] = *change, Flag.CUT_CHAIN
        return rows[np.argsort(rows["time"], kind="stable")]

    def _within(self, hit: ProbeHit) -> int:
        """Return in how many us after mapping the word was written at most; 0 if not known."""
        end = self._unmap_times.get((hit.cpu, hit.time))
        longest = 0 if end is None else (end - hit.time) // _US + 1  # the kernel cuts its times off
        return longest if longest <= _MOST_US else 0

    def _changed_words(self) -> dict[int, Changed] | None:
        """Return the words of the kernel's text that differ after the recording; None if it was not compared."""
        summary, *lines = self._output.parts["changed"] or [""]
        if not summary.startswith("compared "):
            return None
        return {change.address: change for change in map(self._changed, lines)}

    def _literals(self, writes: list[_Write], changed: dict[int, Changed]) -> list[_Write]:
        """Return the literals that the first trace stored, as far as the text was compared."""
        later: dict[int, int] = {}
        for write in writes:
            if write.flags & Flag.LITERAL:
                later.setdefault(write.address, write.old)
        pages = self._pages_of_literals
        words = literals.words_of_pages(pages, changed, later)
        self._unknown_pages = len(pages) - len({word.address // PAGE for word in words})
        return [
            _Write(
                hit=pages[word.address // PAGE * PAGE],
                address=word.address,
                old=word.old,
                new=word.new,
                flags=Flag.LITERAL,
            )
            for word in words
        ]

    def _compare(self, writes: list[_Write], changed: dict[int, Changed] | None) -> tuple[list[Changed], list[Loss]]:
        """Hold the writes against each other, and against the kernel's text before and after.

        Returns:
            Words that changed although no write to them was recorded, and counts of contradictions.

        """
        first: dict[int, _Write] = {}
        last: dict[int, _Write] = {}
        torn = 0
        for write in writes:
            before = last.get(write.address)
            torn += before is not None and not write.flags & Flag.OLD_UNKNOWN and before.new != write.old
            first.setdefault(write.address, write)
            last[write.address] = write
        losses = [Loss("changes of a word between two recorded writes to it", torn)] if torn else []
        if changed is None:
            return [], losses
        unseen = [change for address, change in changed.items() if address not in last]
        wrong = sum(self._contradicts(first[address], write, changed) for address, write in last.items())
        if wrong:
            losses.append(Loss("words that do not hold what was recorded last", wrong))
        return unseen, losses

    def _changed(self, line: str) -> Changed:
        offset, old, new = line.split()
        return Changed(self._text.start // PAGE * PAGE + 4 * int(offset), int(old, 16), int(new, 16))

    def _contradicts(self, first: _Write, last: _Write, changed: dict[int, Changed]) -> bool:
        """Return whether the copies of the text before and after disagree; writes during a copy prove nothing."""
        marks = self._output.marks
        if (
            first.flags & Flag.OLD_UNKNOWN
            or first.address not in self._text
            or first.hit.time <= marks["begin"]
            or last.hit.time >= marks["end"]
        ):
            return False
        change = changed.get(first.address)
        expected = None if first.old == last.new else (first.old, last.new)
        return (None if change is None else (change.old, change.new)) != expected

    def _losses(self) -> Iterator[Loss]:
        output = self._output
        dropped = 0
        for line in output.parts["lost"]:
            where, count, what = line.split(" ", 2)
            if where.startswith("cpu"):
                dropped += int(count)
            else:
                yield Loss(f"hits of the probe {where}, {what}", int(count))
        if dropped := max(dropped, output.dropped):
            yield Loss("events, by the ring buffer (record again with a larger --buffer)", dropped)
        if output.unread:
            yield Loss("lines of events that cannot be parsed", output.unread)
        if self._odd:
            yield Loss("writes whose address does not match the mapped page", self._odd)
        if self._bpf:
            yield Loss("pieces of BPF programs, whose words are not recorded", self._bpf)
        if self._unknown_pages:
            yield Loss(
                "pages whose literals were all set at the first trace, and no comparison of the text shows them",
                self._unknown_pages,
            )
        if wrong := self._disagreeing():
            yield Loss("writes for which copy_to_kernel_nofault saw other words", wrong)

    def _disagreeing(self) -> int:
        """Count disagreements with copy_to_kernel_nofault, if it was probed: it is called after the page is mapped."""
        waiting: dict[int, ProbeHit] = {}
        wrong = 0
        for hit in self._output.hits:
            if hit.name == "fixmap":
                waiting[hit.cpu] = hit
            elif hit.name == "word" and (mapped := waiting.pop(hit.cpu, None)):
                ours, other = mapped.fields, hit.fields
                names = {4: ("old", "new"), 8: ("old", "next")}[other["size"]]
                wrong += any(ours[name] != other[name] for name in names)
                if other["size"] == 8:
                    wrong += (ours["low"], ours["new"]) != (other["new"], other["high"])
        return wrong

    def _notes(self) -> Iterator[str]:
        parts = self._output.parts
        comparison = parts["changed"][0] if parts["changed"] else "not compared: nothing said"
        yield f"the kernel's text before and after: {comparison}; modules' text was not compared"
        refused: dict[str, list[str]] = {}
        for line in parts["probes"]:
            if refusal := _NOTE.match(line):
                refused.setdefault(refusal[2], []).append(refusal[1])
        for reason, names in refused.items():
            yield f"no probe on {', '.join(names)}: {reason}; their writes are seen where __set_fixmap maps the page"
        if loads := sum(hit.name == "alternatives" for hit in self._output.hits):
            yield f"{counted(loads, 'time')} alternatives were applied to a module's text before it ran: not recorded"
        if checked := sum(hit.name == "word" for hit in self._output.hits):
            yield f"copy_to_kernel_nofault was probed, too: {counted(checked, 'hit')}"
        ended = parts["ended"][0] if parts["ended"] else ""
        if ended == "stopped":
            yield "ended by a signal or by its user"
        elif ended not in ("", "0"):
            yield f"the command ended with status {ended}"


def _unmap_times(hits: Iterable[ProbeHit]) -> dict[tuple[int, int], int]:
    """Return when the slot was cleared, by the CPU and the time of mapping; the writer holds a spinlock in between.

    If events in between were lost, that is of a later write: too late, and a bound all the same.
    """
    mapped: dict[int, int] = {}
    times: dict[tuple[int, int], int] = {}
    for hit in hits:
        if hit.name == "fixmap":
            mapped[hit.cpu] = hit.time
        elif hit.name == "unmap" and hit.cpu in mapped:
            times[hit.cpu, mapped.pop(hit.cpu)] = hit.time
    return times


def _functions(lines: list[str]) -> tuple[Function, ...]:
    """Parse lines of start, end, name and owner in brackets, ascending; a module's last function has no known end.

    Other lines are messages of a kernel that prints no time before them. If a message tore a line, its function has no
    name, and is not taken for a known writer.
    """
    functions = []
    for line in lines:
        named = _NAMED.match(line)
        if named is None:
            continue
        first = int(named["start"], 16)
        after = (first // PAGE + 1) * PAGE if named["end"] == "-" else int(named["end"], 16)
        functions.append(Function(start=first, end=after, name=named["name"], owner=named["owner"] or ""))
    return tuple(sorted(functions))
