"""Documents of traces, and of ways of patching."""

from __future__ import annotations

from typing import Annotated as Field
from typing import Literal, NotRequired, TypedDict

from tests.documents.build import Hex, Word

RanInsn = TypedDict("RanInsn", {"vaddr": Hex, "word": Word, "text": str})


class RanRange(TypedDict):
    """Every line after the first: instructions that ran one after the other."""

    time: Field[int, "ns; 0 if unknown"]
    cpu: int | None
    start: Hex
    end: Field[Hex, "after the last instruction"]
    level: NotRequired[int]
    vmid: NotRequired[int]
    pid: NotRequired[int]
    tid: NotRequired[int]
    comm: NotRequired[str]
    gap: NotRequired[Field[bool, "true: what ran before on this CPU is not known"]]
    image: NotRequired[str]
    symbol: NotRequired[str | None]
    offset: NotRequired[int]
    instructions: NotRequired[list[RanInsn]]


class TraceDisasm(TypedDict):
    """The first line of prologue trace disasm --format jsonl."""

    schema: Literal["prologue.trace-disasm/1"]
    trace: str
    kind: Field[str, "perf, opencsd, recording, coresight (decoded here)"]
    images: list[str]
    memory: Field[str | None, "--memory, which had the text; null where it is the file's"]
    range: NotRequired[Field[RanRange, "not in this line: the form of the others"]]


class UnknownRanges(TypedDict):
    """Ranges that were found in no image."""

    why: Field[str, "not a kernel's, of host or guest, of Secure, Realm or Root state, not in the image"]
    image: str | None
    ranges: int
    areas: Field[list[tuple[Hex, int]], "address of 64 KiB, and how many begin there"]


LeftOut = TypedDict("LeftOut", {"ranges": int, "instructions": int})
TraceBytes = TypedDict("TraceBytes", {"cpu": int | None, "bytes": int, "not_decoded": int})


class TraceSums(TypedDict):
    """What a trace has."""

    trace: str
    memory: str | None
    ranges: int
    instructions: int
    gaps: int
    unknown: list[UnknownRanges]
    processes: Field[dict[str, int], "ranges that are not a kernel's, by name of the process"]
    not_used: Field[dict[str, int], "by reason"]
    left_out: Field[LeftOut, "that did not run as the image has them, in no other number here"]
    steps_judged: int


class TracedFunction(TypedDict):
    """A function that ran; times with --times, of those that have one, without what it called."""

    name: str
    vaddr: Hex
    instructions: int
    entries: Field[int, "how often the first instruction was executed"]
    words_executed: int
    ns: NotRequired[int]
    first_ns: NotRequired[int]
    last_ns: NotRequired[int]
    cycles: NotRequired[int]


class TracedImage(TypedDict):
    """What ran of an image; of one without sites the last three are null."""

    image: str
    instructions: int
    text_words: int
    words_executed: int
    functions: list[TracedFunction]
    first_slots: Field[int | None, "patch sites"]
    first_slots_executed: Field[int | None, "sites that were executed at all"]
    prologues: Field[int | None, "how often"]


class TraceStats(TraceSums):
    """What prologue trace stats counts."""

    schema: Literal["prologue.trace-stats/1"]
    steps_impossible: int
    images: list[TracedImage]


class StaleWordRow(TypedDict):
    """A word of an image that cannot be what ran."""

    image: str
    vaddr: Hex
    symbol: str | None
    symbol_offset: int
    word: Word
    count: int
    went: Field[list[tuple[Hex | None, int]], "where execution went on (null: the next instruction), and how often"]
    mechanism: Field[str | None, "with --explain"]
    message: str


class ReportedRow(TypedDict):
    """A word of which the decoder itself reports that its image cannot be what ran."""

    image: str | None
    vaddr: Hex | None
    symbol: str | None
    symbol_offset: int
    word: Word | None
    fits: Field[bool, "the word here is what the report describes"]
    exact: Field[bool, "no later branch can be meant: two ranges do not join here"]
    after: Field[bool, "the report is about what ran after vaddr"]
    count: int
    report: Field[str, "the decoder's words"]
    message: str


