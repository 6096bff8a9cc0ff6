"""Tables of other patchers in real kernels, against a second way to find the same instructions."""

from __future__ import annotations

import numpy as np
import pytest

from prologue.flow.unwind import pac_words
from prologue.kernel.kernel import Kernel
from prologue.kernel.tables import exception_words, runtime_constants
from tests.support.compare import addresses, not_ascending
from tests.support.needs import needs_kernel

pytestmark = pytest.mark.kernel

# What a runtime constant's pointer is before the boot (arch/arm64/include/asm/runtime-const.h, 6.12): MOVZ and three
# MOVKs of one register, with a number that no other code has.
POINTER = (0xD299BDE0, 0xF2B13560, 0xF2C8ACE0, 0xF2E02460)
LSR_12 = 0x530C7C00  # LSR Wd, Wn, #12


UBFX_32 = 0x53007C00  # UBFX Wd, Wn, #0, #32: a mask


# Entries of runtime_ptr_*, runtime_shift_* and runtime_mask_* in these releases; 6.1 has none.
@pytest.mark.parametrize(("suite", "release", "pointers", "shifts", "masks"), [
    ("bookworm", "6.1", 0, 0, 0),
    ("trixie", "6.12", 5, 5, 0),
    ("trixie-backports", "7.3", 24, 6, 1),
])  # fmt: skip
def test_runtime_constants(suite: str, release: str, pointers: int, shifts: int, masks: int) -> None:
    kernel = Kernel(needs_kernel(suite).vmlinux)
    assert kernel.release.startswith(release)
    found = runtime_constants(kernel)
    words = kernel.image.words(found)
    assert len(found) == 4 * pointers + shifts + masks
    assert (words & 0xFFFFFC00 == LSR_12).sum() == shifts
    assert (words & 0xFFFFFC00 == UBFX_32).sum() == masks
    by_pattern = []
    for section in kernel.text.text_sections:
        text = kernel.image.view(section, "<u4")
        for k in np.flatnonzero(text & 0xFFFFFFE0 == POINTER[0]).tolist():
            if (text[k : k + 4] & 0xFFFFFFE0).tolist() == list(POINTER) and len(
                set((text[k : k + 4] & 31).tolist())
            ) == 1:
                by_pattern += [section.addr + 4 * step for step in range(k, k + 4)]
    assert by_pattern == found[~np.isin(words & 0xFFFFFC00, (LSR_12, UBFX_32))].tolist()


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_no_unwind_table_without_dynamic_scs(suite: str) -> None:
    """Debian builds with GCC, which has no dynamic SCS."""
    kernel = Kernel(needs_kernel(suite).vmlinux)
    assert kernel.symbols.find("dynamic_scs_is_enabled") is None
    assert len(pac_words(kernel)) == 0


@pytest.mark.parametrize(("suite", "size"), [("bullseye", 8), ("trixie", 12)])
def test_exception_table(suite: str, size: int) -> None:
    """The build sorts it by its instructions: what is read with another size of its entries does not ascend."""
    kernel = Kernel(needs_kernel(suite).vmlinux)
    start, stop = (kernel.symbols.require(f"__{end}___ex_table") for end in ("start", "stop"))
    insn, fixup = exception_words(kernel)
    assert len(insn) == len(fixup) == (stop.vaddr - start.vaddr) // size
    places = np.concatenate([insn, fixup])
    assert addresses(places[~kernel.text.in_text(places)]) == []
    assert not_ascending(insn) == []
