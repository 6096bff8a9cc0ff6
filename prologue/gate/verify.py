"""Verifies one file: opens it and the files that it is compared with, runs the rules, and adds notes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from prologue.errors import InputError, PrologueError
from prologue.gate.identity import FileIdentity, Hashes, file_state, identity_of, require_unchanged
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Contract, Kernel
from prologue.kernel.load import kernel_of, open_binary, proper_size
from prologue.kernel.module import Module
from prologue.kernel.module_build import versions_note
from prologue.kernel.state import State
from prologue.outputs import same_file
from prologue.plan.account import account
from prologue.rules.base import FAILING, Finding, Input, Subject
from prologue.rules.engine import examine
from prologue.rules.pl405_signature_broken import RULE as SIGNATURE
from prologue.rules.registry import find_rule
from prologue.words import counted


@dataclass(frozen=True, slots=True)
class Request:
    """A check to make: rules, and what to compare with."""

    rules: tuple[str, ...]  # codes
    against: Path | None = None
    image: Path | None = None
    kernels: tuple[Path, ...] = ()  # those that may load a module


_NAMED: Final = 20  # modules that one note names; JSON has the state of each
Signed = Literal["none", "good", "bad", "unknown-key", "not checked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts of a file that the gate judges besides findings, and that a report names."""

    kind: Literal["vmlinux", "module"]
    contract: Contract | None  # of a vmlinux; a module has none of its own
    state: State
    sites: int
    release: str  # kernel release that it is, or was built for; empty if it does not say
    vmlinux: Path | None = None  # the kernel that a module was checked against
    vmlinux_release: str = ""
    signature: Signed = "none"  # of a module
    unsigned_for: Path | None = None  # the kernel that checks signatures, of a module that has none
    bare_entries: int | None = None  # function entries without a pair, in a file without records; None in others


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result for one file."""

    path: Path
    facts: Facts
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    inputs: frozenset[Input] = frozenset()  # what kind of input it was
    mended: Facts | None = None  # without the damage that findings name, if it can be mended
    identities: tuple[FileIdentity, ...] = ()  # of the file itself, then of what it was judged with

    @property
    def passed(self) -> bool:
        """True if no finding is an error or fatal."""
        return not any(finding.severity in FAILING for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unverified:
    """A file that could not be verified, and why."""

    path: Path
    error: str
    reason: str  # the error without its place
    exit_code: int
    identities: tuple[FileIdentity, ...] = ()


def verify_file(request: Request, path: Path) -> Verified | Unverified:
    """Verify one file, and hash what was read. An error is part of the result, so that others are still verified."""
    read = [path, *filter(None, (request.against, request.image)), *request.kernels]
    state, hashes = file_state(path), Hashes(read)
    result: Verified | Unverified
    try:
        result = verify_binary(request, open_binary(path, unpack=True))
        require_unchanged(path, state)
    except PrologueError as error:
        itself = FileIdentity(path=path, role="judged")
        result = unverified(path, error, itself)
    return replace(result, identities=tuple(replace(each, sha256=hashes.of(each.path)) for each in result.identities))


def unverified(path: Path, error: PrologueError, *identities: FileIdentity) -> Unverified:
    """Return the result for a file that an error kept from being verified."""
    return Unverified(
        path=path, error=str(error), reason=error.message, exit_code=error.exit_code, identities=identities
    )


def verify_binary(request: Request, binary: Binary) -> Verified:
    """Verify one file that is open.

    Raises:
        InputError: a file that it is compared with cannot be read, or is not of its kind.

    """
    path = binary.path
    if request.against and same_file(request.against, path):
        raise InputError("would be compared with itself: --against takes the file from before, a copy", path=path)
    before = open_binary(request.against, unpack=True) if request.against else None
    if before is not None and before.image.relocatable != binary.image.relocatable:
        raise InputError("a vmlinux and a module cannot be compared", path=path)
    if request.image is not None and not isinstance(binary, Kernel):
        raise InputError("--image needs the vmlinux that the image was made from", path=path)
    vmlinux = kernel_of(binary, request.kernels) if isinstance(binary, Module) else None
    notes = []
    subject = Subject(binary, before, request.image, vmlinux)
    findings, mended = examine(subject, tuple(find_rule(code) for code in request.rules))
    facts = _facts(binary, vmlinux, checked=SIGNATURE.code in request.rules)
    if facts.contract == "stock" and facts.state in ("processed", "unfinished"):
        notes.append(f"{path}: processed for the stock contract: for bench and lab use, not for release")
    if facts.kind == "vmlinux" and facts.bare_entries is not None:
        notes.append(f"{path}: no dynamic ftrace, no sites to verify ({_looked_at(facts.bare_entries)})")
    if facts.release and vmlinux is not None and not vmlinux.release:
        notes.append(f"{vmlinux.path}: names no kernel release: that of its modules was not compared")
    if isinstance(binary, Module) and vmlinux is not None and (note := versions_note(binary, vmlinux)):
        notes.append(f"{path}: {note}")
    if binary.unnamed_functions:
        lost = f"{binary.unnamed_functions:,} of {facts.sites:,} traced functions have no symbol"
        notes.append(
            f"{path}: stripped in part: {lost}: "
            "PL109 and PL304 were not checked, and PL112, PL203, PL206 and PL208 at functions with a symbol only"
        )
    if before is not None:
        notes.append(_accounting(before, binary))
    identities = [identity_of(binary, "judged")]
    identities += [identity_of(vmlinux, "vmlinux")] if vmlinux is not None else []
    identities += [identity_of(before, "before")] if before is not None else []
    identities += [FileIdentity(path=request.image, role="image")] if request.image is not None else []
    return Verified(
        path=path,
        findings=findings,
        notes=tuple(notes),
        inputs=subject.inputs,
        facts=facts,
        identities=tuple(identities),
        mended=replace(facts, state=mended.state),
    )


def modules_without_records(results: Iterable[Verified]) -> list[str]:
    """Return one note on all modules without records and without pairs: such modules are many, and healthy."""
    modules = [(r.path, r.facts.bare_entries) for r in results if r.facts.kind == "module"]
    bare = [(path, entries) for path, entries in modules if entries is not None]
    if not bare:
        return []
    named = str(bare[0][0]) if len(bare) == 1 else f"{len(bare):,} modules, such as {bare[0][0]}"
    return [f"{named}: no records, and {_looked_at(sum(entries for _, entries in bare))}: nothing to trace"]


def modules_without_signature(results: Iterable[Verified]) -> list[str]:
    """Return a note for each kernel that checks signatures, with its modules that have none."""
    by_kernel: dict[Path, list[str]] = {}
    for result in results:
        if result.facts.unsigned_for is not None:
            by_kernel.setdefault(result.facts.unsigned_for, []).append(str(result.path))
    return [
        f"{counted(len(paths), 'module')} without a signature, which {kernel} has keys to check: "
        f"{', '.join(paths[:_NAMED])}{f' and {len(paths) - _NAMED:,} more' if len(paths) > _NAMED else ''}"
        for kernel, paths in by_kernel.items()
    ]


def _looked_at(entries: int) -> str:
    return f"no pairs at {counted(entries, 'function entry', plural='function entries')} looked at"


def _facts(binary: Binary, vmlinux: Kernel | None, *, checked: bool) -> Facts:
    count = 0 if binary.sites is None else len(binary.sites)
    has_table = binary.bounds is not None if isinstance(binary, Kernel) else binary.records is not None
    bare = None if has_table or len(binary.entry_pairs.unlisted) else len(binary.entry_pairs.entries)
    if isinstance(binary, Kernel):
        return Facts(
            kind="vmlinux", contract=binary.contract, state=binary.state, sites=count, release=binary.release,
            bare_entries=bare,
        )  # fmt: skip
    assert isinstance(binary, Module)  # noqa: S101 - there are two kinds
    return Facts(
        kind="module", contract=None, state=binary.state, sites=count, release=binary.release, bare_entries=bare,
        vmlinux=None if vmlinux is None else vmlinux.path, vmlinux_release="" if vmlinux is None else vmlinux.release,
        signature=(signature := _signature_state(binary, vmlinux if checked else None)),
        unsigned_for=vmlinux.path if vmlinux and signature == "none" and vmlinux.checks_signatures else None,
    )  # fmt: skip


def _signature_state(module: Module, vmlinux: Kernel | None) -> Signed:
    """Return the state of a module's signature; PL405 reports one that is bad."""
    try:
        if module.signature is None:
            return "none"
    except InputError:
        return "bad"
    return "not checked" if vmlinux is None else module.signed_by(vmlinux.certificates) or "none"


