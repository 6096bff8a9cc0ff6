"""CBMC proves the functions of sorttable-arm64.h that read and write tables of the file.

Proved for arbitrary content: nothing outside of the table is read or written, all loops end, and what each function
promises ("never longer", the other relocations stay). Up to this size, which is in ``PROOFS``:

* take_relas() and relative_after_none(): RELA tables of 3 entries.
* addr_to_ptr() and section_holds(): 2 sections, with any header.
* relr_decode(): any word, all 63 bits.
* relr_encode(): a chain of 2 words at any address, with bitmaps of 3 bits; one of 3 words at one address with bitmaps
  of 7 bits; that the others stay with 7 bits in 2 words, and with 3 bits in 3. A table of records anywhere.
* take_relrs() with relr_chain_words() and relr_count_records(): tables of 2 words with bitmaps of 2 bits, anywhere
  below 64 KiB.

The number of bits in a bitmap is the header's ``RELR_BITS``, which is replaced; nothing else of it is. Larger sizes
do not end: each further bit makes it four times as long if addresses have all of their 64 bits.

Not proved: records_to_ips(), find_site() and write_sites(), which reach the file by addr_to_ptr() alone;
check_relocs(), take_relocs() and write_prologues(), which call what is proved for each section; and what sorttable.c
itself reads. test_sorttable.py and test_fuzz_sorttable.py try those.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

import prologue
from tests.support.cbmc import needs_cbmc
from tests.support.needs import needs_tools

pytestmark = pytest.mark.thorough

HEADER: Final = Path(prologue.__file__).parent / "kernel_tree" / "sorttable-arm64.h"
HARNESS: Final = Path(__file__).with_name("prove_sorttable.c")
CHECKS: Final = ("--unwinding-assertions", "--bounds-check", "--pointer-check", "--div-by-zero-check")
BITS: Final = "#define RELR_BITS\t63\n"
# function: bits of a bitmap, how often a loop runs at most, definitions
PROOFS: Final[dict[str, tuple[str, int, int, tuple[str, ...]]]] = {
    "take_relas": ("prove_take_relas", 63, 8, ("ENTRIES=3",)),
    "relative_after_none": ("prove_relative_after_none", 63, 8, ("ENTRIES=3",)),
    "addr_to_ptr": ("prove_addr_to_ptr", 63, 4, ()),
    "relr_decode": ("prove_relr_decode", 63, 65, ()),
    "relr_encode, any address": ("prove_relr_encode", 3, 5, ("WORDS=2",)),
    "relr_encode, 7 bits": ("prove_relr_encode", 7, 8, ("WORDS=3", "NEAR=0x1000")),
    "relr_encode, others stay": ("prove_relr_encode_same", 7, 8, ("WORDS=2", "NEAR=0x1000")),
    "relr_encode, others stay, 3 words": ("prove_relr_encode_same", 3, 5, ("WORDS=3", "NEAR=0x1000")),
    "take_relrs": ("prove_take_relrs", 2, 4, ("WORDS=2",)),
}


def prove(name: str, directory: Path, replaced: tuple[str, str] | None = None) -> str:
    """What CBMC prints; of a header in which one more thing is replaced."""
    needs_tools("gcc")  # cbmc preprocesses with it
    function, bits, unwind, definitions = PROOFS[name]
    text = HEADER.read_text()
    for old, new in ((BITS, BITS.replace("63", str(bits))), *([replaced] if replaced else [])):
        assert text.count(old) == 1
        text = text.replace(old, new)
    header = directory / "header.h"
    header.write_text(text)
    defined = [f"-D{definition}" for definition in (*definitions, f'HEADER="{header}"')]
    command = [*needs_cbmc(), str(HARNESS), *defined, "--function", function, "--unwind", str(unwind), *CHECKS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 10), done.stdout + done.stderr  # proved, refuted
    return done.stdout


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PROOFS)
def test_it_holds_whatever_is_in_the_table(name: str, tmp_path: Path) -> None:
    said = prove(name, tmp_path)
    assert "VERIFICATION SUCCESSFUL" in said, said


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("take_relas", "memset(to, 0, end - to);", "memset(to, 0, end - to - entsize);"),
        ("relative_after_none", "rela_info(rel) == rela_type", "rela_info(rel) != rela_type"),
        ("addr_to_ptr", "len <= size - (addr - start)", "len <= size"),
        ("relr_decode", "while (word >>= 1)", "while (word)"),
        ("relr_encode, any address", "out->next == out->start ||", "true ||"),
        ("relr_encode, others stay", "out->base = addr + 8;", "out->base = addr;"),
        ("take_relrs", "scratch[k] : 1", "scratch[k] : chain[k]"),
    ],
)
def test_a_fault_is_found(name: str, old: str, new: str, tmp_path: Path) -> None:
    assert "VERIFICATION FAILED" in prove(name, tmp_path, (old, new))
