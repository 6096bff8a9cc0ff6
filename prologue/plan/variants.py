"""Bench variants of one link: same sections, same symbols, same addresses.

``nop-nop``: ``ftrace_init`` returns at once, so no site is ever patched; tracing such a kernel is not safe.
``boot``: the vmlinux as the linker wrote it, not processed. ``build``: processed.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np

from prologue.errors import RefusedError
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import is_by_sorttable
from prologue.plan.build import build_plan, choose_contract
from prologue.plan.edits import Edits, PatchPlan, edit

VariantKind = Literal["nop-nop", "boot", "build"]
KINDS: Final[tuple[VariantKind, ...]] = get_args(VariantKind)


def variant_plan(kernel: Kernel, kind: VariantKind) -> PatchPlan:
    """Plan the variant of an unprocessed vmlinux.

    Raises:
        RefusedError: the vmlinux is in another state, or has no ``ftrace_init``.

    """
    if kernel.state != "untouched":
        state = "has no patch sites" if kernel.state == "no sites" else f"is {kernel.state}"
        way = "see `prologue patch --reverse`"
        if kernel.marker and kernel.marker.processed and is_by_sorttable(kernel, kernel.marker):
            way = "scripts/sorttable keeps nothing of it: build a tree of `prologue kernel install --mode build`"
        raise RefusedError(f"{state}; variants are made from an unprocessed vmlinux ({way})", path=kernel.path)
    if kind == "build":
        return build_plan(kernel, choose_contract(kernel, "native" if kernel.marker else "stock"))
    stages: tuple[Edits, ...] = ()
    if kind == "nop-nop":
        symbol = kernel.symbols.find("ftrace_init")
        raw = kernel.image.read_at(symbol.vaddr, 4) if symbol else None
        if symbol is None or raw is None or not kernel.image.in_text(np.array([symbol.vaddr], np.uint64))[0]:
            raise RefusedError("no function ftrace_init in its text", path=kernel.path)
        offset = int(kernel.image.offsets(np.array([symbol.vaddr], np.uint64))[0])
        words = (int.from_bytes(raw, "little"), a64.RET)
        stages = (edit("init", 4, "ftrace_init returns at once", (symbol.vaddr, offset), words),)
    return PatchPlan(
        contract=kernel.contract, build_id=kernel.build_id, file_size=kernel.image.size, goal="variant", stages=stages
    )
