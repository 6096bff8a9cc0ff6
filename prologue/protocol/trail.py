"""A counterexample as a table: what each CPU executes, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from prologue.protocol.form import Model
from prologue.protocol.layout import WORDS, Numbering
from prologue.protocol.spin import Exploration
from prologue.report.lines import table_lines

_WHY: Final = {
    "unpredictable": "{place} was changed to or from a word that is not on the CMODX list, and this CPU may hold "
    "either; it does what is CONSTRAINED UNPREDICTABLE",
    "lr-lost": "RET does not return to the caller: BL overwrote X30, and X9 does not hold what was in it",
    "untraced": "this call began after tracing was on for all, and was not traced",
    "decoded-wrong": "the trace decoder takes {place} for another word than the one that was executed",
    "dies": "the kernel dies: {text}",
    "reached": "the final state is reached",
}


@dataclass(frozen=True, slots=True)
class TrailStep:
    """A row: what happened on which CPU; ``task`` is empty for the machine, ``step`` is the kernel's step, if any."""

    cpu: int
    task: str
    text: str
    step: str = ""


def events_of(model: Model, outcome: Exploration) -> tuple[TrailStep, ...]:
    """Read the lines that the model printed when spin replayed its trail."""
    layout = Numbering(model)
    events = []
    for line in outcome.trail:
        kind, *numbers = line.split()
        if kind != "!":
            events.append(_event(layout, kind, [int(number) for number in numbers]))
    return tuple(events)


def why(model: Model, outcome: Exploration) -> str:
    """Say in a sentence what is wrong at the end of the trail; empty if nothing is."""
    if not outcome.reason:
        return ""
    steps = [line.split() for line in outcome.trail if line.startswith("@")]
    if not steps:  # a final state that is there from the start
        return _WHY[outcome.reason]
    layout = Numbering(model)
    address = int(steps[-1][3])
    operands = layout.lines[address].operation.operands
    return _WHY[outcome.reason].format(place=_name(layout, address), text=operands[0].strip('"') if operands else "")


def _event(layout: Numbering, kind: str, numbers: list[int]) -> TrailStep:
    if kind == "m":
        cpu, variable = numbers
        return TrailStep(cpu, "", f"(its store to {layout.variables[variable]} becomes visible)")
    task = layout.model.tasks[numbers[0]].name
    if kind == "p":
        return TrailStep(numbers[1], task, "(preempted)")
    if kind == "r":
        return TrailStep(numbers[1], task, "(runs here)")
    _, cpu, address, word = numbers
    line = layout.lines[address]
    text = layout.words[word - WORDS] if address in layout.sites else str(line.operation)
    place = _name(layout, address)
    return TrailStep(cpu, task, f"{place}: {text}" if place else text, line.step)


def _name(layout: Numbering, address: int) -> str:
    """Return the last label of an address: the one that stands next to the instruction."""
    return layout.lines[address].labels[-1] if layout.lines[address].labels else ""


def table(model: Model, events: tuple[TrailStep, ...]) -> str:
    """Lay events out, a column for each CPU and one for the kernel's steps."""
    cpus = range(model.cpus)
    moving = {task.name for task in model.tasks if task.place is None}
    several = len(moving) > 1
    rows = []
    last_step = ""
    for number, event in enumerate(events, 1):
        named = f"{event.task}: {event.text}" if several and event.task in moving else event.text
        step = event.step if event.step != last_step else ""
        last_step = event.step or last_step
        rows.append([str(number), *(named if cpu == event.cpu else "" for cpu in cpus), step])
    owners = {task.place: f" ({task.name})" for task in reversed(model.tasks)}
    heads = ["", *(f"CPU {cpu}{owners.get(cpu, '')}" for cpu in cpus), "step of the kernel"]
    if not any(row[-1] for row in rows):
        rows, heads = [row[:-1] for row in rows], heads[:-1]
    return "\n".join(table_lines(rows, heads))
