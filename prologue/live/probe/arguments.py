"""The arguments of an event: what was asked for, as what the kernel fetches; and what cannot be had, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Protocol

from prologue.live.probe.c_types import CType
from prologue.live.probe.fetch import Fetch, FetchedValue, FetchError, fetch, follow
from prologue.live.probe.language import ArgumentRequest
from prologue.live.probe.locations import DECLARED, Address, Found, InMemory, InRegister, Missing, Pieces
from prologue.live.probe.refusals import symbol_of, why_not_fetched, why_not_typed
from prologue.live.probe.scopes import Variable

LONGEST_NAME: Final = 32  # MAX_ARG_NAME_LEN of kernel/trace/trace_probe.h
LONGEST: Final = 63  # MAX_ARGSTR_LEN, without the name
MOST: Final = 128  # MAX_TRACE_ARGS
# Fields that every event has (kernel/trace/trace_probe.c, ``reserved_field_names``).
_RESERVED: Final = frozenset({
    "common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid",
    "__probe_ip", "__probe_ret_ip", "__probe_func",
})  # fmt: skip
ALL_VARIABLES: Final = (ArgumentRequest(asked="$vars", variable="$vars"),)
_PARAMETERS: Final = ArgumentRequest(asked="$params", variable="$params")
_TYPE: Final = re.compile(
    r"([usx](8|16|32|64)|b\d+@\d+/(8|16|32|64)|char|string|ustring|symbol|symstr)(\[\d+\])?", re.ASCII
)
_RETURN_REGISTER: Final = "$retval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of an event.

    ``fetch`` and ``type`` are the kernel's (type empty: 64 bits in hex), ``c_type`` is C's, empty for one that was
    given as a fetch argument; ``asked`` is what was asked for.
    """

    name: str
    fetch: str
    type: str
    c_type: str
    asked: str

    def __str__(self) -> str:
        return f"{self.name}={self.fetch}" + (f":{self.type}" if self.type else "")


@dataclass(frozen=True, slots=True)
class Omitted:
    """What was asked for, and why an event does not have it, or not as it is.

    ``is_mistake`` if there is no such variable or member; ``is_partial`` if the event has it in a lesser form.
    """

    asked: str
    reason: str
    is_mistake: bool = False
    is_partial: bool = False


class VariablesAt(Protocol):
    """What is known of variables at one place: by DWARF (scopes.Scope) or by BTF."""

    @property
    def function_name(self) -> str:
        """The function that they are of."""

    def parameters(self) -> list[Variable]:
        """The function's parameters."""

    def variables(self) -> list[Variable]:
        """Parameters and locals."""

    def find(self, name: str) -> Variable | None:
        """One of them; None if there is none of that name."""

    def names(self) -> list[str]:
        """The names that ``find`` knows."""

    def return_type(self) -> CType:
        """What the function returns."""

    def global_type(self, name: str) -> CType | None:
        """The type of a global variable; None if it is not known."""


class Data(Protocol):
    """Where the kernel has its variables."""

    def symbol_at(self, vaddr: int) -> str:
        """``SYMBOL+OFFSET`` for events; empty if there is none."""

    def address_of(self, name: str) -> int | None:
        """Where a variable is, by its name."""

    def knows(self, name: str) -> bool:
        """Whether the running kernel finds a symbol by this name."""

    def why_not(self, vaddr: int) -> str:
        """Why an event cannot read there; empty if it can."""


