"""What instructions do with X9, asked of LLVM's disassembler, which knows many that capstone does not."""

from __future__ import annotations

import random
import re
import subprocess

import numpy as np
import pytest

from prologue.insn.x9 import effect, look_over, may_read, must_write
from tests.support.needs import needs_tools

LLVM = "llvm-mc-19"
TWO_DESTINATIONS = re.compile(r"ldt?n?p|ldpsw|lda?xp|mrrs")
SECOND_IS_DESTINATION = re.compile(r"(ld(add|clr|eor|set|[su](max|min))|swp)a?l?[bh]?")
FIRST_IS_DESTINATION_TOO = re.compile(r"movk|bfi|bfxil|bfc|bfm")  # a field of it; see effect()
ONLY_SOURCES = re.compile(
    r"st(?!l?xr|l?xp|64bv)|cas|rcw|swpp|ld(clr|set)p|cb|tb|cmp|cmn|tst|ccm|cpy|set|br|blr|ret|msr|dc|ic|at$|tlbi|sysp?$|cfp"
    r"|cosp|cpp|dvp|rmif|prf|ldg$|gcs|wfet|wfit|ctermeq|ctermne|aut|pac|xpac|inc|dec|[su]q(inc|dec)|brb|trcit|plbi"
)


def source_operands(text: str) -> list[str]:
    """The operands that an instruction reads, and memory operands, which are never written alone."""
    mnemonic, _, rest = text.partition(" ")
    operands = re.split(r",\s*(?![^\[{]*[\]}])", rest)
    if SECOND_IS_DESTINATION.fullmatch(mnemonic):
        return [operands[0], *operands[2:]]
    if ONLY_SOURCES.match(mnemonic):
        return operands
    count = 2 if TWO_DESTINATIONS.fullmatch(mnemonic) else 1
    return [operand for k, operand in enumerate(operands) if k >= count or "[" in operand]


def random_words(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Words of every group, many with 8 or 9 where registers may be named."""
    seed = random.Random(304)  # noqa: S311 - not a secret
    words = []
    for k in range(count):
        word = seed.getrandbits(32)
        if k % 4 < 2:
            word = word & ~0x0A000000 | 0x08000000  # loads and stores
        elif k % 8 == 2:
            word = word & 0x003FFFFF | seed.choice((0xD5000000, 0xD5400000, 0xD5800000))
        elif k % 8 == 6:
            word = word & ~(7 << 26) | 5 << 26  # branches
        for low in (0, 5, 10, 16):
            if seed.random() < 0.4:
                word = word & ~(31 << low) | seed.choice((8, 9)) << low
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
def test_no_read_is_overlooked() -> None:
    needs_tools(LLVM)
    texts = disassembled(random_words(400_000))
    words = np.array(list(texts), np.uint32)
    reads = 0
    for word, maybe, must, named in zip(
        words.tolist(), may_read(words).tolist(), must_write(words).tolist(), look_over(words)[1].tolist(), strict=True
    ):
        text = texts[word]
        if not any(re.search(r"\b[wx]9\b", operand) for operand in source_operands(text)):
            continue
        reads += 1
        assert named, f"{word:08x} {text}"
        assert maybe, f"{word:08x} {text} is taken for {'a write' if must else 'nothing'}"
        half_spilled = re.match(r"(str|stp) .*\bw9\b.*\[sp", text) is not None
        if not half_spilled and not FIRST_IS_DESTINATION_TOO.match(text):
            assert effect(word) == "read", f"{word:08x} {text}"
    assert reads > 30_000
