"""What instructions do with X9, asked of LLVM's disassembler, which knows many that capstone does not."""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter

import numpy as np
import pytest

from prologue.insn.disasm import insn_text
from prologue.insn.effect import effect
from prologue.insn.rows import X9, look_over, may_read, must_write
from tests.support.cases import one_tested
from tests.support.needs import needs_tools

LLVM = "llvm-mc-19"
SOURCES_ONLY = re.compile(
    r"st(?!l?t?xr|l?xp|64bv)|cas|rcws?cas|rcws?(clr|set|swp)p|swpp|ld(clr|set)p|cb|tb|cmp|cmn|tst|ccm|cpy|set|br|blr|ret|msr|dc|ic|at$|tlbi|sysp?$|cfp"
    r"|cosp|cpp|dvp|rmif|prf|gcs|wfet|wfit|ctermeq|ctermne|brb|trcit|plbi"
)
FIRST_IS_BOTH = re.compile(r"aut|pac(?!ga)|xpac|inc|dec|[su]q(inc|dec)|ldg$|clast[ab]")
# Fields that are inserted, halves that are spilled (see effect()), and a register that is named and not printed.
HARMLESS = re.compile(r"movk|bfi|bfxil|bfc|bfm|(str|stp) .*\bw\d+\b.*\[sp|(tlbi|ic) \w+$|gcs\w+$")
SECOND_IS_DESTINATION = re.compile(r"(ldt?(add|clr|eor|set|[su](max|min))|swpt?|rcws?(clr|set|swp))a?l?[bh]?")
TWO_DESTINATIONS = re.compile(r"ldt?n?p|ldpsw|lda?xp|ldiapp|mrrs")
EIGHT = re.compile(r"(st64b(?:v0?)?|ld64b) (?:x\w+, )?x(\d+), \[")


def uses(text: str, number: int) -> tuple[bool, bool]:
    """Whether an instruction reads a register, and whether it writes it, by LLVM's text."""
    mnemonic, _, rest = text.partition(" ")
    operands = re.split(r",\s*(?![^\[{]*[\]}])", rest)
    eight = EIGHT.match(text)
    among = eight is not None and int(eight[2]) <= number < int(eight[2]) + 8
    named = [k for k, operand in enumerate(operands) if re.search(rf"\b[wx]{number}\b", operand)]
    if SOURCES_ONLY.match(mnemonic):
        return bool(named) or among, False
    if SECOND_IS_DESTINATION.fullmatch(mnemonic):
        written = {1}
    else:
        written = {0, 1} if TWO_DESTINATIONS.fullmatch(mnemonic) else {0}
    read = {k for k in named if k not in written or "[" in operands[k] or (not k and FIRST_IS_BOTH.match(mnemonic))}
    if eight is not None and mnemonic != "ld64b":
        return bool(read - {1}) or among, 0 in named
    return bool(read), bool(written.intersection(named)) or among


# Of 16 words, those of one kind: mask and value.
GROUPS = (
    (range(7), (0x0A000000, 0x08000000)),  # loads and stores
    (range(7, 8), (0xFFC00000, 0xD5000000)),  # system instructions
    (range(8, 9), (0xFFC00000, 0xD5400000)),
    (range(9, 10), (0x1C000000, 0x14000000)),  # branches
    (range(10, 11), (0xFFFF0000, 0xDAC10000)),  # of signed pointers
    (range(11, 12), (0xFFC0001F, 0xF380001F)),
    (range(12, 13), (0xFF20F000, 0x04205000)),  # vectors' lengths
    (range(13, 14), (0xFF30F000, 0x0420E000)),
    (range(14, 15), (0x5F20FC00, 0x1E200000)),  # from and to floating point
    (range(15, 16), (0xDF200000, 0x05200000)),  # vectors, predicates and counts
)


def random_words(count: int, number: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Words of every group, many with a register, or the one before it, where registers may be named."""
    seed = random.Random(304)  # noqa: S311 - not a secret
    words = []
    for k in range(count):
        word = seed.getrandbits(32)
        for part, (mask, value) in GROUPS:
            if k % 16 in part:
                word = word & ~mask | value
        for low in (0, 5, 10, 16):
            if seed.random() < 0.4:
                word = word & ~(31 << low) | seed.choice((number - 1, number)) << low
        words.append(word)
    return np.array(words, np.uint32)


def disassembled(words: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> dict[int, str]:
    """Text of the words that are instructions."""
    lines = [" ".join(f"{byte:#04x}" for byte in word.to_bytes(4, "little")) for word in words.tolist()]
    command = [LLVM, "--disassemble", "--triple=aarch64", "--mattr=+all"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    invalid = {int(line) for line in re.findall(r"^<stdin>:(\d+):\d+: warning: invalid", done.stderr, re.MULTILINE)}
    texts = [line.partition("//")[0].split() for line in done.stdout.splitlines() if line.strip() not in ("", ".text")]
    known = [word for number, word in enumerate(words.tolist(), start=1) if number not in invalid]
    return {word: " ".join(text).lower() for word, text in zip(known, texts, strict=True)}


@pytest.mark.thorough
@pytest.mark.parametrize("number", one_tested(9, 20, 21))
def test_llvm_says_the_same(number: int) -> None:
    """Of X9, and of registers that a value in X9 is moved to."""
    needs_tools(LLVM)
    texts = disassembled(random_words(250_000, number))
    words = np.array(list(texts), np.uint32)
    looked_at = look_over(words)[1] if number == X9 else np.ones(len(words), np.bool_)
    masks = may_read(words, number).tolist(), must_write(words, number).tolist(), looked_at.tolist()
    seen = Counter[str]()
    for (word, text), maybe, must, looked in zip(texts.items(), *masks, strict=True):
        read, written = uses(text, number)
        if HARMLESS.match(text):
            continue
        what = effect(word, number)
        assert maybe or what == ("write" if must else "neither"), f"{word:08x} {text}"
        said = f"{word:08x} {text}"
        assert looked >= (read or maybe or must), said
        if read:
            assert what == "read", said
        elif insn_text(word).startswith(".word"):
            assert what != "write" or written, said  # it may be called a read: capstone does not know it
        elif written:
            assert what != "read", said
        else:
            assert what == "neither", said
        seen["read" if read else "written" if written else "not used"] += 1
    assert min(seen.values()) > 8_000, seen
