"""What a rule's mutations are: ways to break a real file that the rule must see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from prologue.rules.base import Rule
from tests.mutation.world import World

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
    mutate: Callable[[World], int | set[int]]
    of_before: bool = False  # it breaks the file that the whole one is compared with
    name: str = ""  # where a rule has several

    def runs(self, each: int) -> int:
        """How often it is tried: judging a whole kernel's memory, or its writes, takes as long as a dozen rules."""
        return -(-each // 4) if self.where[0].startswith(("booted", "recorded")) else each


def mutations_of(rule: Rule) -> tuple[Mutation, ...]:
    """Return those in the file of that name: PL101's are in pl101.py."""
    module = import_module(f"tests.mutation.{rule.code.lower()}")
    found = module.MUTATIONS if hasattr(module, "MUTATIONS") else (module.MUTATION,)
    assert all(isinstance(mutation, Mutation) for mutation in found)
    return tuple(found)