def find_arguments(
    requests: tuple[ArgumentRequest, ...] | None,
    variables: VariablesAt | None,
    data: Data,
    *,
    returns: bool = False,
    at_entry: bool = True,
) -> tuple[tuple[Argument, ...], tuple[Omitted, ...]]:
    """Find arguments with unique names, and what cannot be had.

    Args:
        requests: None for what an event has if nothing is said: the parameters, or what is returned.
        variables: None if nothing describes the function.
        data: the kernel's symbols.
        returns: the event is of the function's return, where registers no longer have the parameters.
        at_entry: the event is of a function's first instruction.

    """
    if requests is None:
        if variables is None or (returns and variables.return_type().kind == "void"):
            return (), ()
        requests = (ArgumentRequest(asked="$retval", variable="$retval") if returns else _PARAMETERS,)
    found: list[Argument] = []
    omitted: list[Omitted] = []
    for request in _expanded(requests, variables, returns, omitted):
        try:
            _check_type(request)
            if request.raw:
                found.append(_raw(request, data, at_entry=at_entry, returns=returns))
            else:
                found += _arguments(request, variables, data, returns, omitted)
        except FetchError as error:
            omitted.append(Omitted(request.asked, error.reason, error.is_mistake))
    if len(found) > MOST:
        omitted += [Omitted(extra.asked, f"an event has at most {MOST} arguments") for extra in found[MOST:]]
    return _with_unique_names(found[:MOST]), tuple(omitted)


def _expanded(
    requests: tuple[ArgumentRequest, ...], variables: VariablesAt | None, returns: bool, omitted: list[Omitted]
) -> Iterator[ArgumentRequest]:
    """The requests, with what stands for several replaced by these."""
    for request in requests:
        if request.variable not in ("$vars", "$params"):
            yield request
        elif variables is None:
            omitted.append(Omitted(request.asked, "no debug information describes this function"))
        elif returns:
            omitted.append(Omitted(request.asked, "at a return, registers no longer have them", is_mistake=True))
        else:
            known = variables.parameters() if request.variable == "$params" else variables.variables()
            yield from (replace(request, asked=each.name, variable=each.name) for each in known)


def _check_type(request: ArgumentRequest) -> None:
    if request.type and not _TYPE.fullmatch(request.type):
        raise FetchError(
            f"{request.type} is no type of events: give u8 to u64, s8, x8, string, ustring, symbol ...", is_mistake=True
        )


def _arguments(
    request: ArgumentRequest, variables: VariablesAt | None, data: Data, returns: bool, omitted: list[Omitted]
) -> Iterator[Argument]:
    start, name = _start(request, variables, data, returns), request.name or _default_name(request)
    place = follow(start, request.steps, user=request.user)
    if isinstance(place.found, Pieces) and place.type.kind == "struct" and not request.type:
        yield from _pieces(request, name, place, place.found)
        return
    found = fetch(place, request.type, user=request.user)
    if found.note:
        omitted.append(Omitted(request.asked, found.note, is_partial=True))
    yield _made(request, name, found, place.type)


def _start(request: ArgumentRequest, variables: VariablesAt | None, data: Data, returns: bool) -> FetchedValue:
    name = request.variable
    if name == _RETURN_REGISTER:
        return _returned(variables, returns)
    if variables is None:
        variable = None
    elif returns and name in variables.names():
        raise FetchError("at a return, registers no longer have it: probe the entry", is_mistake=True)
    else:
        variable = variables.find(name)
    if variable is not None and not isinstance(variable.found, Missing):
        return FetchedValue(variable.type, _with_symbol(variable.found, data))
    if variable is not None and variable.found != Missing(DECLARED):
        # A global variable of that name is another one.
        raise FetchError(variable.found.reason if isinstance(variable.found, Missing) else "")
    vaddr = data.address_of(name)
    if vaddr is None:
        raise _unknown(name, variables)
    kind = variables.global_type(name) if variables is not None else None
    if kind is None:
        raise FetchError(f"the type of {name} is not known: give a fetch argument, @{name}:u64")
    return FetchedValue(kind, _with_symbol(Address(vaddr), data))


def _returned(variables: VariablesAt | None, returns: bool) -> FetchedValue:
    if not returns:
        raise FetchError("$retval is of a return: FUNC%return", is_mistake=True)
    if variables is None:
        return FetchedValue(CType(kind="int", name="", size=8), InRegister(_RETURN_REGISTER))
    kind = variables.return_type()
    if kind.kind == "void":
        raise FetchError(f"{variables.function_name} returns nothing", is_mistake=True)
    if kind.kind == "struct" and (kind.size or 99) > 8:
        if (kind.size or 99) > 16:
            raise FetchError(f"{kind.name} is returned in memory, whose address no register has any more")
        size = kind.size or 16
        return FetchedValue(kind, Pieces(((8, InRegister("%x0")), (size - 8, InRegister("%x1")))))
    return FetchedValue(kind, InRegister("%x0" if kind.kind == "struct" else _RETURN_REGISTER))


