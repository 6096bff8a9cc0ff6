"""The arguments of an event as the kernel fetches them, and the reasons why others cannot be had."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from prologue.dwarf.c_types import CType
from prologue.probe.btf_variables import BtfVariables
from prologue.probe.fetch import Fetch, FetchedValue, FetchError, fetch, follow
from prologue.probe.language import ArgumentRequest
from prologue.probe.refusals import fetch_refusal, symbol_of, type_refusal
from prologue.probe.scopes import Scope
from prologue.probe.storage import DECLARED, Address, InMemory, InRegister, Missing, Pieces, Storage, Sum
from prologue.words import meant

_LONGEST_NAME: Final = 32  # MAX_ARG_NAME_LEN of kernel/trace/trace_probe.h
_LONGEST_ARGUMENT: Final = 255  # MAX_ARGSTR_LEN, without the name, of the release that takes most
MOST_ARGUMENTS: Final = 128  # MAX_TRACE_ARGS
# Fields that every event has (kernel/trace/trace_probe.c, ``reserved_field_names``).
_RESERVED: Final = frozenset({
    "common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid",
    "__probe_ip", "__probe_ret_ip", "__probe_func",
})  # fmt: skip
VariablesAt = Scope | BtfVariables
"""The variables of a function at one of its instructions."""
ALL_VARIABLES: Final = (ArgumentRequest(asked="$vars", variable="$vars"),)
_PARAMETERS: Final = ArgumentRequest(asked="$params", variable="$params")
_TYPE: Final = re.compile(
    r"([usx](8|16|32|64)|b\d+@\d+/(8|16|32|64)|char|string|ustring|symbol|symstr)(\[\d+\])?", re.ASCII
)
_RETURN_REGISTER: Final = "$retval"
_LARGEST_RETURNED: Final = 16  # bytes of a struct in X0 and X1 (AAPCS64, 6.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of an event.

    ``fetch`` and ``type`` are the kernel's (type empty: 64 bits in hex), ``c_type`` is C's, empty for one that was
    given as a fetch argument; ``asked`` is what was asked for. ``value_type`` is the type of what the kernel prints:
    None if it is not known, or if another one was asked for.
    """

    name: str
    fetch: str
    type: str
    c_type: str
    asked: str
    value_type: CType | None = field(default=None, compare=False, repr=False)

    @property
    def value(self) -> str:
        """Fetch argument and type, as the kernel counts their characters."""
        return self.fetch + (f":{self.type}" if self.type else "")

    @property
    def is_text(self) -> bool:
        """True if its value is a string."""
        return "str" in self.type or self.fetch.startswith(("$comm", "$COMM", '\\"'))

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class Omitted:
    """An argument that an event does not have, or has in a lesser form (``is_partial``), and the reason.

    ``is_mistake`` if there is no such variable or member, or if the kernel would refuse the argument.
    """

    asked: str
    reason: str
    is_mistake: bool = False
    is_partial: bool = False


class DataSymbols(Protocol):
    """The symbols of the data of the kernel, or of a module."""

    module: str  # its name; empty for the kernel

    def symbol_at(self, vaddr: int) -> str:
        """Return ``SYMBOL+OFFSET`` for events; empty if no symbol is near."""

    def address_of(self, name: str) -> int | None:
        """Return the link-time address of a variable; None if there is none, or several."""

    def knows(self, name: str) -> bool:
        """Return whether the running kernel finds a symbol by this name."""

    def read_refusal(self, vaddr: int) -> str:
        """Return the reason why an event cannot read there; empty if it can."""


def find_arguments(
    requests: tuple[ArgumentRequest, ...] | None,
    variables: VariablesAt | None,
    data: DataSymbols,
    *,
    returns: bool = False,
    at_entry: bool = True,
) -> tuple[tuple[Argument, ...], tuple[Omitted, ...]]:
    """Find the arguments of an event.

    Args:
        requests: None for the default: the parameters, or, at a return, the function's value.
        variables: None if nothing describes the function.
        data: the kernel's symbols.
        returns: the event is of the function's return, where registers no longer have the parameters.
        at_entry: the event is of a function's first instruction.

    Returns:
        The arguments, with unique names, and those that cannot be had.

    """
    if requests is None:
        if variables is None or (returns and variables.return_type().kind == "void"):
            return (), ()
        requests = (ArgumentRequest(asked="$retval", variable="$retval") if returns else _PARAMETERS,)
    arguments: list[Argument] = []
    omitted: list[Omitted] = []
    for request in _expanded_requests(requests, variables, returns, omitted):
        try:
            if request.type and not _TYPE.fullmatch(request.type):
                known = "give u8 to u64, s8, x8, string, ustring, symbol ..."
                raise FetchError(f"{request.type} is no type of events: {known}", is_mistake=True)
            if request.raw:
                arguments.append(_raw_argument(request, data, at_entry=at_entry, returns=returns))
            else:
                arguments += _variable_arguments(request, variables, data, returns, omitted)
        except FetchError as error:
            omitted.append(Omitted(request.asked, error.reason, error.is_mistake))
    reason = f"an event has at most {MOST_ARGUMENTS} arguments"
    omitted += [Omitted(argument.asked, reason) for argument in arguments[MOST_ARGUMENTS:]]
    return _with_unique_names(arguments[:MOST_ARGUMENTS]), tuple(omitted)


