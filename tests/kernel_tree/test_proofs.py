"""CBMC proves the functions of sorttable-arm64.h that read and write tables of the file.

Proved for arbitrary content: nothing outside of the table is read or written, all loops end, and what each function
promises ("never longer", the other relocations stay). Up to this size, which is in ``PROOFS``:

* take_relas() and relative_after_none(): RELA tables of 3 entries.
* addr_to_ptr() and section_holds(): 2 sections, with any header.
* relr_decode(): any word, all 63 bits.
* relr_encode(): a chain of 2 words at any address, with bitmaps of 3 bits; one of 3 words at one address with bitmaps
  of 7 bits; that the others stay with 7 bits in 2 words, and with 3 bits in 3. A table of records anywhere.
* take_relrs() with relr_chain_words() and relr_count_records(): tables of 2 words with bitmaps of 2 bits, anywhere
  below 64 KiB. check_relocs(): two sections of any type with such tables, or with one RELA entry.
* find_site(), and records_to_ips() with write_sites(): a text of 10 words, 2 records and 2 functions anywhere, both
  layouts. What is a record holds two NOPs where a function begins; each gets its MOV, and no other word changes.

The number of bits in a bitmap is the header's ``RELR_BITS``, which is replaced; nothing else of it is. Larger sizes
do not end: each further bit makes it four times as long if addresses have all of their 64 bits.

Not proved: take_relocs() and write_prologues(), which call what is proved: CBMC came to no end with two sections of
2 words, nor with one record. get_prologue_symbols(), check_prologue_marker(), and what sorttable.c itself reads.
test_sorttable.py and test_fuzz_sorttable.py try those.
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
RELOCATIONS: Final = Path(__file__).with_name("prove_sorttable.c")
SITES: Final = Path(__file__).with_name("prove_sites.c")
CHECKS: Final = ("--unwinding-assertions", "--bounds-check", "--pointer-check", "--div-by-zero-check")
BITS: Final = "#define RELR_BITS\t63\n"
# harness and function, bits of a bitmap, how often a loop runs at most, definitions
PROOFS: Final[dict[str, tuple[Path, str, int, int, tuple[str, ...]]]] = {
    "take_relas": (RELOCATIONS, "prove_take_relas", 63, 8, ("ENTRIES=3",)),
    "relative_after_none": (RELOCATIONS, "prove_relative_after_none", 63, 8, ("ENTRIES=3",)),
    "addr_to_ptr": (RELOCATIONS, "prove_addr_to_ptr", 63, 4, ()),
    "relr_decode": (RELOCATIONS, "prove_relr_decode", 63, 65, ()),
    "relr_encode, any address": (RELOCATIONS, "prove_relr_encode", 3, 5, ("WORDS=2",)),
    "relr_encode, 7 bits": (RELOCATIONS, "prove_relr_encode", 7, 8, ("WORDS=3", "NEAR=0x1000")),
    "relr_encode, others stay": (RELOCATIONS, "prove_relr_encode_same", 7, 8, ("WORDS=2", "NEAR=0x1000")),
    "relr_encode, others stay, 3 words": (RELOCATIONS, "prove_relr_encode_same", 3, 5, ("WORDS=3", "NEAR=0x1000")),
    "take_relrs": (RELOCATIONS, "prove_take_relrs", 2, 4, ("WORDS=2",)),
    "check_relocs": (RELOCATIONS, "prove_check_relocs", 2, 4, ("WORDS=2",)),
    "find_site, layout 2": (SITES, "prove_find_site", 63, 12, ("ARM64_FTRACE_PRE_NOPS=0",)),
    "find_site, layout 4,2": (SITES, "prove_find_site", 63, 12, ("ARM64_FTRACE_PRE_NOPS=2",)),
    "records_to_ips, layout 2": (SITES, "prove_records_to_ips", 63, 12, ("ARM64_FTRACE_PRE_NOPS=0",)),
    "records_to_ips, layout 4,2": (SITES, "prove_records_to_ips", 63, 12, ("ARM64_FTRACE_PRE_NOPS=2",)),
}


def prove(name: str, directory: Path, replaced: tuple[str, str] | None = None) -> str:
    """What CBMC prints; of a header in which one more thing is replaced."""
    needs_tools("gcc")  # cbmc preprocesses with it
    harness, function, bits, unwind, definitions = PROOFS[name]
    text = HEADER.read_text()
    for old, new in ((BITS, BITS.replace("63", str(bits))), *([replaced] if replaced else [])):
        assert text.count(old) == 1
        text = text.replace(old, new)
    header = directory / "header.h"
    header.write_text(text)
    defined = [f"-D{definition}" for definition in (*definitions, f'HEADER="{header}"')]
    command = [*needs_cbmc(), str(harness), *defined, "--function", function, "--unwind", str(unwind), *CHECKS]
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
        ("check_relocs", "wanted = sort_reloc ? 0 : count;", "wanted = count;"),
        ("find_site, layout 2", "!are_nops(emloc, site, 2)", "!are_nops(emloc, site, 1)"),
        ("find_site, layout 4,2", "addr % (pre ? 8 : ARM64_INSN_SIZE) || ", ""),
        ("records_to_ips, layout 2", "ip <= last ||", "ip < last ||"),
        ("records_to_ips, layout 4,2", "uint64_t site = ips[i] - ARM64_INSN_SIZE;", "uint64_t site = ips[i];"),
    ],
)
def test_a_fault_is_found(name: str, old: str, new: str, tmp_path: Path) -> None:
    assert "VERIFICATION FAILED" in prove(name, tmp_path, (old, new))
