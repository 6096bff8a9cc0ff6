"""Documents of a kernel that runs: capture, overlay, audit, hooks, recorded writes, and probes."""

from __future__ import annotations

from typing import Annotated as Field
from typing import Any, Literal, NotRequired, TypedDict

from tests.documents.build import Hex, Word
from tests.documents.gate import Counts, FoundAt


class LiveCapture(TypedDict):
    """What prologue live capture wrote."""

    schema: Literal["prologue.live-capture/1"]
    source: str
    output: str
    release: str
    build_id: str
    slide: Field[Hex | None, "of KASLR; null without VMCOREINFO"]
    memory: Field[int, "bytes"]
    file_size: int
    modules: int
    unstable: Field[list[Hex], "words of text that still changed after several readings"]
    structures: Field[bool, "all is there that an audit follows in the heap"]
    hooks: Field[bool, "what is attached was followed, too"]
    struct_offsets: Field[str, "where offsets of structs come from"]


class CapturedModule(TypedDict):
    """A loaded module."""

    name: str
    size: int
    base: Hex
    sections: Field[dict[str, Hex], "address by name"]


class Capture(TypedDict):
    """The note PROLOGUE (type 1) in a capture."""

    schema: Literal["prologue.capture/1"]
    source: str
    release: str
    boot_id: str
    unstable: list[Hex]
    settled: Field[bool, "data and text are of one moment"]
    modules: list[CapturedModule]
    symbols: Field[
        list[tuple[Hex, str, str]],
        "address, name, owner: of modules, bpf, __builtin__ftrace, __builtin__kprobes; where image and lists begin",
    ]
    kprobes: Field[list[str], "lines of debugfs"]


class OverlaidSection(TypedDict):
    """Text of a section; without a vmlinux without changed, kept and missing, and unstable is a number."""

    name: str
    vaddr: Field[Hex, "at run time"]
    words: int
    changed: NotRequired[Field[int, "words that differ from the file; not those that the loader relocates"]]
    kept: NotRequired[Field[int, "words that are not in memory and stay as in the file"]]
    missing: NotRequired[Field[int, "of these, words in text that the kernel does not give away"]]
    zeros: Field[int, "words in pages of zeros, which memory has and the file has not"]
    unstable: list[Hex] | int


OverlaidModule = TypedDict("OverlaidModule", {"name": str, "output": str, "sections": list[OverlaidSection]})


class LiveOverlay(TypedDict):
    """What prologue live overlay wrote."""

    schema: Literal["prologue.live-overlay/1"]
    source: str
    output: str
    release: str | None
    build_id: str
    slide: NotRequired[Field[Hex, "absent with --without-vmlinux"]]
    at: Field[Literal["link", "runtime"], "the output's addresses"]
    sections: list[OverlaidSection]
    modules: NotRequired[Field[list[OverlaidModule], "with --modules"]]
    missing: NotRequired[
        Field[
            list[str] | dict[str, int],
            "with --modules: loaded ones without a file; without a vmlinux: words that memory lacks, by name",
        ]
    ]
    failed: NotRequired[Field[int, "with --modules: how many could not be written"]]
    symbols: NotRequired[Field[int, "with --without-vmlinux: how many"]]
    unlisted: NotRequired[Field[str | None, "with --without-vmlinux: why modules and BPF are left out"]]


Agreement = TypedDict("Agreement", {"name": str, "value": Hex, "places": int})


class MechanismCount(TypedDict):
    """Numbers of words of one mechanism."""

    mechanism: str
    words: int
    changed: int
    wrong: int
    unsure: int
    restless: int
    unknown: int
    agreed: int


class AuditedText(TypedDict):
    """A kernel or a module whose text was audited."""

    file: str
    memory: str
    name: Field[str, "kernel, or a module's"]
    words: Field[int, "of text that was looked at"]
    mechanisms: list[MechanismCount]
    agreements: Field[list[Agreement], "constants of which several places agree"]
    notes: Field[list[str], "about a mechanism: nothing was traced since boot"]


class AuditFinding(FoundAt):
    """A finding at a link-time address; found is the live word, expected the one that should stand there."""

    memory: Field[str, "the source that the word was found in"]


class UnknownWords(TypedDict):
    """Words of which it is not known whether they fit."""

    file: str
    memory: str
    mechanism: Field[str | None, "null if none owns it"]
    vaddr: Hex | None
    symbol: str | None
    symbol_offset: int
    words: int
    message: str
    found: list[Hex]
    expected: list[Hex]


class AuditTransition(TypedDict):
    """Words that changed between two looks."""

    mechanism: str
    old: Field[str, "instruction class, or data"]
    new: str
    words: int
    verdict: str
    allowed: bool


