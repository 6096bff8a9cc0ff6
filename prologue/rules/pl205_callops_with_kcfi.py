"""PL205: CALL_OPS together with kCFI, or a wrong kCFI hash."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject

_HANDLER = "report_cfi_failure"  # kernel/cfi.c, CONFIG_CFI_CLANG (6.1 and later)
# What Clang defines for functions that are declared where their address is taken, in whatever language they are.
_TYPEID = "__kcfi_typeid_"


def check(subject: Subject) -> Iterator[Hit]:
    """Report traces of kCFI in a CALL_OPS file; and the hash before every traced function that a symbol gives one.

    Assembly has a hash only if SYM_TYPED_FUNC_START writes one; nothing else may be called through a pointer.
    """
    binary, sites = subject.binary, subject.sites
    hashes = binary.symbols.with_prefix(_TYPEID)
    handler = binary.symbols.find(_HANDLER)
    if len(sites) and sites.layout == "4,2" and (handler or hashes):
        where = handler.vaddr if handler else int(sites.entry[0])
        name = _HANDLER if handler else hashes[0].name
        yield Hit(where, f"CALL_OPS records, but {name} indicates kCFI: both use the words before a function")
        return
    compiled = set(sites.entry.tolist()) if hashes else set()
    for typeid in hashes:
        function = binary.symbols.find(typeid.name.removeprefix(_TYPEID))
        if function is None or function.vaddr not in compiled:
            continue
        place = np.array([function.vaddr - 4], np.uint64)
        if not binary.text.in_text(place)[0]:
            continue
        word, expected = int(binary.text.words(place)[0]), typeid.vaddr & 0xFFFFFFFF
        if word != expected:
            yield Hit(int(place[0]), f"kCFI hash is {word:08x}, expected {expected:08x}", (word,), (expected,))


RULE = Rule(
    code="PL205",
    slug="callops-with-kcfi",
    severity="fatal",
    inputs=("V", "K"),
    finds_insns=True,
    what="A kernel with both CALL_OPS and kCFI; or a traced function whose kCFI hash differs from its "
    "`__kcfi_typeid_` symbol.",
    why="kCFI keeps a type hash in the word before a function, and CALL_OPS writes a pointer over the 8 bytes there "
    "at boot. With both, every indirect call to a traceable function traps; with a wrong hash, those to that function.",
    example="ffff800080010420 T report_cfi_failure, and records 8 bytes before functions",
    fix="choose one: CONFIG_CFI_CLANG excludes CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS; link again",
    citation='kernel arch/arm64/Kconfig "HAVE_DYNAMIC_FTRACE_WITH_CALL_OPS", kernel/cfi.c (6.12)',
    check=check,
)
