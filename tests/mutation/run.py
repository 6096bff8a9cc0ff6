"""Runs mutations: for each a fresh reading of the mutated file, one rule, and a look at what it says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from prologue.errors import Location, PrologueError
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Finding, Subject
from prologue.rules.engine import run_rules
from prologue.rules.registry import find_rule
from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import NONE, Mutation, Where
from tests.mutation.recorded import RecordedWorld
from tests.mutation.world import World


@dataclass(frozen=True, slots=True)
class Material:
    """The real files of one kind, and what they are compared with."""

    paths: tuple[Path, ...]
    image: Path | None = None
    vmlinux: Path | None = None  # the kernel whose keys signed the modules


@dataclass(frozen=True, slots=True)
class Outcome:
    """One mutation."""

    code: str
    name: str  # of the mutation, where the rule has several
    where: Where
    path: Path
    caught: bool
    said: str


def run_mutations(
    materials: dict[Where, Material], seed: int, each: int, mutations: Mapping[str, tuple[Mutation, ...]]
) -> Iterator[Outcome]:
    """Every mutation of every rule's code ``each`` times, spread over the kinds of files that it is about."""
    for code, several in mutations.items():
        for mutation in several:
            for k in range(mutation.runs(each)):
                where = mutation.where[k % len(mutation.where)]
                chance = random.Random(f"{seed} {code} {mutation.name} {k}")  # noqa: S311 - not a secret
                yield _run(code, mutation, where, materials[where], chance)


_WORLDS: dict[tuple[type[World], Path], World] = {}


def _world(path: Path, seed: random.Random, where: Where) -> World:
    kind = BootedWorld if where.startswith("booted") else RecordedWorld if where.startswith("recorded") else World
    if (kind, path) not in _WORLDS:
        # Modules are many and small: only the kernels are worth keeping.
        for old in [key for key in _WORLDS if key[1].suffix == ".ko"]:
            del _WORLDS[old]
        _WORLDS[kind, path] = kind(path, seed)
    _WORLDS[kind, path].seed = seed
    return _WORLDS[kind, path]


def _run(code: str, mutation: Mutation, where: Where, material: Material, seed: random.Random) -> Outcome:
    path = seed.choice(material.paths)
    world = _world(path, seed, where)
    try:
        expected = mutation.mutate(world)
        places = expected if isinstance(expected, set) else {expected}
        findings = _findings(code, mutation, material, world)
        rights = [(place, world.original.symbols.locate(place)) for place in places if place != NONE]
        good = any(_is_there(finding, *right, world) for right in rights for finding in findings)
        good |= NONE in places and bool(findings)
        said = str(findings[0]) if findings else f"nothing; expected at {', '.join(map(hex, sorted(places)[:3]))}"
        return Outcome(code, mutation.name, where, path, good, said)
    except PrologueError as error:
        return Outcome(code, mutation.name, where, path, False, f"refused: {error}")
    finally:
        world.restore()


def _findings(code: str, mutation: Mutation, material: Material, world: World) -> tuple[Finding, ...]:
    rule = find_rule(code)
    if isinstance(world, BootedWorld | RecordedWorld):
        return tuple(finding for finding in world.findings() if finding.code == code)
    mutated = world.open()
    if mutation.of_before:
        return run_rules(Subject(world.pristine, mutated), (rule,))
    before = world.pristine if "P" in rule.inputs else None
    image = material.image if "I" in rule.inputs else None
    vmlinux = _kernel(material.vmlinux) if material.vmlinux else None
    return run_rules(Subject(mutated, before, image, vmlinux), (rule,))


_KERNELS: dict[Path, Kernel] = {}


def _kernel(path: Path) -> Kernel:
    if path not in _KERNELS:
        _KERNELS[path] = Kernel(path)
    return _KERNELS[path]


def _is_there(finding: Finding, place: int, right: Location, world: World) -> bool:
    """The finding names the place, and where that is in the unbroken file."""
    found = finding.where
    if isinstance(world, RecordedWorld):
        return found.vaddr == place  # a recording knows functions, not sections
    return (found.vaddr, found.section, found.section_offset) == (right.vaddr, right.section, right.section_offset)


def table(outcomes: list[Outcome]) -> str:
    """Rule, what was broken, mutations, caught."""
    tried, caught = (Counter((o.code, o.name) for o in outcomes if o.caught or not only) for only in (False, True))
    rows = [(key[0], find_rule(key[0]).slug, key[1], count, caught[key]) for key, count in tried.items()]
    rows.append(("all", "", "", sum(tried.values()), sum(caught.values())))
    return tabulate(rows, ("rule", "", "", "mutations", "caught"), tablefmt="plain")
