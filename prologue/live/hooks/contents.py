"""Contents of executable memory that several share: packs of BPF and pages of kprobes.

A pack holds instructions that trap wherever its bitmap has no bit. What is in use begins with the
``bpf_binary_header`` of a program, or is an image that a list has (``alloc_new_pack``, ``bpf_prog_pack_free``,
``bpf_jit_binary_pack_alloc``; kernel/bpf/core.c, 6.1-7.3). A slot of
kprobes holds one instruction, which is no branch, and a BRK (``arch_prepare_ss_slot``,
arch/arm64/kernel/probes/kprobes.c, 5.11-7.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import U32, Bool, spans_of
from prologue.insn import decode
from prologue.live.hooks.areas import BPF, CHUNK, Pack
from prologue.live.hooks.inventory import Inventory
from prologue.live.structs.objects import NotKnownError, NotReadError, raise_all
from prologue.rules.base import Hit

_TRAPS: Final = (0, 0xD4202000)  # UDF #0, with which the dispatcher fills, and BRK #0x100 (AARCH64_BREAK_FAULT)
_STEPPED: Final = 0xD42000C0  # BRK64_OPCODE_KPROBES_SS
_STEPPED_SINCE: Final = (5, 11)
_CLEAN: Final = 0  # SLOT_CLEAN: never used, or collected


def foreign_code(inventory: Inventory) -> Iterator[Hit]:
    """Yield code in packs of BPF and pages of kprobes that neither of them puts there.

    Raises:
        NotKnownError: a list cannot be read; or, after the others, how much code of BPF no list has.

    """
    yield from _in_slots(inventory)
    objects, owners = inventory.objects, inventory.owners
    objects.require_rest("pack_mutex", "code of BPF was being loaded or freed")
    odd, errors = list[str](), list[NotKnownError]()
    unlisted = 0
    for pack in owners.packs or ():
        words = np.frombuffer(objects.read(pack.start, pack.end - pack.start), "<u4").reshape(-1, CHUNK // 4)
        is_filled = np.asarray(np.isin(words, np.array(_TRAPS, np.uint32)).all(axis=1), np.bool_)
        for start, end in _runs(~pack.used & ~is_filled, pack):
            message = f"{end - start:,} bytes at {start:#x} are code, where the bitmap of a pack of BPF has none"
            yield Hit(start, message)
        for start, end in _runs(pack.used & ~_listed(inventory, pack, words), pack):
            run = slice((start - pack.start) // CHUNK, (end - pack.start) // CHUNK)
            size, bad = _programs(words[run, 0], is_filled[run])
            unlisted += size
            if bad is not None:
                odd.append(f"{start + bad:#x}")
    if odd:
        places = ", ".join(odd)
        error = f"code in packs of BPF at {places} is no program, and of no list: it hides, or was being freed"
        errors.append(NotReadError(error))
    if unlisted:
        errors.append(unlisted_code(inventory, f"{unlisted:,} bytes of programs in packs of BPF"))
    raise_all(errors)


def unlisted_code(inventory: Inventory, what: str) -> NotKnownError:
    """Return the error of code that BPF got the memory of, and that no program, task or socket has.

    It is open, unless types or a capture do not lead to the tasks.
    """
    errors = inventory.owners.filter_errors
    is_open = all(isinstance(error, NotReadError) for error in errors)
    why = f" ({errors[0]})" if errors else ""
    kind = NotReadError if is_open else NotKnownError
    return kind(
        f"{what} are of no program, task or socket: a filter of netfilter or traffic control, or code that hides{why}"
    )


def _runs(chosen: Bool, pack: Pack) -> Iterator[tuple[int, int]]:
    """Yield the first byte, and the byte after the last, of neighbouring chunks."""
    for first, end in spans_of(chosen):
        yield pack.start + first * CHUNK, pack.start + end * CHUNK


def _listed(inventory: Inventory, pack: Pack, words: U32) -> Bool:
    """Return which chunks are of code that a list has, a program with its header and tables, or have a name alone."""
    listed = np.zeros(len(pack.used), np.bool_)
    owners = inventory.owners
    for part in owners.ranges_in(pack.start, pack.end):
        if part.owner == BPF:
            first, end = (part.start - pack.start) // CHUNK, -(-(part.end - pack.start) // CHUNK)
            if part.kind in ("program", "filter"):
                # Code begins at most four bytes, of kCFI, into the chunk after the header's word.
                first = (part.start - 4 - pack.start) // CHUNK
                end = max(end, first + int(words[first, 0]) // CHUNK)
            listed[first:end] = True
    for name in owners.unheld_names:
        if pack.start <= name.start < pack.end:
            listed[(name.start - pack.start) // CHUNK : -(-(name.end - pack.start) // CHUNK)] = True
    return listed


def _programs(firsts: U32, is_filled: Bool) -> tuple[int, int | None]:
    """Go from header to header through chunks in use, by the first word of each.

    Returns:
        Bytes of programs, and the offset where something else begins. What is filled is being loaded or freed.

    """
    at = programs = 0
    while at < len(firsts):
        size = int(firsts[at])
        if is_filled[at]:
            at += 1
            continue
        if size % CHUNK or not 0 < size <= (len(firsts) - at) * CHUNK:
            return programs, at * CHUNK
        programs += size
        at += size // CHUNK
    return programs, None


def _in_slots(inventory: Inventory) -> Iterator[Hit]:
    """Yield slots of kprobes, in use or used before, that hold something else than an instruction to step."""
    objects, kernel = inventory.objects, inventory.kernel
    if not objects.has("kprobe_insn_slots") or kernel.version is None or kernel.version < _STEPPED_SINCE:
        return
    objects.require_rest("kprobe_mutex", "kprobes were being set")
    cache, page_size = objects.place("kprobe_insn_slots"), inventory.owners.page
    slot = objects.get(cache, "kprobe_insn_cache.insn_size") * 4
    if slot != 8:  # MAX_INSN_SIZE is 2
        raise NotKnownError(f"slots of kprobes have {slot} bytes")
    for page in objects.entries(cache + objects.offset("kprobe_insn_cache.pages"), "kprobe_insn_page.list"):
        start = objects.get(page, "kprobe_insn_page.insns")
        words = np.frombuffer(objects.read(start, page_size), "<u4").reshape(-1, 2)
        states = objects.read(page + objects.offset("kprobe_insn_page.slot_used"), len(words))
        in_use = np.frombuffer(states, np.uint8) != _CLEAN
        can_step = (words[:, 1] == _STEPPED) & ~_is_branch(words[:, 0])
        for k in np.flatnonzero(in_use & ~can_step).tolist():
            message = f"the slot of kprobes at {start + slot * k:#x} holds more than an instruction to step and a BRK"
            yield Hit(start + slot * k, message)


def _is_branch(words: U32) -> Bool:
    """Return which words are branches or returns: a kprobe imitates those, and puts none into a slot."""
    kinds = (decode.B_OR_BL, decode.B_OR_BC_COND, decode.CB_OR_TB, decode.CB_COND, decode.INDIRECT)
    is_any: Bool = np.logical_or.reduce([decode.matches(words, kind) for kind in kinds])
    return is_any
