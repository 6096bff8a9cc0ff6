"""``prologue probe --list`` and ``--vars``, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from prologue.probe.listing import Listing
from prologue.probe.probe_target import ProbeTarget
from prologue.probe.prober import Probe
from prologue.report.printable import printable

SCHEMA: Final = "prologue.probe-lines/1"


def lines_data(target: ProbeTarget, listings: Sequence[Listing]) -> dict[str, Any]:
    """Return one of ``files``, as documented in docs/json.md."""
    return {
        "file": str(target.path),
        "listings": [
            {
                "name": listing.name,
                "source": listing.file,
                "first": listing.first,
                "lines": [
                    {
                        "line": line.number,
                        "text": line.text or None,
                        "places": [
                            {"place": target.place_text(vaddr), "answer": answer} for vaddr, answer in line.places
                        ],
                    }
                    for line in listing.lines
                ],
            }
            for listing in listings
        ],
    }


def lines_text(target: ProbeTarget, listings: Sequence[Listing]) -> Iterator[str]:
    """Yield a heading for each function or unit, then its source lines, each with its instructions below."""
    for listing in listings:
        yield f"<{printable(listing.name)}@{printable(listing.file)}:{listing.first}>"
        for line in listing.lines:
            text = printable(line.text.expandtabs(8))
            yield f"{line.number:>7}  {text}".rstrip()
            for vaddr, answer in line.places:
                yield f"{'':>9}{target.place_text(vaddr)}: {answer}"


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