# One and many.
_KINDS = {
    "site": ("site", "sites"),
    "record": ("record", "records"),
    "relocation": ("word of relocations", "words of relocations"),
    "init": ("word of ftrace_init_nop", "words of ftrace_init_nop"),
    "marker": ("word of the marker", "words of the marker"),
}


def _accounting(before: Binary, after: Binary) -> str:
    accounting = account(before, after)
    if accounting.incomparable:
        return f"{after.path}: not compared with {before.path} byte by byte: {accounting.incomparable}"
    kinds = _KINDS
    if isinstance(before, Kernel) and before.marker is not None and before.marker.version > 1:
        kinds = _KINDS | {"record": ("word of the record table", "words of the record table")}
    parts = [counted(count, kinds[kind][0], plural=kinds[kind][1]) for kind, count in accounting.words.items()]
    if len(accounting.unexplained):
        parts.append(counted(len(accounting.unexplained), "unexplained byte"))
    parts += _signature_change(before, after)
    return f"{after.path}: differs from {before.path} in {', '.join(parts) or 'nothing'}"


def _signature_change(before: Binary, after: Binary) -> list[str]:
    """Name a difference in what signing appended, which is no part of the module itself."""
    was, now = (file.image.read(proper_size(file), file.image.size) for file in (before, after))
    if was == now:
        return []
    return ["its signature, which it lost"] if not now else ["its signature" if was else "a signature that is new"]
