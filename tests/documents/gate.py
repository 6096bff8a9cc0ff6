"""Documents of files: scan, patch, verify, rules, and the check of a kernel's tree."""

from __future__ import annotations

from typing import Annotated as Field
from typing import Any, Literal, NotRequired, TypedDict

from prologue.elf.identify import Compression
from prologue.gate.identity import FileRole
from prologue.gate.refusal import Required
from prologue.gate.verify import Signed
from prologue.kernel.kernel import Contract
from prologue.kernel.records import Encoding, RecordForm
from prologue.kernel.sites import Layout
from prologue.kernel.state import State
from prologue.kernel_tree.patches import Mode
from prologue.plan.edits import Kind
from prologue.rules.base import Input, Severity
from tests.documents.build import Hex

ScannedMarker = TypedDict("ScannedMarker", {"version": int, "flags": int, "sites": int})
Anomaly = TypedDict(
    "Anomaly", {"code": str, "slug": str, "severity": Severity, "count": int, "follows_from": list[str]}
)  # fmt: skip


class ScannedFile(TypedDict):
    """A vmlinux or a module; of a boot file (its kind says which) only file, kind and description."""

    file: str
    kind: Field[
        str, "vmlinux, module, or a boot file: image, zboot, pe, uimage, lzma, bzip2, lz4, lzo, fit, android-boot"
    ]
    description: NotRequired[str]
    release: NotRequired[Field[str | None, "as uname -r"]]
    build_id: NotRequired[str | None]
    ftrace: NotRequired[Field[bool, "false: no table of records, nothing to process"]]
    signed: NotRequired[Field[bool, "of a module: a signature is appended"]]
    compression: NotRequired[Compression | None]
    vmlinux: NotRequired[Field[str | None, "of a module: the kernel among the files that loads it"]]
    layout: NotRequired[Field[Layout, "the argument of -fpatchable-function-entry"]]
    bti_sites: NotRequired[Field[int, "sites after a landing pad"]]
    contract: NotRequired[Field[Contract, "native: the marker is there"]]
    marker: NotRequired[ScannedMarker | None]
    init: NotRequired[Field[Literal["live", "neutralised", "unfinished", "unrecognised"], "ftrace_init_nop"]]
    boot_loop: NotRequired[Field[bool, "ftrace_init writes what is not processed in one loop (mode boot)"]]
    encoding: NotRequired[Encoding]
    form: NotRequired[Field[RecordForm, "offsets and plain: of a processed kernel with version 2 of the marker"]]
    records: NotRequired[int]
    zero_records: NotRequired[int]
    moved_records: NotRequired[int]
    sites: NotRequired[int]
    sites_with_mov: NotRequired[int]
    sites_by_section: NotRequired[dict[str, int]]
    state: NotRequired[Field[State, "unfinished: the same command finishes the file"]]
    anomalies: NotRequired[Field[list[Anomaly], "rules that fire, root causes first"]]


class Scan(TypedDict):
    """What prologue scan says of files."""

    schema: Literal["prologue.scan/1"]
    files: list[ScannedFile]
    failed: Field[int, "files that could not be read; each is named on standard error"]


class PatchedFile(TypedDict):
    """A file that was processed, or needs no processing (sites is 0)."""

    file: str
    output: str
    contract: Field[Contract | None, "null without dynamic ftrace, or without sites"]
    state: str
    sites: Field[int, "edits of sites in the plan"]
    records: Field[int, "edits of records in the plan"]
    words_written: Field[int, "0 on a second run and with --dry-run"]
    words_to_write: Field[int | None, "with --dry-run: how many would be written"]
    marker_version: Field[int | None, "of a kernel of the native contract"]


class Patch(TypedDict):
    """What prologue patch did."""

    schema: Literal["prologue.patch/1"]
    files: list[PatchedFile]
    failed: int


class PlanStage(TypedDict):
    """Edits of one kind, in the order of writing."""

    kind: Kind
    width: Field[Literal[4, 8], "bytes of a word"]
    reason: str
    edits: Field[list[tuple[Hex, int, Hex, Hex]], "address, file offset, old word, new word"]


class Plan(TypedDict):
    """What --save-plan writes and --reverse reads."""

    schema: Literal["prologue.plan/1"]
    contract: Contract
    build_id: str
    file_size: int
    goal: Literal["processed", "untouched", "variant"]
    guard: NotRequired[Field[Hex, "version 2 of the marker: the last word while a file is written in place"]]
    stages: list[PlanStage]


