"""The report of ``prologue live hooks``, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from prologue.live.hooks.by_function import EVERYWHERE, Called, CalledFunction, functions_of
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.listener import Listener
from prologue.report.findings import finding_data
from prologue.report.findings import finding_lines as lines_of_findings
from prologue.report.lines import table_lines
from prologue.rules.base import Finding
from prologue.words import counted, printable

SCHEMA: Final = "prologue.live-hooks/1"
_FEW: Final = 3  # functions of a listener that a line names
_LINES: Final = 40  # functions that the second table names


@dataclass(frozen=True, slots=True, kw_only=True)
class HookListing:
    """An inventory; ``not_known`` are its gaps, and what could not be decided."""

    inventory: Inventory
    findings: tuple[Finding, ...] = ()
    not_known: tuple[str, ...] = ()


def hooks_data(listing: HookListing) -> dict[str, Any]:
    """Return the report as documented in docs/json.md; addresses are run-time ones."""
    inventory = listing.inventory
    return {
        "schema": SCHEMA,
        "source": inventory.kernel.memory.name,
        "release": inventory.kernel.running_release,
        "struct_types": inventory.objects.source,
        "listeners": [_listener_data(inventory, listener) for listener in inventory.listeners],
        "functions": [_function_data(inventory, each) for each in _functions(inventory) if each.start != EVERYWHERE],
        "modules": [{"name": m.name, "state": m.state} for m in inventory.owners.modules],
        "findings": [finding_data(finding) for finding in listing.findings],
        "not_known": list(listing.not_known),
    }


def _listener_data(inventory: Inventory, listener: Listener) -> dict[str, Any]:
    owners = inventory.owners
    return {
        "kind": listener.kind,
        "name": listener.name,
        "address": hex(listener.at),
        "calls": [
            {"role": role, "address": hex(vaddr), "symbol": owners.name(vaddr), "owner": owners.of(vaddr)}
            for role, vaddr in listener.callbacks
        ],
        "functions": None if listener.functions is None else list(map(owners.name, listener.functions)),
        "excluded": listener.excluded,
        "points": [name for _, name in listener.points],
        "flags": list(listener.flags),
        "details": dict(listener.details),
        "ours": listener.ours,
    }


def _function_data(inventory: Inventory, function: CalledFunction) -> dict[str, Any]:
    numbers = {id(listener): k for k, listener in enumerate(inventory.listeners)}
    return {
        "function": inventory.owners.name(function.start),
        "address": hex(function.start),
        "called": [
            {"listener": numbers[id(called.listener)], "kind": called.listener.kind, "offset": called.offset}
            for called in function.called
        ],
    }


def _functions(inventory: Inventory) -> tuple[CalledFunction, ...]:
    places = {place for listener in inventory.listeners for place in listener.functions or ()}
    return functions_of(inventory.listeners, {place: inventory.owners.start_of(place) for place in places})


LISTENER_HEAD: Final = ("what", "name", "where", "calls")
FUNCTION_HEAD: Final = ("function", "what is called")


def hooks_text(listing: HookListing, *, show_all: bool) -> str:
    """Return two tables, by listener and by function, what is wrong, and facts that are not known."""
    inventory = listing.inventory
    lines = table_lines(listener_rows(inventory), (*LISTENER_HEAD, ""))
    functions = _functions(inventory)
    shown = functions if show_all else functions[:_LINES]
    if table := function_rows(inventory, shown):
        lines += ["", *table_lines(table, FUNCTION_HEAD)]
        if len(shown) < len(functions):
            lines.append(f"... and {counted(len(functions) - len(shown), 'more function')} (--all)")
    ending = [*finding_lines(listing), *unknown_lines(listing), printable(hooks_closing(listing))]
    return "\n".join([*map(printable, lines), *ending])


def finding_lines(listing: HookListing) -> list[str]:
    """Return lines for findings."""
    return lines_of_findings(list(listing.findings), show_all=True)


def unknown_lines(listing: HookListing) -> list[str]:
    """Return a line for each gap of the listing."""
    return [printable(f"not known: {fact}") for fact in listing.not_known]


def hooks_closing(listing: HookListing) -> str:
    """Return the last line: the source, counts, and what the structs were read by."""
    inventory = listing.inventory
    modules = counted(len(inventory.owners.modules), "module")
    counts = [counted(len(inventory.listeners), "listener")]
    counts += [counted(len(listing.findings), "finding")] if listing.findings else []
    return (
        f"{inventory.kernel.memory.name}: {', '.join(counts)} "
        f"({inventory.kernel.running_release}, {modules}; "
        f"structs by {inventory.objects.source})"
    )


def listener_rows(inventory: Inventory) -> list[tuple[str, ...]]:
    """Return a row for each listener, as ``LISTENER_HEAD`` and flags."""
    return [_row(inventory, listener) for listener in inventory.listeners]


def function_rows(inventory: Inventory, shown: tuple[CalledFunction, ...] | None = None) -> list[tuple[str, str]]:
    """Return a row for each listener of a function, of those that are ``shown``, or of all."""
    rows: list[tuple[str, str]] = []
    for function in _functions(inventory) if shown is None else shown:
        name = "every traced function" if function.start == EVERYWHERE else inventory.owners.name(function.start)
        rows += [("" if k else name, _called(inventory, called)) for k, called in enumerate(function.called)]
    return rows


def _row(inventory: Inventory, listener: Listener) -> tuple[str, ...]:
    owners, by_address = inventory.owners, listener.kind == "kretprobe" or listener.is_kprobe  # others: by function
    places = (place if by_address else owners.start_of(place) for place in (listener.functions or ())[:_FEW])
    names = [owners.name(place) for place in places]
    names += [name for _, name in listener.points]
    count = len(listener.functions or ()) + len(listener.points)
    where = ", ".join(names[:_FEW]) + (f" and {count - _FEW:,} more" if count > _FEW else "")
    if listener.functions is None:
        where = f"every traced function{f' except {listener.excluded:,}' if listener.excluded else ''}"
    calls = ", ".join(f"{role} {owners.name(vaddr)}" for role, vaddr in listener.callbacks)
    details = [*listener.flags, *(f"{key} {value}" for key, value in listener.details)]
    details += ["set by writes record"] if listener.ours else []
    return listener.kind, listener.name, where, calls, ", ".join(details)


def _called(inventory: Inventory, called: Called) -> str:
    listener, owners = called.listener, inventory.owners
    names = ", ".join(owners.name(vaddr) for _, vaddr in listener.callbacks)
    place = "on return: " if called.offset is None else ""
    if listener.is_kprobe and called.offset:
        place = f"+{called.offset:#x}: "
    return f"{place}{listener.kind} {' '.join(part for part in (listener.name, names) if part)}"
