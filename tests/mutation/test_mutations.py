"""No miss: thousands of ways to break real files, each seen by its rule at its place."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import prologue
from prologue.kernel.load import find_modules, open_binary
from prologue.rules.registry import RULES
from tests.mutation.mutation import Mutation, Where, mutations_of
from tests.mutation.run import Material, Outcome, run_mutations, table
from tests.mutation.world import World
from tests.real_kernels.native import RECIPES
from tests.support.debian.kernels import boot_file
from tests.support.needs import needs_built_kernel, needs_kernel, needs_modules

pytestmark = [pytest.mark.kernel, pytest.mark.builds, pytest.mark.timeout(2400)]

# Runs of each mutation of each rule, and whether the seed is another one for every version of the tool.
RUNS = (
    pytest.param(1, False, id="fixed"),
    pytest.param(2, True, id="fresh", marks=pytest.mark.extended),
    pytest.param(20, False, id="fixed, 20 each", marks=pytest.mark.extended),
    pytest.param(20, True, id="fresh, 20 each", marks=pytest.mark.extended),
)
MODULES = 60  # of each kernel


def uncompressed(package: Path, directory: Path, seed: random.Random) -> tuple[Path, ...]:
    """Some modules with enough sites to break, signatures and all."""
    directory.mkdir()
    chosen: list[Path] = []
    for path in seed.sample(find_modules(package), 3 * MODULES):
        module = open_binary(path)
        if module.sites is not None and len(module.sites) >= 12 and len(chosen) < MODULES:
            copy = directory / f"{path.name.partition('.ko')[0]}.ko"
            copy.write_bytes(module.image.content)
            chosen.append(copy)
    return tuple(chosen)


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> dict[Where, Material]:
    directory, seed = tmp_path_factory.mktemp("modules"), random.Random(1)  # noqa: S311 - not a secret
    old, new = needs_kernel("bookworm"), needs_kernel("trixie")
    packages = {kernel.suite: needs_modules(kernel) for kernel in (old, new)}
    layout_2 = uncompressed(packages["bookworm"], directory / "2", seed)
    layout_4_2 = uncompressed(packages["trixie"], directory / "4_2", seed)
    return {
        "6.1": Material((old.vmlinux,), boot_file(packages["bookworm"])),
        "6.12": Material((new.vmlinux,), boot_file(packages["trixie"])),
        "module": Material(layout_2),
        "module 4,2": Material(layout_4_2),
        "signed": Material((*layout_2[:30],), vmlinux=old.vmlinux),
        "booted 6.1": Material((old.vmlinux,)),
        "booted 6.12": Material((new.vmlinux,)),
        "recorded 6.1": Material((old.vmlinux,)),
        "recorded 6.12": Material((new.vmlinux,)),
        "native 6.1": Material((needs_built_kernel(RECIPES["6.1"]).vmlinux,)),
        "native 6.12": Material((needs_built_kernel(RECIPES["6.12"]).vmlinux,)),
    }


def fresh_seed() -> int:
    """Another one for every version of the tool, and for one version the same everywhere: no gate depends on chance."""
    hashed = hashlib.sha256()
    for path in sorted(Path(prologue.__file__).parent.rglob("*.py")):
        hashed.update(path.read_bytes())
    return int(hashed.hexdigest()[:8], 16)


@pytest.mark.parametrize(("each", "fresh"), RUNS)
def test_mutations_are_caught(
    materials: dict[Where, Material], show: Callable[[str], None], each: int, *, fresh: bool
) -> None:
    seed = fresh_seed() if fresh else 1
    mutations = {rule.code: mutations_of(rule) for rule in RULES}
    outcomes = list(run_mutations(materials, seed, each, mutations))
    show(f"mutations of real files, seed {seed}\n{table(outcomes)}")
    assert [describe(outcome, seed) for outcome in outcomes if not outcome.caught] == []
    assert len(outcomes) == sum(mutation.runs(each) for several in mutations.values() for mutation in several)


def describe(outcome: Outcome, seed: int) -> str:
    return f"seed {seed}: {outcome.code} {outcome.name} in {outcome.where} {outcome.path.name}: {outcome.said}"


@pytest.mark.extended
def test_what_is_not_broken_is_not_caught(materials: dict[Where, Material]) -> None:
    """The check of the check: without a mutation no rule says anything where one would have been."""
    for rule in RULES:
        if rule.code == "PL109":  # 6.1 has true ones
            continue
        for mutation in mutations_of(rule):
            where = mutation.where[0]

            def nothing(world: World, mutation: Mutation = mutation) -> int | set[int]:
                expected = mutation.mutate(world)
                world.restore()
                return expected

            idle = Mutation(mutation.where, nothing, of_before=mutation.of_before)
            outcomes = list(run_mutations({where: materials[where]}, 1, 1, {rule.code: (idle,)}))
            assert [outcome.caught for outcome in outcomes] == [False], (rule.code, mutation.name)
