"""Instructions that versions of OpenCSD know: a branch that a version takes for a plain instruction leads it astray.

Each version's ``trc_idec_arminst.cpp`` and the list of versions in OpenCSD's README.md, from 1.2 to 1.8.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U32, Bool
from prologue.insn import decode, table
from prologue.insn.disasm import insn_text

DecoderVersion = tuple[int, ...]
_RETURN_REGISTER: Final = table.pattern("RETAASPPCR, RETABSPPCR")  # with register 31 RETAA, RETAB
_TEXIT: Final = table.pattern("TEXIT")
_SINCE: Final = (
    (table.pattern("BC.cond"), (1, 3, 0)),
    (decode.RETURN_PC, (1, 5, 1)),
    (_RETURN_REGISTER, (1, 5, 1)),
    (decode.CB_COND, (1, 6, 0)),
    (_TEXIT, (1, 8, 0)),
)
"""First versions that follow instructions; a later row replaces an earlier one."""
_AUTHENTICATED: Final = tuple(
    table.pattern(name)
    for name in ("BRAA, BRAB", "BLRAA, BLRAB", "BRAAZ, BRABZ", "BLRAAZ, BLRABZ", "ERETAA, ERETAB", "RETAA, RETAB")
)
"""Instructions that every version follows if it was told that the core has Armv8.3."""
_NAMES: Final = {0xD6FF03E0: "texit", 0xD6FF07E0: "texit nb"}


class Decoder(NamedTuple):
    """The OpenCSD that followed a program; ``version`` is None for perf's text, which does not name it."""

    version: DecoderVersion | None = None
    authenticates: bool = False
    """Whether it surely follows branches with pointer authentication."""

    def may_ignore(self, words: U32) -> Bool:
        """Return which branches it may have taken for plain instructions; shape of ``words``."""
        is_unknown = np.zeros(words.shape, np.bool_)
        for pattern, since in _SINCE:
            if self.version is None or self.version < since:
                is_unknown |= decode.matches(words, pattern)
        authenticated = np.zeros(words.shape, np.bool_)
        for pattern in _AUTHENTICATED:
            authenticated |= decode.matches(words, pattern)
        return is_unknown & ~authenticated if self.authenticates else is_unknown | authenticated

    def why(self, word: int) -> str:
        """Say why it ignored an instruction, and which versions do not."""
        name, since = name_of(word), _since(word)
        if since is None:
            return f"the decoder follows {name} only if it is told that the core has Armv8.3 or later"
        known = ".".join(map(str, since))
        if self.version is None:
            return f"the decoder may not know {name}: OpenCSD knows it from {known} on; decode with such a version"
        version = ".".join(map(str, self.version))
        return f"OpenCSD {version} does not know {name}: decode with {known} or later"


def name_of(word: int) -> str:
    """Return the mnemonic of a word, also if capstone does not know the instruction."""
    number = np.array([word], np.uint32)
    if decode.matches(number, decode.RETURN_PC)[0]:
        return "retabsppc" if word >> 21 & 1 else "retaasppc"
    if _since(word) == (1, 5, 1):
        return "retabsppcr" if word >> 10 & 1 else "retaasppcr"
    return _NAMES.get(word) or insn_text(word).partition(" ")[0]


def _since(word: int) -> DecoderVersion | None:
    """Return the first version that knows an instruction; None if that depends on the core that it was told."""
    number = np.array([word], np.uint32)
    if any(decode.matches(number, pattern)[0] for pattern in _AUTHENTICATED):
        return None
    return next((since for pattern, since in _SINCE if decode.matches(number, pattern)[0]), None)
