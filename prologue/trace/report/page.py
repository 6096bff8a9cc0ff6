"""Statistics and checks of traces as pages, made from their JSON documents (docs/json.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from prologue.gate.identity import verification_date
from prologue.insn.disasm import insn_text
from prologue.report.html.page import Badge, BulletList, Cause, Causes, FindingPlace, Flames, Page, PagePart, Table
from prologue.trace.report.flames import place_bars
from prologue.words import counted

Document = Mapping[str, Any]
_FUNCTIONS: Final = 2000  # of each image
_MANY: Final = 50  # functions from which on their table is folded
_PLACES: Final = 1000
_SHOWN: Final = 4  # images that the head of a page names
_USES: Final = {"us": "ns", "first s": "first_ns", "last s": "last_ns", "cycles": "cycles"}
"""Columns of ``--times``, and the member of JSON that each shows."""


def stats_page(document: Document, notes: Sequence[str], stacks: Iterable[str], command: Sequence[str]) -> Page:
    """Make the page of ``prologue.trace-stats/1``; ``stacks`` are folded ones, a line each."""
    images = document["images"]
    head = ("image", "instructions", "functions", "words executed", "words of text", "prologues", "functions with one")
    rows = [
        (image["image"], *map(_number, (image["instructions"], len(image["functions"]), image["words_executed"],
         image["text_words"], image["prologues"], image["first_slots"])))
        for image in images
    ]  # fmt: skip
    parts: list[PagePart] = [Table(title="What ran", head=head, rows=rows, numbers=range(1, 7))]
    bars, total = place_bars(stacks)
    if bars:
        parts.append(Flames(title="Instructions by call stack", bars=bars, total=total))
    parts += [_functions(image, folded=len(image["functions"]) > _MANY) for image in images if image["functions"]]
    parts.append(BulletList(title="What was read, and what was not", lines=notes))
    return Page(
        title="prologue trace stats",
        subject=document["trace"],
        facts=_facts(document),
        date=verification_date(),
        outcome="",
        summary=", ".join(counted(document[f"{noun}s"], noun) for noun in ("instruction", "range", "gap")),
        parts=parts,
        command=command,
    )


def check_page(
    document: Document, outcome: Badge, verdict: Sequence[str], notes: Sequence[str], command: Sequence[str]
) -> Page:
    """Make the page of ``prologue.trace-check/1``; ``verdict`` are the last lines of the text report."""
    causes = [
        *_causes("image stale: words that cannot be what ran", document["stale"], "error"),
        *_causes("decoder astray: branches that it did not know", document["decoder"], "error"),
        *_causes("reported by the decoder", document["reported"], "error"),
        *_causes("impossible steps after the first one of a CPU", document["follow"], "info"),
    ]
    if document["divergence"]:
        causes += _causes("where the file leads a decoder away", document["divergence"]["words"], "warn")
    return Page(
        title="prologue trace check",
        subject=document["trace"],
        facts=_facts(document),
        date=verification_date(),
        outcome=outcome,
        summary="; ".join(verdict) or "no step could be judged",
        parts=[
            Causes(title="Findings by kind", causes=causes),
            BulletList(title="What was read, checked and not checked", lines=notes),
            BulletList(title="Images", lines=document["images"]),
        ],
        command=command,
    )


def _facts(document: Document) -> list[tuple[str, str]]:
    images = [image if isinstance(image, str) else image["image"] for image in document["images"]]
    memory = [("memory", document["memory"])] if document["memory"] else []
    return [("trace", document["trace"]), *(("image", image) for image in images[:_SHOWN]), *memory]


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _functions(image: Document, *, folded: bool) -> Table:
    whole = image["instructions"] or 1
    functions = image["functions"]
    columns = tuple(column for column, member in _USES.items() if any(member in use for use in functions))
    rows = [
        (use["name"], use["vaddr"], f"{use['instructions']:,}", f"{100 * use['instructions'] / whole:.2f}",
         f"{use['entries']:,}", f"{use['words_executed']:,}", *(_use(use, column) for column in columns))
        for use in functions[:_FUNCTIONS]
    ]  # fmt: skip
    left = len(functions) - len(rows)
    return Table(
        title=f"Functions of {image['image']}",
        head=("function", "address", "instructions", "%", "entries", "words executed", *columns),
        rows=rows,
        numbers=range(2, 6 + len(columns)),
        folded=folded,
        note=f"{left:,} more, which --json has." if left else "",
    )


def _use(use: Document, column: str) -> str:
    """Return the time or the cycles of a function; empty before the first timestamp of its CPU."""
    value = use.get(_USES[column])
    if value is None:
        return ""
    if column == "us":
        return f"{value / 1000:,.3f}"
    return f"{value:,}" if column == "cycles" else f"{value // 10**9}.{value % 10**9:09}"


def _causes(title: str, words: Sequence[Document], severity: str) -> list[Cause]:
    if not words:
        return []
    places = [_place(word) for word in words[:_PLACES]]
    return [
        Cause(title=title, severity=severity, count=f"{len(words):,}", places=places, left_out=len(words) - len(places))
    ]


def _place(word: Document) -> FindingPlace:
    vaddr = word["vaddr"]
    name = f"{word['symbol']}+{word['symbol_offset']:#x} ({vaddr})" if word["symbol"] else vaddr or "place not known"
    mechanism = word.get("mechanism")
    message = word.get("message") or "the file has another word than the one that ran"
    return FindingPlace(
        file=word.get("image") or "",
        where=name,
        message=f"{message}; {mechanism}" if mechanism else message,
        found=_disassembled(word["word"], vaddr),
        expected=_disassembled(word.get("ran"), vaddr),
    )


def _disassembled(word: str | None, vaddr: str | None) -> list[str]:
    return [f"{word}  {insn_text(int(word, 16), int(vaddr or '0', 16))}"] if word else []
