"""What a rule's mutations are: ways to break a real file that the rule must see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeVar

from prologue.rules.base import Rule

Where = Literal[
    "6.1", "6.12", "module", "module 4,2", "signed", "native 6.1", "native 6.12", "booted 6.1", "booted 6.12",
    "recorded 6.1", "recorded 6.12",
]  # fmt: skip
BOTH: tuple[Where, ...] = ("6.1", "6.12")
BOOTED: tuple[Where, ...] = ("booted 6.1", "booted 6.12")
RECORDED: tuple[Where, ...] = ("recorded 6.1", "recorded 6.12")
ALL: tuple[Where, ...] = (*BOTH, "module", "module 4,2")

NONE = 1 << 65  # an address that nothing has: the finding is about the file
# Instructions that no list has, and that are neither NOP, MOV X9, X30 nor a landing pad.
OFF_LIST = (0xAA0503E5, 0xD503203F, 0x91000000, 0xF9400000, 0xD65F03C0, 0xD503233F, 0x8B010000, 0xB9000000)


@dataclass(frozen=True, slots=True)
class Mutation:
    """In which real files, and how; ``mutate`` returns the address(es) of which the rule must name one."""

    where: tuple[Where, ...]
    mutate: Callable[[Any], int | set[int]]
    of_before: bool = False  # it breaks the file that the whole one is compared with
    name: str = ""  # where a rule has several

    def runs(self, each: int) -> int:
        """How often it is tried: judging a whole kernel's memory, or its writes, takes as long as a dozen rules."""
        return -(-each // 4) if self.where[0].startswith(("booted", "recorded")) else each


_Mutate = TypeVar("_Mutate", bound=Callable[[Any], int | set[int]])
_MUTATIONS: defaultdict[str, list[Mutation]] = defaultdict(list)


def mutation(
    code: str, where: tuple[Where, ...], name: str = "", *, of_before: bool = False
) -> Callable[[_Mutate], _Mutate]:
    """Make a function a mutation of a rule; files of the kind ``where`` are opened as the world that it takes."""

    def add(mutate: _Mutate) -> _Mutate:
        _MUTATIONS[code].append(Mutation(where, mutate, of_before, name))
        return mutate

    return add


def mutations_of(rule: Rule) -> tuple[Mutation, ...]:
    """Return those in the file of the rule's group: PL101's are in pl1.py."""
    import_module(f"tests.mutation.{rule.code[:3].lower()}")
    return tuple(_MUTATIONS[rule.code])
