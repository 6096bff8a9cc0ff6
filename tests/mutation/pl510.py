"""PL510: a module that only mod_tree has."""

from __future__ import annotations

from tests.mutation.hooked import Planted
from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def hidden(world: World) -> int:
    planted = Planted(world)
    node, module = planted.start, planted.start + 512
    planted.set_member(node, "mod_tree_node.mod", module)
    tree = planted.place("mod_tree") + planted.offset("mod_tree_root.root.tree")
    planted.set(tree, node + planted.offset("mod_tree_node.node"))
    return module


MUTATION = Mutation(("booted 6.12",), hidden)
