"""Arguments that a kernel refuses: such a line is lost, and with it all lines after it that are written at once.

kernel/trace/trace_probe.c, ``parse_probe_arg`` and ``traceprobe_parse_probe_arg_body`` (6.1.192 to 7.3.4);
arch/arm64/kernel/ptrace.c, ``regoffset_table``.
"""

from __future__ import annotations

import re
from typing import Final

from prologue.dwarf.c_types import MOST_ELEMENTS

_NUMBER: Final = r"(?P<number>0[xX][0-9a-fA-F]+|[1-9]\d*|0[0-7]*)"  # as kstrtoul() takes it with base 0
_LONGEST_NUMBER: Final = 64  # digits; of 64 bits, 23 are needed, in octal
_REGISTER: Final = re.compile(r"%(?:x(?:[12]?\d|30)|lr|sp|pc|pstate)", re.ASCII)
_VARIABLE: Final = re.compile(r"\$(?:stack(?P<entry>\d{0,4})|comm|COMM|retval|arg[1-8])", re.ASCII)
_STACK_ENTRIES: Final = 2048  # PARAM_MAX_STACK: THREAD_SIZE, of at least 16 KiB, in registers
_MEMORY: Final = re.compile(
    rf"@(?:(?=\d)|(?P<symbol>[A-Za-z_][\w.$]*)(?=[+-]|$))(?:(?P<sign>[+-])?{_NUMBER})?", re.ASCII
)
_IMMEDIATE: Final = re.compile(rf"\\(?:(?P<sign>[+-])?{_NUMBER}|\".*\")", re.ASCII)
_DEREFERENCE: Final = re.compile(rf"(?P<sign>\+u?[+-]?|-u?){_NUMBER}\((?P<inner>.+)\)", re.ASCII)
_STRINGS: Final = ("$comm", "$COMM")
_DEEPEST: Final = 12  # of the 16 steps of FETCH_INSN_MAX, some are for symbol, store and end
_BIT_FIELD: Final = re.compile(r"b(\d+)@(\d+)/(\d+)", re.ASCII)


def fetch_refusal(fetch: str) -> str:
    """Return the reason why no kernel takes this fetch argument, or that it is not known; empty if kernels do.

    ``$arg*`` (6.4), which takes arguments on the stack from other places, and ``$current`` (7.3) are not passed on.
    """
    inner, depth = fetch, 0
    while (match := _DEREFERENCE.fullmatch(inner)) is not None:
        if not _fits(match):
            return _does_not_fit(match)
        inner, depth = match["inner"], depth + 1
    if depth > _DEEPEST:
        return f"the kernel follows at most {_DEEPEST} pointers"
    if depth and (inner in _STRINGS or inner.startswith('\\"')):
        return f"{inner} is a string, not an address"
    variable = _VARIABLE.fullmatch(inner)
    if variable is not None and int(variable["entry"] or 0) > _STACK_ENTRIES:
        return f"$stackN is one of {_STACK_ENTRIES} entries of the stack"
    match = _MEMORY.fullmatch(inner) or _IMMEDIATE.fullmatch(inner)
    if match is not None:
        return "" if _fits(match) else _does_not_fit(match)
    if _REGISTER.fullmatch(inner) or variable is not None:
        return ""
    return (
        f"{inner} is not known here: give %x0 to %x30, %sp, $arg1 to $arg8, $stackN, $comm, @SYMBOL or +N(...); "
        "all parameters are $params"
    )


def _fits(match: re.Match[str]) -> bool:
    """Return whether the kernel takes the number, if there is one: of 64 bits, and signed if it has a sign."""
    digits, sign = match["number"] or "0", match["sign"]
    if len(digits) > _LONGEST_NUMBER:
        return False
    value = int(digits, 16 if digits[1:2] in ("x", "X") else 8 if digits[0] == "0" else 10)
    return value < 1 << 64 if sign is None else value < (1 << 63) + ("-" in sign)


def _does_not_fit(match: re.Match[str]) -> str:
    return f"{match['number']} does not fit into 64 bits{' with a sign' if match['sign'] else ''}"


def symbol_of(fetch: str) -> str:
    """Return the symbol that a fetch argument reads at; empty if there is none."""
    match = _MEMORY.fullmatch(fetch[fetch.rfind("(") + 1 :].rstrip(")"))
    return (match["symbol"] or "") if match is not None else ""


def type_refusal(fetch: str, kind: str) -> str:
    """Return the reason why no kernel reads this fetch argument as that type; empty if kernels do."""
    base, bracket, count = kind.rstrip("]").partition("[")
    if bracket and (count[:1] in ("", "0") or len(count) > len(str(MOST_ELEMENTS)) or int(count) > MOST_ELEMENTS):
        return f"{kind}: an array has 1 to {MOST_ELEMENTS} elements, and their number begins with no 0"
    is_string = fetch in _STRINGS or fetch.startswith('\\"')
    if is_string and kind not in ("", "string"):
        return f"{fetch} is a string, and has no other type"
    if base == "symstr" and (bracket or fetch == "$stack" or fetch[0] == "\\" or fetch[:2] in ("+u", "-u")):
        return f"the kernel refuses {fetch} as {kind}: a symstr is one value, of a register, the stack or kernel memory"
    no_memory = "%$" if base in ("string", "ustring") else "%$\\" if bracket else ""
    if fetch[0] in no_memory and not is_string:
        return f"the kernel refuses {fetch} as {kind}, which is read from memory: give +0({fetch}):{kind}"
    if bracket and fetch[:2] in ("+u", "-u") and base not in ("string", "ustring"):
        return f"the kernel refuses {fetch} as {kind}: an array of numbers is read from kernel memory only"
    field = _BIT_FIELD.fullmatch(base)
    if field is not None and not 0 < int(field[1]) <= int(field[3]) - int(field[2]):
        return f"{base} is no bit field of {field[3]} bits"
    return ""
