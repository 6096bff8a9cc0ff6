"""Processes one file: opens it, plans, asks the rules, writes, and reads the result back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prologue.errors import InputError, OutputError, PrologueError, RefusedError
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Contract, Kernel
from prologue.kernel.load import kernel_of, open_binary
from prologue.kernel.module import Module
from prologue.kernel.required import require_symbols
from prologue.outputs import new_file
from prologue.patching.apply import apply_in_place, apply_to, rewrite
from prologue.patching.readback import checker, require_agreement
from prologue.plan.build import ContractChoice, build_plan, choose_contract, finished_plan, require_own_plan
from prologue.plan.edits import PatchPlan, from_json, to_json
from prologue.rules.engine import ApprovedPlan, approve, require_sound, require_table


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchRequest:
    """Options of processing a file.

    ``reverse`` undoes processing; with ``undo``, a saved plan or its file, if given. ``reread`` says whether LIEF reads
    the result, too; None: only if a copy is written.
    """

    output: Path | None = None  # None: the file itself
    dry_run: bool = False
    contract: ContractChoice = "auto"
    kernels: tuple[Path, ...] = ()  # those that may load a module
    kernels_too: bool = False  # these are processed in the same run, before the modules
    strip_signature: bool = False
    reverse: bool = False
    undo: Path | PatchPlan | None = None
    save_plan: Path | None = None
    reread: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchResult:
    """The result for one file; ``contract`` is None if there was nothing to process."""

    path: Path
    output: Path
    contract: str | None
    state: str
    sites: int = 0
    records: int = 0
    words_written: int = 0
    words_to_write: int | None = None  # with dry_run: how many would be
    marker: int | None = None  # version of a kernel's marker


def patch_file(request: PatchRequest, path: Path) -> PatchResult:
    """Process one file as requested.

    Raises:
        InputError: not a file that can be processed.
        RefusedError: writing would be unsafe; nothing was written.
        OutputError: the result cannot be written.
        InternalError: the result does not read back as planned.

    """
    opened = open_binary(path, unsigned=request.strip_signature)
    output = request.output or path
    binary = _resumed(opened)
    if _has_no_sites(binary):
        # A build step must not fail if ftrace is configured off, or if a module has no patch sites.
        if request.output:
            raise InputError("has no patch sites: nothing to process, and no copy was made", path=path)
        state = "no sites" if isinstance(binary, Module) else "no ftrace"
        return PatchResult(path=path, output=output, contract=None, state=state)
    approved = _approved_plan(binary, request)
    plan = approved.plan
    if request.save_plan:
        _save_plan(binary, plan, request.save_plan)
    state, written, left = f"{opened.state}, dry run", 0, None
    if request.dry_run:
        left = sum(int((opened.image.words_at(s.offsets, s.width) != s.new).sum()) for s in plan.stages)
    else:
        independent = bool(request.output) if request.reread is None else request.reread
        state, written = plan.goal, carry_out(approved, request.output, independent=independent)
    marker = binary.marker if isinstance(binary, Kernel) else None
    return PatchResult(
        path=path, output=output, contract=plan.contract, state=state, marker=marker.version if marker else None,
        sites=plan.count("site"), records=plan.count("record" if plan.guard is None else "site"),
        words_written=written, words_to_write=left,
    )  # fmt: skip


def plan_file(request: PatchRequest, path: Path) -> ApprovedPlan:
    """Plan what ``patch_file`` would write, and let the rules judge the file.

    Raises:
        InputError: not a file that can be processed, or nothing in it to process.
        RefusedError: writing would be unsafe.

    """
    binary = _resumed(open_binary(path, unsigned=request.strip_signature))
    if _has_no_sites(binary):
        raise InputError("has no patch sites: nothing to process", path=path)
    return _approved_plan(binary, request)


def _resumed(binary: Binary) -> Binary:
    """Read a kernel that an interrupted run left half written as its journal says that it was linked."""
    if isinstance(binary, Kernel) and binary.marker is not None and binary.marker.writing:
        from prologue.patching.journal import linked_by_journal

        return linked_by_journal(binary)
    return binary


def _approved_plan(binary: Binary, request: PatchRequest) -> ApprovedPlan:
    try:
        plan = _reverse_plan(binary, request) if request.reverse else _forward_plan(binary, request)
        if isinstance(binary, Module) and binary.state != plan.goal:
            _require_unsigned(binary)
        return approve(binary, plan)
    except RefusedError:
        if isinstance(binary, Kernel):  # which may be all that is wrong
            require_symbols(binary)
            if binary.moves_records is not None:  # a rule says more than that there is no place for a record
                require_sound(binary)
        raise


def patch_or_error(request: PatchRequest, path: Path) -> PatchResult | PrologueError:
    """Process one of many files as ``patch_file`` does; return the error, so that the others are still processed."""
    try:
        return patch_file(request, path)
    except PrologueError as error:
        return error
    except OSError as error:
        return OutputError(f"cannot be processed: {error.strerror or error}", path=path)


def carry_out(approved: ApprovedPlan, out: Path | None, *, independent: bool) -> int:
    """Write an approved plan, into the file itself if ``out`` is None, and read the result back.

    Returns:
        Number of words that were written or that differ from the input.

    Raises:
        OutputError, RefusedError: see ``prologue.patching.apply``.
        InputError: ``independent``, and LIEF reads another file than we do.
        InternalError: the result does not read back as planned.

    """
    binary, check = approved.binary, checker(approved, independent=independent)
    if isinstance(binary, Module) and (binary.compression or binary.stripped):
        return rewrite(approved, out or binary.path, check)
    if out is not None:
        return apply_to(approved, out, check)
    if independent:
        require_agreement(binary)
    written = apply_in_place(approved)
    check(binary.path)
    return written


def _has_no_sites(binary: Binary) -> bool:
    """Return whether there is nothing to process; a file that lost its symbols or its table is refused."""
    if not _lists_no_function(binary):
        return False
    if isinstance(binary, Kernel):
        require_symbols(binary)
    require_table(binary)
    return True


def _lists_no_function(binary: Binary) -> bool:
    """Return whether a file has no dynamic ftrace, or a record table without a single function."""
    if isinstance(binary, Kernel) and binary.moves_records:
        return False
    if binary.records is not None:
        return not binary.records.nonzero.any()
    if isinstance(binary, Kernel):
        return binary.bounds is None and binary.symbols.find("ftrace_init") is None
    return True


def _save_plan(binary: Binary, plan: PatchPlan, path: Path) -> None:
    """Write the plan as JSON; a plan that lacks the old init words never replaces one that may have them.

    Raises:
        RefusedError: the words of ``ftrace_init_nop`` are overwritten already, and no plan was saved before.

    """
    if plan.goal == "processed" and _init_words_are_gone(binary):
        if path.exists():
            return
        raise RefusedError(
            "processing has begun: a complete plan can be saved from the unprocessed file only", path=binary.path
        )
    import json

    with new_file(path) as temporary:
        temporary.write_text(json.dumps(to_json(plan)) + "\n", encoding="utf-8")


def _init_words_are_gone(binary: Binary) -> bool:
    return isinstance(binary, Kernel) and binary.marker is None and binary.init_stub.state != "live"


def _forward_plan(binary: Binary, request: PatchRequest) -> PatchPlan:
    if isinstance(binary, Module):
        return build_plan(binary, _module_contract(binary, request))
    assert isinstance(binary, Kernel)  # noqa: S101 - there is no third kind
    contract = choose_contract(binary, request.contract)
    try:
        return build_plan(binary, contract)
    except RefusedError:
        if binary.state != "processed" or request.save_plan is not None:
            raise
        return finished_plan(binary)  # nothing is left to do, even if it cannot be undone without a saved plan


def _require_unsigned(module: Module) -> None:
    if module.signature is not None:
        raise RefusedError(
            "is signed, and processing would break the signature: process modules before they are signed, "
            "or strip it with --strip-signature",
            path=module.path,
        )


def _module_contract(module: Module, request: PatchRequest) -> Contract:
    """Return the contract of a module's kernel: a module does not name it, so ``--contract`` or the kernel has to.

    Raises:
        RefusedError: neither is given, or the module is for another kernel.

    """
    try:
        kernel = kernel_of(module, request.kernels)
    except InputError as error:
        raise RefusedError(error.message, path=error.path, where=error.where) from error
    if kernel is None:
        if request.contract == "auto":
            raise RefusedError(
                "a module does not say what its kernel expects: name the kernel with --vmlinux VMLINUX, "
                "or use --contract native or --contract stock",
                path=module.path,
            )
        return "native" if request.contract == "native" else "stock"
    contract = choose_contract(kernel, "native" if kernel.marker else "stock")
    if request.contract not in ("auto", contract):
        raise RefusedError(f"{kernel.path} follows the {contract} contract", path=module.path)
    will_be = request.dry_run and request.kernels_too
    if contract == "stock" and not (kernel.writes_no_prologues or will_be):
        raise RefusedError(
            f"{kernel.path} is not processed: it writes prologues itself and refuses sites that hold the MOV; "
            "process it first",
            path=module.path,
        )
    return contract


def _reverse_plan(binary: Binary, request: PatchRequest) -> PatchPlan:
    """Return the inverse of a saved plan, or of the plan that this file gives."""
    if request.undo is not None:
        plan = request.undo if isinstance(request.undo, PatchPlan) else _load_plan(request.undo)
        require_own_plan(binary, plan)
        return plan.inverse()
    if _init_words_are_gone(binary):
        raise RefusedError(
            "ftrace_init_nop was overwritten and its old words are not in this file: "
            "give the plan that --save-plan wrote (--reverse PLAN)",
            path=binary.path,
        )
    return build_plan(binary, binary.contract if isinstance(binary, Kernel) else "native").inverse()


def _load_plan(path: Path) -> PatchPlan:
    from prologue.documents import parse_json

    try:
        return from_json(parse_json(path.read_text(encoding="utf-8")), path)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as a plan: {error}", path=path) from error
