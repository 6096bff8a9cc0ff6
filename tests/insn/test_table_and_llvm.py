"""The table of instructions against LLVM's disassembler: all registers, in both directions, over words of each row."""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter

import numpy as np
import pytest

from prologue.insn.disasm import insn_text
from prologue.insn.effect import effect
from prologue.insn.rows import X9, flows, look_over, may_read, must_write, row_numbers
from prologue.insn.table import ROWS, SCALABLE, UNALLOCATED, FlowKind, registers, row_of
from tests.support.needs import needs_tools

LLVM = "llvm-mc-19"
SOURCES_ONLY = re.compile(
    r"st(?!l?t?xr|l?xp|64bv)|cas|rcws?cas|rcws?(clr|set|swp)p|swpp|ld(clr|set)p|cb|tb|cmp|cmn|tst|ccm|cpy|set|br|blr|ret|msr|dc|ic|at$|tlbi|sysp?$|cfp"
    r"|cosp|cpp|dvp|rmif|prf|gcs|wfet|wfit|ctermeq|ctermne|brb|trcit|plbi"
)
FIRST_IS_BOTH = re.compile(r"aut|pac(?!ga)|xpac|inc|dec|[su]q(inc|dec)|ldg$|clast[ab]")
SECOND_IS_DESTINATION = re.compile(r"(ldt?(add|clr|eor|set|[su](max|min))|swpt?|rcws?(clr|set|swp))a?l?[bh]?")
TWO_DESTINATIONS = re.compile(r"ldt?n?p|ldpsw|lda?xp|ldiapp|mrrs")
EIGHT = re.compile(r"(st64b(?:v0?)?|ld64b) (?:x\w+, )?x(\d+), \[")
PAIRS_BOTH = re.compile(r"swpp|ld(clr|set)p|rcws?(clr|set|swp)p")
COMPARE_AND_SWAP = re.compile(r"(?:cas|rcws?cas)(p?)")
# What the text does not name: registers that are read, and that are written.
IMPLIED = (
    (re.compile(r"bl(r|ra[ab]z?)?"), set[int](), {30}),
    (re.compile(r"reta[ab](sppcr?)?"), {30}, set[int]()),
    (re.compile(r"xpaclri|(pac|aut)i[ab](z|sp)|(pac|aut|pacn)b?i[ab]sppcr?"), {30}, {30}),
    (re.compile(r"(pac|aut)i[ab]1716"), {16, 17}, {17}),
    (re.compile(r"(pac|aut)i[ab]171615"), {15, 16, 17}, {17}),
    (re.compile(r"chkfeat"), {16}, {16}),
)
# Registers that the table has for a word and LLVM's text does not: hints and system instructions that ignore them.
UNNAMED = re.compile(r"hint|tlbi|ic|gcs\w+|dc")
NEWER_THAN_LLVM_19 = (
    "CASPT", "CAST", "CB<cc> (immediate)", "CB<cc> (register)", "LDTADD, SWPT", "LDTXR, LDATXR", "SETGO",
    "STTXR, STLTXR", "TCHANGEF, TCHANGEB", "TEXIT",
)  # fmt: skip
FLOWS = (
    (re.compile(r"bl"), FlowKind.BL),
    (re.compile(r"br|bra[ab]z?"), FlowKind.INDIRECT),
    (re.compile(r"blr|blra[ab]z?"), FlowKind.CALL),
    (re.compile(r"ret|reta[ab](sppcr?)?"), FlowKind.RET),
    (re.compile(r"eret|ereta[ab]|drps|texit"), FlowKind.ERET),
    (re.compile(r"svc|hvc|smc"), FlowKind.CALLS_UP),
    (re.compile(r"brk|hlt"), FlowKind.TRAP),
    (re.compile(r"udf"), FlowKind.UNDEFINED),
    (re.compile(r"bc?\.(?!al|nv)..|cbn?z|tbn?z|cb[bh]?(gt|ge|hi|hs|eq|ne|lt|lo)"), FlowKind.CONDITIONAL),
    (re.compile(r"b|bc?\.(al|nv)"), FlowKind.B),
)