def _expanded_requests(
    requests: tuple[ArgumentRequest, ...], variables: VariablesAt | None, returns: bool, omitted: list[Omitted]
) -> Iterator[ArgumentRequest]:
    """Yield the requests; ``$vars`` and ``$params`` become a request for each variable."""
    for request in requests:
        if request.variable not in ("$vars", "$params"):
            yield request
        elif variables is None:
            omitted.append(Omitted(request.asked, "no debug information describes this function"))
        elif returns:
            omitted.append(Omitted(request.asked, "at a return, registers no longer have them", is_mistake=True))
        else:
            listed = variables.parameters() if request.variable == "$params" else variables.variables()
            yield from (replace(request, asked=variable.name, variable=variable.name) for variable in listed)


def _variable_arguments(
    request: ArgumentRequest, variables: VariablesAt | None, data: DataSymbols, returns: bool, omitted: list[Omitted]
) -> Iterator[Argument]:
    start, name = _variable_value(request, variables, data, returns), request.variable.strip("$")
    for step in request.steps:  # as perf probe: the last member, or the variable; elements have their numbers
        name = step.member or f"{name}_{step.index}"
    name = request.name or name
    value = follow(start, request.steps, user=request.user)
    if isinstance(value.storage, Pieces) and value.type.kind == "struct" and not request.type:
        yield from _piece_arguments(request, name, value.type, value.storage)
        return
    fetched = fetch(value, request.type, user=request.user)
    if fetched.note:
        omitted.append(Omitted(request.asked, fetched.note, is_partial=True))
    yield _checked_argument(request, name, fetched, value.type)


def _variable_value(
    request: ArgumentRequest, variables: VariablesAt | None, data: DataSymbols, returns: bool
) -> FetchedValue:
    """Return the variable that a request begins with: of the function, otherwise of the kernel."""
    name = request.variable
    if name == _RETURN_REGISTER:
        return _return_value(variables, returns)
    if variables is None:
        variable = None
    elif returns and name in variables.names():
        raise FetchError("at a return, registers no longer have it: probe the entry", is_mistake=True)
    else:
        variable = variables.find(name)
    if variable is not None and not isinstance(variable.storage, Missing):
        return FetchedValue(variable.type, _with_symbol(variable.storage, data))
    if variable is not None and variable.storage != Missing(DECLARED):
        # A global variable of that name is another one.
        raise FetchError(variable.storage.reason if isinstance(variable.storage, Missing) else "")
    vaddr = data.address_of(name)
    if vaddr is None:
        if variables is None:
            raise FetchError("no debug information describes this function: give a fetch argument, such as %x0")
        hint = meant(name, variables.names())
        text = f"{variables.function_name} has no variable {name} here{hint and ': ' + hint}"
        raise FetchError(text, is_mistake=True)
    c_type = variables.global_type(name) if variables is not None else None
    if c_type is None:
        raise FetchError(f"the type of {name} is not known: give a fetch argument, @{name}:u64")
    return FetchedValue(c_type, _with_symbol(Address(vaddr), data))


def _return_value(variables: VariablesAt | None, returns: bool) -> FetchedValue:
    if not returns:
        raise FetchError("$retval is of a return: FUNC%return", is_mistake=True)
    if variables is None:
        return FetchedValue(CType(kind="int", name="", size=8), InRegister(_RETURN_REGISTER))
    c_type = variables.return_type()
    if c_type.kind == "void":
        raise FetchError(f"{variables.function_name} returns nothing", is_mistake=True)
    if c_type.kind == "struct":
        size = c_type.size or _LARGEST_RETURNED + 1
        if size > _LARGEST_RETURNED:
            raise FetchError(f"{c_type.name} is returned in memory, whose address no register has any more")
        if size > 8:
            return FetchedValue(c_type, Pieces(((64, InRegister("%x0")), (8 * size - 64, InRegister("%x1")))))
        return FetchedValue(c_type, InRegister("%x0"))
    return FetchedValue(c_type, InRegister(_RETURN_REGISTER))