class Undecided(TypedDict):
    """Words that were not decided, in both sources if there are two."""

    restless: int
    lacking: Field[int, "right in form, and nothing that was read decides; or memory does not have the word"]
    unknown: int
    hooks: Field[int, "suspects among what is attached, on a release that was not compared, or while it was changed"]
    lists: Field[int, "lists and checks of what is attached of which memory does not say what it should"]


class LiveAudit(TypedDict):
    """What prologue live audit found."""

    schema: Literal["prologue.live-audit/1"]
    passed: Field[bool, "the exit code is 0"]
    summary: Field[str, "the last line of the text"]
    source: str
    release: str | None
    slide: Field[Hex | None, "null if the memory is another kernel's"]
    counts: Counts
    struct_offsets: Field[str | None, "where offsets of structs come from; null if the memory is another kernel's"]
    undecided: Undecided
    before: Field[str | None, "the first of two sources"]
    transitions: Field[list[AuditTransition], "what changed since before"]
    files: list[AuditedText]
    not_looked_at: list[str]
    errors: Field[list[str], "modules that could not be audited"]
    findings: list[AuditFinding]
    unknown: list[UnknownWords]


class HookCall(TypedDict):
    """Code that a listener has the kernel call."""

    role: str
    address: Hex
    symbol: str
    owner: Field[str | None, "kernel, module NAME, BPF, kprobes; null without an owner"]


class HookListener(TypedDict):
    """Something that is attached; a BPF program once for each way in which it is."""

    kind: str
    name: str
    address: Field[Hex, "of its struct, at run time"]
    calls: list[HookCall]
    functions: Field[list[str] | None, "places where it listens; null: every traced function"]
    excluded: Field[int, "functions that it leaves out of all"]
    points: Field[list[str], "events (GROUP:EVENT) and tracepoints"]
    flags: list[str]
    details: Field[dict[str, str], "attached: fentry, fexit, fmod_ret, kprobe, kretprobe, kprobe.multi, event, ..."]
    ours: Field[bool, "set by writes record"]


HookModule = TypedDict("HookModule", {"name": str, "state": str})
CalledListener = TypedDict("CalledListener", {
    "listener": Field[int, "its number among listeners"], "kind": str,
    "offset": Field[int | None, "bytes from the function's first; null where it returns"],
})  # fmt: skip
HookedFunction = TypedDict("HookedFunction", {
    "function": str, "address": Hex, "called": Field[list[CalledListener], "by offset, at last those of returns"],
})  # fmt: skip


class LiveHooks(TypedDict):
    """What prologue live hooks lists; addresses are run-time ones."""

    schema: Literal["prologue.live-hooks/1"]
    source: str
    release: Field[str, "empty if unknown"]
    struct_types: Field[str, "what says where structs have their members"]
    listeners: list[HookListener]
    functions: list[HookedFunction]
    modules: list[HookModule]
    findings: list[FoundAt]
    not_known: Field[list[str], "what could not be read or decided, and why"]


Loss = TypedDict("Loss", {"what": str, "amount": Field[int | None, "null: not known how many"]})


class LiveRecord(TypedDict):
    """What prologue writes record wrote."""

    schema: Literal["prologue.live-record/1"]
    source: str
    output: str
    release: str
    build_id: str | None
    slide: Field[Hex | None, "of KASLR; null without /proc/kcore"]
    words: Field[int, "recorded writes of 32 bits"]
    lost: list[Loss]
    notes: list[str]


class LivePerf(TypedDict):
    """What prologue writes perf wrote."""

    schema: Literal["prologue.live-perf/1"]
    output: str
    machine: Field[str, "as uname -m"]
    release: str | None
    build_id: str | None
    clock: Field[Literal["ns", "instructions"], "of the times"]
    within: Field[int | None, "ns before its time that a word was written at most; null: not known, or exact"]
    text_pokes: Field[int, "records written"]
    words: Field[int, "recorded writes"]
    lost: list[Loss]


class WritesRow(TypedDict):
    """Writes of one kind."""

    writer: Field[str, "a mechanism, or unknown: FUNCTION"]
    transition: str
    live: bool
    why: Field[str | None, "it was not live; null if it was"]
    words: int
    verdict: Field[str, "allowed, same word, data, not live, or codes of rules"]
    executed: Field[str | None, "of live writes that are on no list: never executed before, executed, not known"]


class LiveJudge(TypedDict):
    """What prologue writes judge found; addresses are run-time ones, found is the new word, expected the old one."""

    schema: Literal["prologue.live-judge/1"]
    passed: bool
    summary: Field[str, "the last line of the text"]
    file: str
    source: Field[str, "what recorded it"]
    release: str | None
    build_id: str | None
    clock: Literal["ns", "instructions"]
    slide: Field[Hex | None, "of KASLR"]
    words: Field[int, "that were written"]
    live: Field[int, "of these"]
    table: list[WritesRow]
    not_seen: list[str]
    notes: list[str]
    counts: Counts
    findings: list[FoundAt]
    unknown: Field[list[FoundAt], "writes that were not decided: then passed is false, and the exit code 5"]