def disassembled(words: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> dict[int, str]:
    """Text of the words that are instructions."""
    lines = [" ".join(f"{byte:#04x}" for byte in word.to_bytes(4, "little")) for word in words.tolist()]
    command = [LLVM, "--disassemble", "--triple=aarch64", "--mattr=+all"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    invalid = {int(line) for line in re.findall(r"^<stdin>:(\d+):\d+: warning: invalid", done.stderr, re.MULTILINE)}
    texts = [line.partition("//")[0].split() for line in done.stdout.splitlines() if line.strip() not in ("", ".text")]
    known = [word for number, word in enumerate(words.tolist(), start=1) if number not in invalid]
    return {word: " ".join(text).lower() for word, text in zip(known, texts, strict=True)}


def named_by_llvm(text: str) -> tuple[set[int], set[int]]:
    """Numbers of the registers that an instruction reads and writes, by LLVM's text."""
    mnemonic, _, rest = text.partition(" ")
    operands = re.split(r",\s*(?![^\[{]*[\]}])", rest)
    named = [{int(number) for number in re.findall(r"\b[wx](\d+)\b", operand)} for operand in operands]
    every = set(range(len(operands)))
    swap = COMPARE_AND_SWAP.match(mnemonic)
    if mnemonic.startswith("cpy"):
        written, read = every, every
    elif (mnemonic.startswith("set") and not mnemonic.startswith("setf")) or PAIRS_BOTH.match(mnemonic):
        written, read = {0, 1}, every
    elif swap:
        written, read = {0, 1} if swap[1] or mnemonic.startswith("caspt") else {0}, every
    elif (SOURCES_ONLY.match(mnemonic) and not mnemonic.startswith("rmi")) or mnemonic in (
        "setf8",
        "setf16",
        "rmif",
        "autiasppcr",
        "autibsppcr",
    ):
        written, read = set(), every
    elif SECOND_IS_DESTINATION.fullmatch(mnemonic):
        written, read = {1}, every - {1}
    else:
        written = {0, 1} if TWO_DESTINATIONS.fullmatch(mnemonic) else {0}
        read = every - written
        if FIRST_IS_BOTH.match(mnemonic) or mnemonic in ("movk", "bfi", "bfxil", "bfc", "bfm"):
            read |= {0}
    sources = {number for k in every for number in named[k] if k in read or "[" in operands[k]}
    copies = mnemonic.startswith(("cpy", "set"))  # they write all that they name
    results = {number for k in written for number in named[k] if copies or "[" not in operands[k]}
    for k, operand in enumerate(operands):
        if "[" in operand and (operand.endswith("!") or (k + 1 < len(operands) and re.match(r"\[[^,]*\]$", operand))):
            results |= {int(number) for number in re.findall(r"^\[x(\d+)", operand)}
    eight = EIGHT.match(text)
    if eight:
        (results if mnemonic == "ld64b" else sources).update(range(int(eight[2]), int(eight[2]) + 8))
        results |= named[0] if mnemonic.startswith("st64bv") else set()
    if text == "ret":
        sources = {30}
    for pattern, read_too, written_too in IMPLIED:
        if pattern.fullmatch(mnemonic):
            sources, results = sources | read_too, results | written_too
    return sources, results


def named(word: int, column: str) -> set[int]:
    """Registers of the table."""
    return set(registers(word, column)) & set(range(31))


def words_of_rows(each: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Words of each row, and any others."""
    seed = random.Random(35)  # noqa: S311 - not a secret
    words = {seed.getrandbits(32) & ~row.mask & 0xFFFFFFFF | row.value for row in ROWS for _ in range(each)}
    words |= {seed.getrandbits(32) for _ in range(50 * each)}
    return np.array(sorted(words), np.uint32)


@pytest.mark.thorough
def test_llvm_names_the_same_registers_and_flow() -> None:
    needs_tools(LLVM)
    texts = disassembled(words_of_rows(2_000))
    counts = Counter[str]()
    for word, text in texts.items():
        row, mnemonic, what = row_of(word), text.partition(" ")[0], f"{word:08x} {text}"
        counts[row.name] += 1
        flow = next((flow for pattern, flow in FLOWS if pattern.fullmatch(mnemonic)), FlowKind.PLAIN)
        always = row.flow is FlowKind.B and flow is FlowKind.CONDITIONAL and re.search(r"\b[wx]zr\b", text)
        assert row.flow is flow or always, what
        if row.name == SCALABLE or row.flow is FlowKind.CALLS_UP:
            continue  # see below
        assert row.name != UNALLOCATED, what
        if not UNNAMED.fullmatch(mnemonic):
            assert (named(word, row.reads), named(word, row.writes)) == named_by_llvm(text), what
    assert {row.name for row in ROWS} - set(counts) == {UNALLOCATED, *NEWER_THAN_LLVM_19}


# Mask and value: all of them, and those that have general registers.
VECTORS = (
    *((row.mask, row.value) for row in ROWS if row.name == SCALABLE),
    (0xFF20F000, 0x04205000), (0xFF30F000, 0x0420E000), (0xDF200000, 0x05200000),
)  # fmt: skip


@pytest.mark.thorough
def test_llvm_says_the_same_of_scalable_vectors() -> None:
    """Of X9, and of registers that a value in X9 is moved to: the table leaves these instructions to capstone."""
    needs_tools(LLVM)
    seed, counts = random.Random(304), Counter[str]()  # noqa: S311 - not a secret
    words = {seed.getrandbits(32) & ~mask & 0xFFFFFFFF | value for mask, value in VECTORS for _ in range(20_000)}
    for word, text in disassembled(np.array(sorted(words), np.uint32)).items():
        sources, results = named_by_llvm(text) if row_of(word).name == SCALABLE else (set[int](), set[int]())
        for number in (sources | results) & {X9, *range(19, 29)}:
            what = effect(word, number)
            counts["read" if number in sources else "written"] += 1
            # What capstone does not know may be called a read.
            right = what == "read" if number in sources else what != "read" or insn_text(word).startswith(".word")
            assert right, f"{word:08x} {text}"
    assert counts["read"] > 1_000, counts
    assert counts["written"] > 20, counts  # most have rows of their own


@pytest.mark.parametrize("number", [0, 9, 17, 30])
def test_arrays_of_words_are_decoded_as_single_words_are(number: int) -> None:
    words = words_of_rows(20)
    rows = [row_of(word) for word in words.tolist()]
    assert [ROWS[k] for k in row_numbers(words).tolist()] == rows
    assert flows(words.reshape(1, -1)).tolist() == [[row.flow for row in rows]]
    assert may_read(words, number).tolist() == [
        number in registers(word, row.reads) for word, row in zip(words.tolist(), rows, strict=True)
    ]
    sure = [
        "?" not in row.writes and number in registers(word, row.writes)
        for word, row in zip(words.tolist(), rows, strict=True)
    ]
    assert must_write(words, number).tolist() == sure
    if number == X9:
        assert not ((may_read(words, X9) | must_write(words, X9)) & ~look_over(words)[1]).any()
