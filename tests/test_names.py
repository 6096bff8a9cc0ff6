"""A public name of a class means one thing, wherever it is read."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import prologue
import prologue_bench
from tests.test_imports import modules


def public_types(path: Path) -> Iterator[str]:
    """Classes and type aliases of a module, each alias by its capital letter and at least one small one."""
    todo: list[ast.stmt] = list(ast.parse(path.read_text()).body)
    for node in todo:
        if isinstance(node, ast.ClassDef):
            yield from [] if node.name.startswith("_") else [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from (name for name in names if name[0].isupper() and not name.isupper())
        elif isinstance(node, ast.If):  # aliases that only a type checker sees
            todo += [*node.body, *node.orelse]


def test_no_two_public_types_share_a_name() -> None:
    places: dict[str, list[Path]] = defaultdict(list)
    for path, _ in (*modules(prologue.__file__), *modules(prologue_bench.__file__)):
        for name in public_types(path):
            places[name].append(path)
    assert {"Kernel", "Target"} <= places.keys()
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