Reason = TypedDict("Reason", {
    "reason": Field[str, "notrace, second_slot, not_text, blacklist, jump_label, bug, cfi_preamble, exception_table, "
                         "instruction, exclusive, data"],
    "text": str,
})  # fmt: skip
Nearest = TypedDict("Nearest", {"address": Hex | None, "symbol": str | None, "offset": int})
Inlined = TypedDict("Inlined", {"function": str, "in": str})
ProbeArgument = TypedDict("ProbeArgument", {
    "name": str, "fetch": Field[str, "as the kernel reads it"], "type": Field[str | None, "null: 64 bits in hex"],
    "c_type": Field[str | None, "null for the kernel's own fetch arguments"], "asked": str,
})  # fmt: skip
OmittedArgument = TypedDict("OmittedArgument", {
    "asked": str, "reason": str, "partial": Field[bool, "the event has it in a lesser form"],
})  # fmt: skip


class ProbedPlace(TypedDict):
    """An address where a kprobe is to be put."""

    asked: str
    ambiguous: Field[bool, "its symbol has several addresses, and each is a place here"]
    address: Field[Hex | None, "in the vmlinux; null in a module"]
    symbol: str | None
    offset: int
    module: Field[str | None, "its name; null for the kernel"]
    returns: Field[bool, "it is the function's return that is probed"]
    inlined: Field[Inlined | None, "the function that is inlined here, and the one whose code it is"]
    word: Field[Word, "the instruction when the kernel has booted, before alternatives"]
    answer: Field[Literal["yes", "no", "depends"], "depends: alternatives that boot applies decide"]
    how: Field[Literal["stepped", "simulated", "stepped or simulated"] | None, "null if refused"]
    reasons: Field[list[Reason], "in the order in which the kernel asks"]
    modules_may: Field[bool, "only kprobe events are refused (notrace), not register_kprobe()"]
    notes: list[str]
    nearest: Field[Nearest | None, "place of the same symbol that can; null if there is none, or none is needed"]
    event: Field[str | None, "the line for kprobe_events; null without --event, or where the answer is no"]
    same_as: Field[str | None, "GROUP/NAME of an event that was asked for before, and is the same"]
    name: Field[str | None, "GROUP/NAME of the event"]
    arguments: list[ProbeArgument]
    omitted: Field[list[OmittedArgument], "arguments that the event does not have"]


ProbeError = TypedDict("ProbeError", {"asked": str, "error": str})


class ProbeBase(TypedDict):
    """Places of a kernel."""

    file: str
    release: str
    rules: Field[str, "the compared release whose rules were taken"]
    places: Field[list[ProbedPlace], "one for each address"]
    errors: Field[list[ProbeError], "what is not known"]


class ProbeDocument(ProbeBase):
    """What prologue probe says."""

    schema: Literal["prologue.probe/1"]


ProbeHit = TypedDict("ProbeHit", {
    "event": str, "time": Field[str, "seconds"], "cpu": int, "comm": str, "pid": int,
    "place": Field[str, "as the kernel names it; of a return CALLER <- FUNCTION"],
    "values": Field[dict[str, Any], "number, text, list of an array's, or null (could not be read), by argument"],
})  # fmt: skip
HitCount = TypedDict("HitCount", {"event": str, "hits": int, "misses": int})


class LiveProbe(ProbeBase):
    """What prologue live probe traced."""

    schema: Literal["prologue.live-probe/1"]
    source: str
    hits: Field[list[ProbeHit], "events in the order of the trace"]
    counts: Field[list[HitCount], "of each event in the kernel"]
    refused: Field[list[str], "events that the kernel did not take"]
    lost: Field[list[Loss], "what ring buffers lost"]
    unread: Field[int, "events of the trace that could not be read"]
    ended: Field[str | int | None, "status of the command, or stopped; null if nothing was set"]


LinePlace = TypedDict("LinePlace", {"place": str, "answer": str})
SourceLine = TypedDict("SourceLine", {
    "line": int, "text": Field[str | None, "null if the source is not here"],
    "places": Field[list[LinePlace], "instructions that begin the line"],
})  # fmt: skip
LineListing = TypedDict("LineListing", {
    "name": str, "source": str, "first": Field[int, "the line of the source that line 0 is"], "lines": list[SourceLine],
})  # fmt: skip
ListedFile = TypedDict("ListedFile", {"file": str, "listings": list[LineListing]})


class ProbeLines(TypedDict):
    """What prologue probe --list prints, a file for each PLACE."""

    schema: Literal["prologue.probe-lines/1"]
    files: list[ListedFile]
