"""``prologue transition``."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from dataclasses import asdict
from typing import Final

from prologue.cli.arguments import add_json
from prologue.cli.subcommands import Subcommand
from prologue.errors import UsageError
from prologue.insn import a64
from prologue.insn.cmodx import judge
from prologue.insn.table import CLASSES

SCHEMA: Final = "prologue.transition/1"

_FIXED: Final = {
    "nop": a64.NOP, "bti": a64.BTI, "bti c": a64.BTI_C, "bti j": a64.BTI_J, "bti jc": a64.BTI_JC,
    "paciasp": a64.PACIASP, "autiasp": a64.AUTIASP, "ret": a64.RET, "ret x30": a64.RET,
    "mov x9, x30": a64.MOV_X9_X30, "mov x9, lr": a64.MOV_X9_X30, "mov": a64.MOV_X9_X30,
}  # fmt: skip
_WORD: Final = re.compile("0x[0-9a-f]{1,8}|[0-9a-f]{8}")
_INSN: Final = re.compile("[a-z][a-z0-9.]*( [^=:;][^:;]*)?")  # one, without a label; no assignment
_CONDITIONS: Final = "eq ne cs hs cc lo mi pl vs vc hi ls ge lt gt le al nv"


def add_options(command: Subcommand) -> None:
    """Give ``transition`` its options."""
    command.add_argument("old", metavar="OLD", help="mnemonic, or 32-bit word as 0x...")
    command.add_argument("new", metavar="NEW", help="mnemonic, or 32-bit word as 0x...")
    command.add_argument(
        "--issue",
        choices=("old", "new"),
        default="old",
        metavar="OLD",
        help="older or newer issues of the Arm ARM (default: old)",
    )
    add_json(command, "transition")


def run(args: Namespace) -> int:
    """Print the verdict; 1 if the transition is not safe live."""
    verdict = judge(word_of(args.old), word_of(args.new), args.issue, changes=_changes(args.old, args.new))
    if args.json:
        print(json.dumps({"schema": SCHEMA, **asdict(verdict)}, indent=2))
    elif not (verdict.allowed and args.quiet):
        print(f"{verdict.old} -> {verdict.new}: {'safe' if verdict.allowed else 'NOT safe'} live: {verdict.reason}")
        print(f"source: {verdict.citation}")
    return 0 if verdict.allowed else 1


def _changes(old: str, new: str) -> bool:
    """Return whether the word changes; where a class stands for it, it does unless both have the same operands."""
    if _class_of(old) is None and _class_of(new) is None:
        return word_of(old) != word_of(new)
    return _plain(old) != _plain(new) or " " not in _plain(old)


def known_mnemonics() -> tuple[str, ...]:
    """Return mnemonics that need no operands, as words of a command line."""
    fixed = (name for name in _FIXED if " " not in name)
    return tuple(dict.fromkeys([*fixed, *(name.lower() for name in CLASSES if " " not in name)]))


def word_of(text: str) -> int:
    """Turn a word in hex or a mnemonic, with or without operands, into an instruction word.

    Raises:
        UsageError: neither, or assembly that needs keystone and it is not installed.

    """
    plain = _plain(text)
    if _WORD.fullmatch(plain):
        return int(plain, 16)
    if plain in _FIXED:
        return _FIXED[plain]
    # The class decides whether an instruction is listed, so operands may be missing.
    name = _class_of(text)
    return _assemble(text) if name is None else CLASSES[name][1]


def _plain(text: str) -> str:
    return re.sub(r"\s*,\s*", ", ", " ".join(text.lower().split()))


def _class_of(text: str) -> str | None:
    """Return the class that a mnemonic stands for; None if the text is a certain word."""
    plain = _plain(text)
    if plain in _FIXED or _WORD.fullmatch(plain):
        return None
    mnemonic = plain.split(" ")[0]
    if re.fullmatch(rf"b\.(cond|{_CONDITIONS.replace(' ', '|')})", mnemonic):
        mnemonic = "b.cond"
    return next((name for name in CLASSES if name.lower() == mnemonic), None)


def _assemble(text: str) -> int:
    plain = _plain(text)  # keystone also ends statements at carriage returns
    if not _INSN.fullmatch(plain):  # from "-1", "x: *" and "x =y," keystone never returns
        raise UsageError(f"{text!r} is neither a mnemonic nor a 32-bit word (0x...)")
    try:
        import keystone
    except ImportError:
        raise UsageError(
            f"{text!r}: unknown mnemonic; give the 32-bit word (0x...), or install keystone-engine"
        ) from None
    engine = keystone.Ks(keystone.KS_ARCH_ARM64, keystone.KS_MODE_LITTLE_ENDIAN)
    try:
        code, _ = engine.asm(plain)
    except keystone.KsError as error:
        raise UsageError(f"{text!r} does not assemble: {error}; give the 32-bit word (0x...)") from None
    if not code or len(code) != 4:
        raise UsageError(f"{text!r} is not one instruction")
    return int.from_bytes(bytes(code), "little")
