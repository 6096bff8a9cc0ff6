"""For every rule, ways to break a real file that it must see. Each returns where it broke it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.mutation import mutate_files, mutate_records, mutate_sites, mutate_text
from tests.mutation.world import World

Where = Literal["6.1", "6.12", "module", "module 4,2", "signed"]


@dataclass(frozen=True, slots=True)
class Mutator:
    """What it breaks, in which real files, and how."""

    code: str
    where: tuple[Where, ...]
    mutate: Callable[[World], int | set[int]]  # address(es) of which one must be named


BOTH: tuple[Where, ...] = ("6.1", "6.12")
ALL: tuple[Where, ...] = ("6.1", "6.12", "module", "module 4,2")
MUTATORS = (
    Mutator("PL101", BOTH, mutate_records.pl101),
    Mutator("PL102", BOTH, mutate_records.pl102),
    Mutator("PL103", ("6.1", "module", "module 4,2"), mutate_records.pl103),
    Mutator("PL104", ("6.1",), mutate_records.pl104),
    Mutator("PL105", ALL, mutate_records.pl105),
    Mutator("PL106", ALL, mutate_records.pl106),
    Mutator("PL107", ("6.12",), mutate_records.pl107),
    Mutator("PL108", ("6.1",), mutate_records.pl108),
    Mutator("PL109", ALL, mutate_records.pl109),
    Mutator("PL110", ALL, mutate_records.pl110),
    Mutator("PL201", ALL, mutate_sites.pl201),
    Mutator("PL202", ALL, mutate_sites.pl202),
    Mutator("PL203", ALL, mutate_sites.pl203),
    Mutator("PL204", ("6.12", "module 4,2"), mutate_sites.pl204),
    Mutator("PL205", ("6.12",), mutate_sites.pl205),
    Mutator("PL206", BOTH, mutate_sites.pl206),
    Mutator("PL207", ALL, mutate_sites.pl207),
    Mutator("PL301", BOTH, mutate_text.pl301),
    Mutator("PL302", ALL, mutate_text.pl302),
    Mutator("PL303", ALL, mutate_text.pl303),
    Mutator("PL304", ALL, mutate_text.pl304),
    Mutator("PL305", BOTH, mutate_text.pl305),
    Mutator("PL306", BOTH, mutate_text.pl306),
    Mutator("PL307", ("module", "module 4,2"), mutate_text.pl307),
    Mutator("PL308", BOTH, mutate_text.pl308),
    Mutator("PL309", BOTH, mutate_text.pl309),
    Mutator("PL310", BOTH, mutate_text.pl310),
    Mutator("PL401", BOTH, mutate_files.pl401),
    Mutator("PL402", BOTH, mutate_files.pl402),
    Mutator("PL403", ALL, mutate_files.pl403),
    Mutator("PL404", BOTH, mutate_files.pl404),
    Mutator("PL405", ("signed",), mutate_files.pl405),
    Mutator("PL406", ALL, mutate_files.pl406),
)
