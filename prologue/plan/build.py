"""Builds the plan that processes a vmlinux or a module, for either contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from prologue.errors import InputError, RefusedError
from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Contract, Kernel
from prologue.kernel.sites import Sites
from prologue.plan.edits import Edits, PatchPlan, edits_at, marker_flag, marker_word

_COLUMNS: Final = ("vaddrs", "offsets", "old", "new")

_ANOTHER: Final = "the plan was made for another file, or edited since"

ContractChoice = Literal["auto", "native", "stock"]

_WAYS_OUT: Final = (
    "no __ftrace_prologue_marker: this kernel does not know the native contract. "
    "Build it with CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE, or, for bench and lab use only, use --contract stock"
)


def choose_contract(kernel: Kernel, choice: ContractChoice) -> Contract:
    """Turn ``auto`` into the contract that the kernel follows, and refuse the other one.

    Raises:
        RefusedError: the kernel does not follow the requested contract.

    """
    if kernel.marker is None:
        if choice == "stock":
            return "stock"
        raise RefusedError(_WAYS_OUT, path=kernel.path)
    if choice == "stock":
        raise RefusedError("this kernel knows the native contract: use --contract native", path=kernel.path)
    return "native"


def build_plan(binary: Binary, contract: Contract) -> PatchPlan:
    """Plan all edits, done already or not. A module's edits are its sites, under either contract (decision 5).

    With version 2 of the marker, a kernel that is processed is planned as it was linked.

    Raises:
        InputError: no readable record table.
        RefusedError: ``stock`` on a kernel whose ``ftrace_init_nop`` is not recognised.

    """
    if isinstance(binary, Kernel):
        from prologue.kernel.linked import as_linked

        linked = as_linked(binary)
        return _kernel_plan(linked, contract, linked.sites)
    sites = binary.sites
    if sites is None:
        raise InputError("no patch sites in this module", path=binary.path)
    return _processing(binary, contract, [_site_edits(binary, sites)])


def _processing(binary: Binary, contract: Contract, stages: Sequence[Edits], guard: int | None = None) -> PatchPlan:
    return PatchPlan(
        contract=contract,
        build_id=binary.build_id,
        file_size=binary.image.size,
        goal="processed",
        stages=tuple(stages),
        guard=guard,
    )


def _kernel_plan(kernel: Kernel, contract: Contract, sites: Sites | None) -> PatchPlan:
    if sites is None:
        problem = kernel.bounds.problem if kernel.bounds else "no dynamic ftrace in this kernel"
        raise InputError(problem, path=kernel.path)
    stages, guard = [_site_edits(kernel, sites)], None
    if contract == "native":
        assert kernel.marker is not None  # noqa: S101 - choose_contract gave "native" for that reason
        if kernel.marker.version > 1:
            from prologue.plan.contract2 import guard_of, later_stages

            guard, stages = guard_of(kernel.marker), [*stages, *later_stages(kernel, sites)]
        else:
            # The count first. The flag comes last: with it set, the kernel trusts the count.
            count = marker_word(kernel.marker, 16, "number of sites", len(sites))
            stages += [_record_edits(kernel, sites), count, marker_flag(kernel.marker)]
    else:
        stages += _init_edits(kernel)
    return _processing(kernel, contract, stages, guard)


def finished_plan(kernel: Kernel) -> PatchPlan:
    """Plan nothing but what a processed kernel shows by itself: for one that does not say what was there before."""
    from prologue.plan.contract2 import guard_of

    marker, sites = kernel.marker, kernel.sites
    assert marker is not None and sites is not None  # noqa: S101,PT018 - it is processed
    return _processing(kernel, "native", [_site_edits(kernel, sites), marker_flag(marker)], guard_of(marker))


def _site_edits(binary: Binary, sites: Sites) -> Edits:
    """Plan NOP to MOV X9, X30 in every first slot."""
    words = np.full(len(sites), a64.NOP, np.uint64), np.full(len(sites), a64.MOV_X9_X30, np.uint64)
    places = sites.first, binary.image.offsets(sites.first)
    return edits_at("site", "MOV X9, X30 into the first slot", places, words, width=4)


def _record_edits(kernel: Kernel, sites: Sites) -> Edits:
    """Plan every record's move from where the compiler put it to the second slot."""
    records = kernel.records
    assert records is not None  # noqa: S101 - there are no sites without records
    places = records.vaddrs[sites.record], records.homes[sites.record]
    reason = f"record to the second slot ({records.encoding})"
    return edits_at("record", reason, places, (sites.unmoved_values(), sites.second))