class FoundAt(TypedDict):
    """A finding: a rule and a place."""

    code: Field[str, "of the rule; GATE: --release refuses the file; REQUIRE: it is not in the state of --require"]
    slug: str
    severity: Severity
    file: str
    vaddr: Field[Hex | None, "null in modules, and of the file as a whole"]
    symbol: str | None
    symbol_offset: int
    section: str | None
    section_offset: int
    message: str
    found: Field[list[Hex], "words"]
    expected: list[Hex]
    fix: str
    follows_from: Field[list[str], "codes of root causes, which come before; empty for a root cause"]


class KnownFinding(FoundAt):
    """A finding of a baseline."""

    reason: str
    owner: str


class NotRun(TypedDict):
    """A rule that did not run on a file."""

    code: str
    slug: str
    how: Literal["ignored", "not selected"]
    source: Field[str, "a settings file, or the command line"]


class Checked(TypedDict):
    """A file that was to be verified."""

    file: str
    error: Field[str | None, "why it could not be verified; then fields from kind to signature are absent"]
    release: str | None
    build_id: str | None
    sha256: Field[str | None, "of the file as it is stored, compressed or not"]
    kind: NotRequired[Literal["vmlinux", "module"]]
    contract: NotRequired[Field[Contract | None, "null for modules"]]
    state: NotRequired[State]
    sites: NotRequired[int]
    vmlinux: NotRequired[Field[str | None, "the kernel that a module was checked against"]]
    rules_run: NotRequired[Field[int, "rules that apply to such a file and were not left out"]]
    signature: NotRequired[Field[Signed | None, "of a module; bad is PL405; unknown-key: none of the kernel's"]]
    settings: Field[str | None, "path of the settings file that applied"]
    not_run: list[NotRun]


Counts = TypedDict("Counts", {"fatal": int, "error": int, "warn": int, "info": int})
Tool = TypedDict("Tool", {"name": str, "version": str})
Compared = TypedDict("Compared", {
    "file": str, "role": FileRole, "release": str | None, "build_id": str | None, "sha256": str | None,
})  # fmt: skip


class Verify(TypedDict):
    """What prologue verify found."""

    schema: Literal["prologue.verify/1"]
    passed: Field[bool, "the exit code is 0: every file was verified, and nothing fails"]
    summary: Field[str, "the last line of the text"]
    release: Field[bool, "--release was given"]
    required_state: Required | None
    tool: Tool
    date: Field[str, "UTC, or SOURCE_DATE_EPOCH"]
    files: list[str]
    errors: Field[list[str], "files that could not be verified, and why"]
    counts: Field[Counts, "of all findings"]
    following: Field[int, "findings that follow from others"]
    notes: list[str]
    checked: Field[list[Checked], "one for each of files"]
    compared: Field[list[Compared], "kernels that modules were judged for, and what files were compared with"]
    findings: list[FoundAt]
    baselined: Field[list[KnownFinding], "known findings"]


class ListedRule(TypedDict):
    """A rule."""

    code: str
    slug: str
    severity: Severity
    inputs: Field[list[Input], "V vmlinux, K module, I Image, C live text, P pair before and after, W recorded writes"]
    what: str
    why: str
    example: str
    words: Field[list[int], "instructions of the example"]
    fix: str
    citation: str


class Rules(TypedDict):
    """What prologue rules lists."""

    schema: Literal["prologue.rules/1"]
    rules: list[ListedRule]


class TreeCheck(TypedDict):
    """A thing that was looked at, with facts: those of patch, config, tool and vmlinux; unknown ones are absent."""

    name: Literal["patch", "config", "modules", "tool", "vmlinux", "vmlinux.unstripped"]
    status: Field[Literal["ok", "no", "-"], "-: nothing to check yet"]
    message: str
    to_do: str | None
    mode: NotRequired[Field[Mode | None, "patch; null: not installed"]]
    files: NotRequired[Field[dict[str, Literal["in", "out", "differs"]], "patch: by path"]]
    file: NotRequired[str | None]
    path: NotRequired[Field[str | None, "tool; null: not found"]]
    version: NotRequired[Field[str | None, "tool; null: it did not say"]]
    state: NotRequired[State]
    marker: NotRequired[Field[dict[str, Any] | None, "flags, sites"]]


class KernelCheck(TypedDict):
    """What prologue kernel check says of a tree; with mode boot there are no config, modules and tool."""

    schema: Literal["prologue.kernel-check/1"]
    tree: str
    objtree: Field[str, "the same without --objtree"]
    release: str
    ok: Field[bool, "a kernel was built and nothing is wrong: exit code 0"]
    checks: list[TreeCheck]
