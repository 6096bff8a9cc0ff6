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
    "arrays": 250,
    "cli": 2550,
    "companions": 300,
    "documents": 200,
    "dwarf": 2100,
    "elf": 2550,
    "errors": 300,
    "examples": 400,
    "flow": 1000,
    "gate": 1250,
    "insn": 1100,
    "installation": 250,
    "kernel": 3700,
    "kernel_tree": 1750,
    "library": 400,
    "live": 600,
    "live/audit": 3150,
    "live/cli": 1000,
    "live/hooks": 3650,
    "live/memory": 2450,
    "live/overlay": 700,
    "live/pages": 450,
    "live/pokes": 2250,
    "live/report": 1000,
    "live/structs": 950,
    "live/system": 2100,
    "live/tracefs": 300,
    "outputs": 450,
    "patching": 1450,
    "perf": 1600,
    "plan": 800,
    "probe": 4200,
    "probe/cli": 550,
    "probe/report": 450,
    "prologue": 60800,
    "prologue_bench": 14500,
    "protocol": 1800,
    "protocol/cli": 550,
    "releases": 250,
    "report": 2200,
    "rules": 3500,
    "signals": 250,
    "the tool": 21600,
    "trace": 600,
    "trace/cli": 1900,
    "trace/coresight": 1300,
    "trace/etm": 1100,
    "trace/exports": 800,
    "trace/path": 3050,
    "trace/readers": 3250,
    "trace/report": 500,
    "trace/views": 1750,
    "words": 200,
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
