"""The report of ``prologue probe``, as data, as text, and as lines for the kernel; its lists of lines and variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from prologue.errors import Location, UsageError
from prologue.kernel.kernel import Kernel
from prologue.probe.arguments import Omitted
from prologue.probe.event import ProbeEvent
from prologue.probe.event_script import event_script
from prologue.probe.instructions import rules_of
from prologue.probe.prober import Failure, Probe
from prologue.probe.verdict import ProbeVerdict
from prologue.words import printable

SCHEMA: Final = "prologue.probe/1"
DEFAULT_GROUP: Final = "prologue"  # of the events of a script


def probe_data(kernel: Kernel, probes: Sequence[Probe], failures: Sequence[Failure]) -> dict[str, Any]:
    """Return the report as documented in docs/json.md."""
    major, minor = rules_of(kernel)
    return {
        "schema": SCHEMA,
        "file": str(kernel.path),
        "release": kernel.release,
        "rules": f"{major}.{minor}",
        "places": [_data(probe) for probe in probes],
        "errors": [{"asked": failure.asked, "error": failure.error.message} for failure in failures],
    }


def _data(probe: Probe) -> dict[str, Any]:
    verdict, event = probe.verdict, probe.event
    place, nearest = verdict.place, verdict.nearest
    return {
        "asked": place.asked,
        "ambiguous": place.ambiguous,
        **_where(place.vaddr, verdict.where, is_module=bool(probe.target.module)),
        "module": probe.target.module or None,
        "returns": place.returns,
        "inlined": {"function": place.function, "in": place.inlined_in} if place.inlined_in else None,
        "word": f"{verdict.word:08x}",
        "answer": verdict.answer,
        "how": verdict.how or None,
        "reasons": [{"reason": name, "text": text} for name, text in verdict.reasons],
        "modules_may": verdict.modules_may,
        "notes": list(verdict.notes),
        "nearest": None if nearest is None else _where(*nearest, is_module=bool(probe.target.module)),
        "event": event.line if event else None,
        "same_as": probe.same_as or None,
        **_event_data(event),
    }


def _event_data(event: ProbeEvent | None) -> dict[str, Any]:
    if event is None:
        return {"name": None, "arguments": [], "omitted": []}
    return {
        "name": event.full_name,
        "arguments": [
            {"name": a.name, "fetch": a.fetch, "type": a.type or None, "c_type": a.c_type or None, "asked": a.asked}
            for a in event.arguments
        ],
        "omitted": [{"asked": each.asked, "reason": each.reason, "partial": each.is_partial} for each in event.omitted],
    }


def _where(vaddr: int, where: Location, *, is_module: bool) -> dict[str, Any]:
    """Return a place; a module has no addresses before it is loaded."""
    address = None if is_module else f"{vaddr:#x}"
    return {"address": address, "symbol": where.symbol, "offset": where.symbol_offset}


def probe_text(probe: Probe) -> str:
    """Return the verdict on a place in a few lines, the answer in the first."""
    verdict = probe.verdict
    insn = probe.target.binary.insn_text(verdict.word, verdict.place.vaddr)
    lines = [f"{verdict.where}: {summary(verdict)}", f"    {verdict.word:08x}  {insn}"]
    if verdict.place.ambiguous:
        lines.append(f"    {verdict.place.asked} names several places, of which this is one")
    if verdict.place.inlined_in:
        lines.append(f"    {verdict.place.function} is inlined here")
    lines += [f"    {note}" for note in verdict.notes]
    if verdict.modules_may:
        lines.append(f"    register_kprobe() of a module may: {verdict.how}")
    return "\n".join(lines)


def event_lines(probes: Sequence[Probe], failures: Sequence[Failure]) -> Iterator[str]:
    """Yield lines that the kernel takes in one go: all others than events are comments, which it skips."""
    for probe in probes:
        verdict = probe.verdict
        if verdict.answer != "yes":
            yield f"# {printable(f'{verdict.where}: {summary(verdict)}')}"
        if probe.same_as:
            yield f"# {printable(verdict.place.asked)}: the same as {probe.same_as}"
        if probe.event is not None:
            yield from (f"# {printable(omitted_text(probe.event, each))}" for each in probe.event.omitted)
            yield probe.event.line
    yield from (f"# {printable(f'{failure.asked}: {failure.error.message}')}" for failure in failures)


def script(kernel: Kernel, probes: Sequence[Probe], failures: Sequence[Failure]) -> str:
    """Make a shell script that sets the events on a machine without Python, and takes them off; they have one group.

    Raises:
        UsageError: they are in several groups.

    """
    events = [probe.event for probe in probes if probe.event is not None]
    groups = sorted({event.group for event in events})
    if len(groups) > 1:
        raise UsageError(f"a script has one group, and takes off no other: {', '.join(groups)}")
    group = groups[0] if groups else DEFAULT_GROUP
    control = "dynamic_events" if any(event.kind == "f" for event in events) else "kprobe_events"
    comments = [line for line in event_lines(probes, failures) if line.startswith("#")]
    text = event_script(kernel, group, control, [e.name for e in events], [e.line for e in events])
    return "\n".join(["#!/bin/sh", *comments, text])


def omitted_text(event: ProbeEvent, omitted: Omitted) -> str:
    """Say which argument an event lacks, or has in a lesser form, and why."""
    return f"{event.name}: {omitted.asked}{'' if omitted.is_partial else ' left out'}: {omitted.reason}"


def summary(verdict: ProbeVerdict) -> str:
    """Return the answer, the reasons, and the nearest place that can."""
    if verdict.answer == "yes":
        return f"yes, {verdict.how}"
    why = "; ".join(text for _, text in verdict.reasons) or "what alternatives boot applies decides"
    if verdict.answer == "depends" and verdict.how:
        why += f" ({verdict.how} if it can)"
    if verdict.nearest is None:
        return f"{verdict.answer}: {why}; nowhere in this symbol"
    where = verdict.nearest[1]
    return f"{verdict.answer}: {why}; nearest: {where.symbol}+{where.symbol_offset:#x}"


def lines_text(listings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a heading for each function or unit, then its source lines, each with its instructions below."""
    for listing in listings:
        yield f"<{printable(listing['name'])}@{printable(listing['source'])}:{listing['first']}>"
        for line in listing["lines"]:
            text = printable((line["text"] or "").expandtabs(8))
            yield f"{line['line']:>7}  {text}".rstrip()
            yield from (f"{'':>9}{each['place']}: {each['answer']}" for each in line["places"])


def variables_text(probes: Sequence[Probe]) -> Iterator[str]:
    """Yield the variables at each place, with C types and fetch arguments; then those that cannot be had."""
    for probe in probes:
        yield f"{printable(str(probe.verdict.where))}: {probe.verdict.answer}"
        if probe.event is None:
            continue
        for argument in probe.event.arguments:
            kind = f":{argument.type}" if argument.type else ""
            yield f"    {printable(argument.c_type)} {argument.name}  {argument.fetch}{kind}"
        for omitted in probe.event.omitted:
            yield f"    {printable(omitted.asked)}: {omitted.reason}"
