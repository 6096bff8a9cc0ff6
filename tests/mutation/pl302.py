"""PL302: a branch to a second slot."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World

# name -> (word without its offset, lowest bit and width of the offset)
BRANCHES = {
    "B": (0x14000000, 0, 26), "BL": (0x94000000, 0, 26), "B.cond": (0x54000000, 5, 19), "BC.cond": (0x54000010, 5, 19),
    "CBZ": (0x34000000, 5, 19), "CBNZ": (0xB5000000, 5, 19), "TBZ": (0x36000000, 5, 14), "TBNZ": (0xB7000000, 5, 14),
    "CBGT": (0xF4080000, 5, 9), "CBEQ": (0x75C28000, 5, 9),
}  # fmt: skip


def mutate(world: World) -> int:
    """A branch of any kind, as far away as its kind reaches."""
    name = world.seed.choice(list(BRANCHES))
    base, low, width = BRANCHES[name]
    while True:
        target, place = int(world.sites.second[world.site()]), world.pick(world.code)
        if width != 26:
            reach = 1 << (width + 1)
            near = world.code[(world.code > target - reach) & (world.code < target + reach)]
            place = world.pick(near) if len(near) else place
        distance = (target - place) // 4
        same = world.is_kernel or world.original.image.section_at(place) == world.original.image.section_at(target)
        if same and -(1 << (width - 1)) <= distance < 1 << (width - 1):
            world.set_word(place, base | (distance & (1 << width) - 1) << low)
            return place


MUTATION = Mutation(ALL, mutate)