def _init_edits(kernel: Kernel) -> list[Edits]:
    """Neutralise ``ftrace_init_nop``; no edits if that is already done."""
    stub = kernel.init_stub
    if stub.state == "unrecognised":
        listing = "".join(f"\n  {line}" for line in stub.listing.splitlines())
        raise RefusedError(
            f"the stock contract does not recognise this kernel: {stub.reason}{listing}", path=kernel.path
        )
    open_edits = [word for word in stub.edits if word.old is not None]
    if not open_edits:
        return []
    vaddrs = np.array([word.vaddr for word in open_edits], np.uint64)
    old, new = (np.array(column, np.uint64) for column in zip(*((w.old, w.new) for w in open_edits), strict=True))
    places = vaddrs, kernel.image.offsets(vaddrs)
    return [edits_at("init", "ftrace_init_nop writes no prologue", places, (old, new), width=4)]


def require_own_plan(binary: Binary, saved: PatchPlan) -> None:
    """Check that a saved plan is the one that this file gives; only the old init words cannot be checked.

    Raises:
        RefusedError: made for another file, or edited since.

    """
    if isinstance(binary, Kernel):
        if saved.guard is not None:
            binary = _linked_by(binary, saved)
            if binary.state != "untouched":
                raise RefusedError(_ANOTHER, path=binary.path)
        built = build_plan(binary, choose_contract(binary, "native" if binary.marker else "stock"))
    else:
        built = build_plan(binary, "stock" if saved.contract == "stock" else "native")
    same = all(
        getattr(saved, name) == getattr(built, name) for name in ("contract", "build_id", "file_size", "goal", "guard")
    )
    same = same and _same_edits(*([s for s in plan.stages if s.kind != "init"] for plan in (built, saved)))
    init = [s for s in saved.stages if s.kind == "init"]
    stub = isinstance(binary, Kernel) and built.contract == "stock"
    same = same and (_same_init(binary, init) if isinstance(binary, Kernel) and stub else not init)
    if not same:
        raise RefusedError(_ANOTHER, path=binary.path)


def _linked_by(kernel: Kernel, saved: PatchPlan) -> Kernel:
    """Read a processed kernel with the old words of its saved plan."""
    from prologue.kernel.linked import PlacedWords, with_words

    if kernel.marker is None or not kernel.marker.processed:
        return kernel
    ends = [int(stage.offsets.max(initial=0)) + stage.width for stage in saved.stages]
    starts = [int(stage.offsets.min(initial=0)) for stage in saved.stages]
    if min(starts, default=0) < 0 or max(ends, default=0) > kernel.image.size:
        return kernel
    return with_words(kernel, (PlacedWords(stage.offsets, stage.old, stage.width) for stage in saved.stages))


def _same_edits(ours: list[Edits], theirs: list[Edits]) -> bool:
    return len(ours) == len(theirs) and all(
        (a.kind, a.width) == (b.kind, b.width)
        and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in _COLUMNS)
        for a, b in zip(ours, theirs, strict=True)
    )


def _same_init(kernel: Kernel, theirs: list[Edits]) -> bool:
    """Return whether the saved edits write the words that the recogniser plans, at the same places."""
    wanted = [(word.vaddr, word.new) for word in kernel.init_stub.edits]
    words = [pair for s in theirs for pair in zip(s.vaddrs.tolist(), s.new.tolist(), strict=True)]
    places = [np.array_equal(s.offsets, kernel.image.offsets(s.vaddrs)) for s in theirs]
    return wanted == words and all(places)