class DivergentRow(TypedDict):
    """A word of the file that led its decoder to other instructions than those that ran."""

    vaddr: Hex
    symbol: str | None
    symbol_offset: int
    word: Field[Word, "the file's"]
    ran: Word
    count: Field[int, "how often it was the first after a synchronisation"]
    cpus: list[int]
    mechanism: str | None


DivergedCpu = TypedDict("DivergedCpu", {"cpu": int, "instructions": int, "missed": Field[int, "by the file"]})
Divergence = TypedDict("Divergence", {
    "words": list[DivergentRow], "elsewhere": Field[int, "first ones at no word that differs"],
    "not_compared": Field[int, "recordings that were not decoded to the end"], "cpus": list[DivergedCpu],
})  # fmt: skip


class TraceCheckDocument(TraceSums):
    """What prologue trace check found."""

    schema: Literal["prologue.trace-check/1"]
    images: list[str]
    bytes: Field[list[TraceBytes], "of trace; empty for input that does not show them"]
    steps_not_judged: Field[dict[str, int], "by reason"]
    stale: list[StaleWordRow]
    follow: Field[list[StaleWordRow], "whose impossible steps came after another one of their CPU, before its next gap"]
    decoder: Field[list[StaleWordRow], "branches that the decoder did not know"]
    reported: list[ReportedRow]
    divergence: Field[Divergence | None, "of perf.data with memory"]


RecordedCpu = TypedDict("RecordedCpu", {"cpu": int, "instructions": int, "ranges": int})


class TraceRecord(TypedDict):
    """What prologue trace record wrote."""

    schema: Literal["prologue.trace-record/1"]
    output: str
    instructions: int
    ranges: int
    slide: Field[Hex | None, "null if the kernel never ran where it moves to"]
    ended_by: Field[str, "count; calls; end: the command or --until; machine: it powered off"]
    cpus: list[RecordedCpu]


EtmCpu = TypedDict("EtmCpu", {
    "cpu": int, "source": Field[str | None, "the buffer's name; null with --perf"], "bytes": int, "ranges": int,
    "instructions": int, "filtered": Field[int, "instructions of levels that are not traced"],
    "unknown": Field[int, "instructions without text, left out"],
})  # fmt: skip


class TraceEtm(TypedDict):
    """What prologue trace etm wrote."""

    schema: Literal["prologue.trace-etm/1"]
    output: str
    cpus: list[EtmCpu]


class Transition(TypedDict):
    """What prologue transition says."""

    schema: Literal["prologue.transition/1"]
    old: Field[str, "instruction class, or the word in hex"]
    new: str
    allowed: bool
    reason: str
    issue: str
    citation: str


ProtocolVariant = TypedDict("ProtocolVariant", {
    "name": str, "says": str, "expected": Field[str, "safe, unpredictable, lr-lost, untraced, decoded-wrong, dies"],
})  # fmt: skip
ListedProtocol = TypedDict("ListedProtocol", {
    "name": str, "title": str, "variants": Field[list[ProtocolVariant], "the first is the protocol as proposed"],
})  # fmt: skip


class Protocols(TypedDict):
    """What prologue protocol list prints."""

    schema: Literal["prologue.protocols/1"]
    protocols: list[ListedProtocol]


Bounds = TypedDict("Bounds", {
    "cpus": int, "tasks": list[str], "preempt": bool,
    "off_list_changes": Literal["unpredictable", "old or new"], "promises": list[str],
})  # fmt: skip
ModelEvent = TypedDict("ModelEvent", {
    "cpu": int, "task": Field[str | None, "null: the machine itself"], "text": str, "step": str | None,
})  # fmt: skip
Barrier = TypedDict("Barrier", {
    "name": str, "needed": bool, "reason": Field[str | None, "what happens without it"],
    "spare": Field[str | None, "why it is not needed"],
})  # fmt: skip


class ProtocolResult(TypedDict):
    """A variant that was checked."""

    protocol: str
    variant: str
    safe: bool
    reason: Field[str | None, "null if safe"]
    why: str | None
    expected: str
    states: Field[int, "of the search"]
    depth: int
    bounds: Bounds
    events: Field[list[ModelEvent], "the counterexample"]
    barriers: Field[list[Barrier], "with --barriers"]


class ProtocolCheck(TypedDict):
    """What prologue protocol check found."""

    schema: Literal["prologue.protocol-check/1"]
    results: list[ProtocolResult]
