"""Each room has a budget of lines, and a commit that raises it says why.

``python -m tests.test_budgets`` prints the table for what is there now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import prologue
import prologue_bench
from tests.test_imports import COMPANION_ROOMS, TOOL, first_level, modules

STEP: Final = 50  # sizes are rounded up to this
BUDGETS: Final = {
    "arrays": 100,
    "cli": 2250,
    "companions": 150,
    "documents": 50,
    "dwarf": 1900,
    "elf": 2300,
    "errors": 150,
    "examples": 250,
    "flow": 850,
    "gate": 1050,
    "insn": 900,
    "installation": 100,
    "kernel": 3350,
    "kernel_tree": 1600,
    "library": 250,
    "live": 450,
    "live/audit": 2850,
    "live/cli": 850,
    "live/hooks": 3050,
    "live/memory": 2100,
    "live/overlay": 450,
    "live/pages": 150,
    "live/pokes": 1900,
    "live/report": 750,
    "live/structs": 700,
    "live/system": 1900,
    "live/tracefs": 150,
    "outputs": 300,
    "patching": 1300,
    "perf": 1400,
    "plan": 650,
    "probe": 3900,
    "probe/cli": 400,
    "probe/report": 250,
    "prologue": 55850,
    "prologue_bench": 14050,
    "protocol": 1150,
    "protocol/cli": 350,
    "releases": 100,
    "report": 1750,
    "rules": 3250,
    "signals": 100,
    "the tool": 20300,
    "trace": 450,
    "trace/cli": 1550,
    "trace/coresight": 1150,
    "trace/etm": 900,
    "trace/exports": 600,
    "trace/path": 2800,
    "trace/readers": 2300,
    "trace/report": 300,
    "trace/views": 1500,
    "words": 50,
}


def room_of(parts: Sequence[str]) -> str:
    """Rooms of companions are named by both levels; modules at the top of one are that companion's."""
    of_companion = parts[0] in COMPANION_ROOMS and len(parts) > 2
    return "/".join(parts[:2]) if of_companion else parts[0]


def sizes() -> Counter[str]:
    """Lines of Python in each room; of the tool as a whole, and of the bench."""
    counted: Counter[str] = Counter()
    for path, room in modules(prologue.__file__, room_of):
        lines = len(path.read_text().splitlines())
        counted[room] += lines
        counted["the tool"] += lines if room in TOOL else 0
        counted["prologue"] += lines
    for path, _ in modules(prologue_bench.__file__, first_level):
        counted["prologue_bench"] += len(path.read_text().splitlines())
    return counted


def test_no_room_is_larger_than_its_budget() -> None:
    now = sizes()
    assert now.keys() == BUDGETS.keys()
    assert {room: lines for room, lines in now.items() if lines > BUDGETS[room]} == {}


def test_no_budget_is_far_from_what_it_is_for() -> None:
    """A room that got smaller gives back its lines."""
    now = sizes()
    assert {room: budget for room, budget in BUDGETS.items() if budget - now[room] > max(4 * STEP, budget // 20)} == {}


def main() -> None:
    """Print the table."""
    for room, lines in sorted(sizes().items()):
        print(f'    "{room}": {-(-lines // STEP) * STEP},')


if __name__ == "__main__":
    main()