def _with_symbol(found: Found, data: Data) -> Found:
    if not isinstance(found, Address):
        return found
    why = data.why_not(found.vaddr)
    symbol = data.symbol_at(found.vaddr)
    if why or not symbol:
        raise FetchError(why or "no symbol is near it")
    return InMemory(f"@{symbol}")


def _unknown(name: str, variables: VariablesAt | None) -> FetchError:
    if variables is None:
        return FetchError("no debug information describes this function: give a fetch argument, such as %x0")
    near = get_close_matches(name, variables.names(), 3)
    hint = f"; near: {', '.join(near)}" if near else ""
    return FetchError(f"{variables.function_name} has no variable {name} here{hint}", is_mistake=True)


def _pieces(request: ArgumentRequest, name: str, place: FetchedValue, found: Pieces) -> Iterator[Argument]:
    """A struct in several registers: an argument for each, named by the byte that it begins with."""
    begin = 0
    for size, part in found.parts:
        whole = CType(kind="struct", name=place.type.name, size=size)
        try:
            got = fetch(FetchedValue(whole, part))
        except FetchError as error:
            raise FetchError(f"bytes {begin} to {begin + size - 1}: {error.reason}") from error
        yield _made(request, f"{name}_{begin}" if begin else name, got, place.type)
        begin += size


def _raw(request: ArgumentRequest, data: Data, *, at_entry: bool, returns: bool) -> Argument:
    register = re.fullmatch(r"\$arg(\d+)", request.raw)
    if register and int(register[1]) > 8:
        # arch/arm64/include/asm/ptrace.h, regs_get_kernel_argument: 0 for it (6.1 to 7.2)
        raise FetchError(
            f"the kernel reads 0 for it: after the eighth they are on the stack, +{8 * (int(register[1]) - 9)}(%sp)",
            is_mistake=True,
        )
    why, symbol = why_not_fetched(request.raw), symbol_of(request.raw)
    if not why and symbol and not data.knows(symbol):
        why = f"the running kernel has no symbol {symbol}"
    if not why and "$arg" in request.raw and not at_entry and not returns:
        why = "$argN is of a function's entry"
    if not why and "$retval" in request.raw and not returns:
        why = "$retval is of a return: FUNC%return"
    if why:
        raise FetchError(why, is_mistake=True)
    name = request.name or re.sub(r"\W+", "_", request.raw, flags=re.ASCII).strip("_") or "value"
    return _made(request, f"_{name}" if name[0].isdigit() else name, Fetch(request.raw, request.type))


def _default_name(request: ArgumentRequest) -> str:
    """As perf probe: the last member, or the variable; elements with their numbers."""
    name = request.variable.strip("$")
    for step in request.steps:
        name = step.member or f"{name}_{step.index}"
    return name


def _made(request: ArgumentRequest, name: str, found: Fetch, kind: CType | None = None) -> Argument:
    if len(f"{found.text}:{found.type}") > LONGEST:
        raise FetchError(f"{found.text} is longer than the {LONGEST} characters that the kernel takes")
    why = why_not_typed(found.text, found.type)
    if why:
        raise FetchError(why, is_mistake=True)
    if not name.isascii():
        raise FetchError(f"the kernel takes no name with other letters than ASCII: give NAME={request.asked}")
    c_type = kind.name if kind is not None else ""
    return Argument(name=name, fetch=found.text, type=found.type, c_type=c_type, asked=request.asked)


def _with_unique_names(arguments: list[Argument]) -> tuple[Argument, ...]:
    """The kernel refuses a name twice, and the names of its own fields."""
    used, result = set(_RESERVED), []
    for argument in arguments:
        name, number = argument.name[:LONGEST_NAME], 0
        while name in used:
            number += 1
            end = f"_{number}"
            name = argument.name[: LONGEST_NAME - len(end)] + end
        used.add(name)
        result.append(replace(argument, name=name))
    return tuple(result)