def _with_symbol(storage: Storage, data: DataSymbols) -> Storage:
    if not isinstance(storage, Address):
        return storage
    refusal = data.read_refusal(storage.vaddr)
    symbol = data.symbol_at(storage.vaddr)
    if refusal or not symbol:
        raise FetchError(refusal or "no symbol is near it")
    name, *offset = re.split(r"(?=[+-]\d+$)", symbol)
    distance = int(offset[0]) if offset else 0
    return Sum(f"@{name}", distance) if storage.is_value else InMemory(f"@{name}", distance, is_symbol=True)


def _piece_arguments(request: ArgumentRequest, name: str, struct: CType, pieces: Pieces) -> Iterator[Argument]:
    """Yield an argument for each register of a struct, named by the byte that it begins with."""
    begin = 0
    if any(bits % 8 for bits, _ in pieces.parts):
        raise FetchError("it is in several registers: name a member")
    for size, storage in ((bits // 8, storage) for bits, storage in pieces.parts):
        try:
            fetched = fetch(FetchedValue(CType(kind="struct", name=struct.name, size=size), storage))
        except FetchError as error:
            raise FetchError(f"bytes {begin} to {begin + size - 1}: {error.reason}") from error
        yield _checked_argument(request, f"{name}_{begin}" if begin else name, fetched, struct)
        begin += size


def _raw_argument(request: ArgumentRequest, data: DataSymbols, *, at_entry: bool, returns: bool) -> Argument:
    register = re.fullmatch(r"\$arg(\d+)", request.raw)
    if register and int(register[1]) > 8:
        # arch/arm64/include/asm/ptrace.h, regs_get_kernel_argument: 0 for it (6.1 to 7.2)
        raise FetchError(
            f"the kernel reads 0 for it: after the eighth they are on the stack, +{8 * (int(register[1]) - 9)}(%sp)",
            is_mistake=True,
        )
    refusal, symbol = fetch_refusal(request.raw), symbol_of(request.raw)
    if not refusal and symbol and not data.knows(symbol):
        refusal = f"the running kernel has no symbol {symbol}"
    if not refusal and "$arg" in request.raw and not at_entry and not returns:
        refusal = "$argN is of a function's entry"
    if not refusal and register and data.module and not returns:
        # kernel/trace/trace_kprobe.c: no function begins where no symbol is known yet (6.1, 6.12).
        refusal = f"the kernel takes it only if {data.module} is loaded already: give %x{int(register[1]) - 1}"
    if not refusal and "$retval" in request.raw and not returns:
        refusal = "$retval is of a return: FUNC%return"
    if refusal:
        raise FetchError(refusal, is_mistake=True)
    name = request.name or re.sub(r"\W+", "_", request.raw, flags=re.ASCII).strip("_") or "value"
    return _checked_argument(request, f"_{name}" if name[0].isdigit() else name, Fetch(request.raw, request.type))


def _checked_argument(request: ArgumentRequest, name: str, fetched: Fetch, c_type: CType | None = None) -> Argument:
    refusal = type_refusal(fetched.text, fetched.type)
    if refusal:
        raise FetchError(refusal, is_mistake=True)
    if not name.isascii():
        raise FetchError(f"the kernel takes no name with other letters than ASCII: give NAME={request.asked}")
    type_name = c_type.name if c_type is not None else ""
    argument = Argument(
        name=name,
        fetch=fetched.text,
        type=fetched.type,
        c_type=type_name,
        asked=request.asked,
        value_type=None if request.type else c_type,
    )
    if len(argument.value) > _LONGEST_ARGUMENT:
        raise FetchError(f"{fetched.text} is longer than the {_LONGEST_ARGUMENT} characters that the kernel takes")
    return argument


def _with_unique_names(arguments: list[Argument]) -> tuple[Argument, ...]:
    """Give arguments unique names: the kernel refuses a name twice, and the names of its own fields."""
    used, result = set(_RESERVED), []
    for argument in arguments:
        name = unique_name(argument.name, _LONGEST_NAME, used)
        used.add(name)
        result.append(replace(argument, name=name))
    return tuple(result)


def unique_name(name: str, longest: int, used: Collection[str]) -> str:
    """Return the name, shortened to ``longest`` characters; with a number, ``NAME_1``, if it is used already."""
    result, number = name[:longest], 0
    while result in used:
        number += 1
        end = f"_{number}"
        result = name[: longest - len(end)] + end
    return result
