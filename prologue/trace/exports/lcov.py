"""Line coverage as lcov's tracefile (geninfo(1)), for genhtml: source lines and functions, and how often each ran.

The file has the units (C files with what they include) of which something ran; their other lines and functions have
count 0. A line's count is that of its instruction that ran most often, a function's that of its first instruction; a
header's function has a copy in each unit, and the sum of them.
"""

from __future__ import annotations

from collections import defaultdict
from os.path import normpath
from typing import BinaryIO

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.live.memory.ranges import TOP
from prologue.trace.exports.formats import ExportSubject
from prologue.trace.exports.profile import linked_addresses
from prologue.trace.ranges import Batch, count_instructions
from prologue.trace.readers.intern import RunCounts
from prologue.trace.views.source_lines import LineTables, UnitLines
from prologue.trace.views.stats import Executed, executed
from prologue.words import counted


class LcovExport:
    """Counts distinct ranges, and makes lines of them at the end."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        self._known, self._stream = subject.known, stream
        self._program = subject.known.kernels.host
        self._runs, self._instructions = RunCounts(), 0
        self._lines: defaultdict[str, dict[int, int]] = defaultdict(dict)
        # Of each file and name, line and count by address.
        self._functions: defaultdict[str, dict[str, dict[int, tuple[int, int]]]] = defaultdict(dict)

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """See ``Export``."""
        self._runs.add(numbers[keep])
        self._instructions += int(count_instructions(batch.ranges[keep]).sum())

    def finish(self) -> list[str]:
        """See ``Export``.

        Raises:
            InputError: the vmlinux has no line tables, or damaged ones.

        """
        done = executed(self._known, self._runs.up_to(len(self._known.table)), 0)
        # By addresses of the kernel's file, some of which may be mapped twice.
        places, in_file = linked_addresses(self._program, done.vaddrs, done.vaddrs + np.uint64(4))
        done = Executed.summed(places[in_file], done.counts[in_file])
        has_line = np.zeros(len(done.vaddrs), np.bool_)
        for unit, start, stop in LineTables(self._program.kernel).units_of(done.vaddrs):
            has_line |= self._take_lines(unit, start, stop, done)
            self._take_functions(unit, start, stop, done)
        for file in sorted(self._lines):
            self._write(file)
        name, lineless = self._program.name, int(done.counts[~has_line].sum())
        left_out = {
            f"not of {name}": self._instructions - int(done.counts.sum()),
            f"without a line in {name}": lineless,
        }
        return [f"{counted(count, 'instruction')} {why} left out" for why, count in left_out.items() if count]

    def _take_lines(self, unit: UnitLines, start: int, stop: int, done: Executed) -> Bool:
        """Take the lines of a unit's span; return which instructions are of one of them."""
        begins, ends = unit.addresses, np.append(unit.addresses[1:], unit.addresses[-1:])
        taken = (unit.lines > 0) & (begins < ends) & (begins >= np.uint64(start)) & (begins < np.uint64(stop))
        most = _most(done, begins[taken], ends[taken])
        for file, line, count in zip(unit.file[taken].tolist(), unit.lines[taken].tolist(), most.tolist(), strict=True):
            lines = self._lines[normpath(unit.files[file])]
            lines[line] = max(lines.get(line, 0), count)
        bounds = np.searchsorted(done.vaddrs, np.stack([begins[taken], ends[taken]]))
        depth = np.zeros(len(done.vaddrs) + 1, np.int64)
        np.add.at(depth, bounds[0], 1)
        np.add.at(depth, bounds[1], -1)
        has_line: Bool = np.cumsum(depth[:-1]) > 0
        return has_line

    def _take_functions(self, unit: UnitLines, start: int, stop: int, done: Executed) -> None:
        slide = self._program.kernel.slide
        places = np.array(self._program.starts_within(start + slide & TOP, stop + slide & TOP), np.uint64)
        linked = places - np.uint64(slide & TOP)
        # Of several rows for its first instruction, the first is of the function's own line; what ends there has none.
        known = np.flatnonzero(unit.lines > 0)
        rows = np.append(known, -1)[np.searchsorted(unit.addresses[known], linked)]
        exact = (rows >= 0) & (unit.addresses[rows] == linked)
        for place, row, count in zip(places[exact].tolist(), rows[exact], done.at(linked)[exact].tolist(), strict=True):
            file = normpath(unit.files[int(unit.file[row])])
            copies = self._functions[file].setdefault(self._program.name_at(place), {})
            copies[place] = int(unit.lines[row]), count

    def _write(self, file: str) -> None:
        lines, copies = self._lines[file], {name: places.values() for name, places in self._functions[file].items()}
        functions = {name: sum(count for _, count in executed) for name, executed in copies.items()}
        records = ["TN:", f"SF:{file}"]
        records += [f"FN:{min(line for line, _ in starts)},{name}" for name, starts in copies.items()]
        records += [f"FNDA:{count},{name}" for name, count in functions.items()]
        records += [f"FNF:{len(functions)}", f"FNH:{sum(count > 0 for count in functions.values())}"]
        records += [f"DA:{line},{count}" for line, count in sorted(lines.items())]
        records += [f"LF:{len(lines)}", f"LH:{sum(count > 0 for count in lines.values())}", "end_of_record"]
        self._stream.write("".join(f"{record}\n" for record in records).encode("utf-8", "surrogateescape"))


def _most(done: Executed, begins: U64, ends: U64) -> I64:
    """Count how often the most frequent instruction of each span was executed."""
    low, high = np.searchsorted(done.vaddrs, begins), np.searchsorted(done.vaddrs, ends)
    most = np.zeros(len(begins), np.int64)
    nonempty = np.flatnonzero(low < high)
    bounds = np.stack([low[nonempty], high[nonempty]], axis=1).reshape(-1)
    counts = np.append(done.counts, 0)  # reduceat takes no index past the end
    most[nonempty] = np.maximum.reduceat(counts, bounds)[::2] if len(nonempty) else 0
    return most
