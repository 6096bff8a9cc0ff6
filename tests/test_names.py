"""A public name of a class means one thing, wherever it is read, and a call names what it gives a large one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import prologue
import prologue_bench
from tests.test_imports import modules, room_of


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
    for path, _ in (*modules(prologue.__file__, room_of), *modules(prologue_bench.__file__, room_of)):
        for name in public_types(path):
            places[name].append(path)
    assert {"Kernel", "Target"} <= places.keys()
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


MOST: Final = 4  # values that a call may give by their places
# Named tuples with more fields than that, and why they are no dataclasses: docs/decisions/0010.
NAMED_TUPLES: Final = {
    **dict.fromkeys(("Function", "Lost", "TableRow"), "sorted by its fields"),
    **dict.fromkeys(("SampleId", "_Write"), "made for every record of a file"),
    "_Step": "the key of many look-ups",
    "InsnRow": "a row of a table",
}


def parsed() -> Iterator[tuple[Path, ast.Module]]:
    """Every file of both packages."""
    for path, _ in (*modules(prologue.__file__, room_of), *modules(prologue_bench.__file__, room_of)):
        yield path, ast.parse(path.read_text())


def large_classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    """Classes with more annotated fields than ``MOST``, up to where only keywords are taken."""
    for path, tree in parsed():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
                marks = [k for k, one in enumerate(fields) if ast.unparse(one.annotation) == "KW_ONLY"]
                fields = fields[: marks[0]] if marks else fields
                if len([one for one in fields if "ClassVar" not in ast.unparse(one.annotation)]) > MOST:
                    yield path, node


def test_a_large_dataclass_takes_keywords_only() -> None:
    decorated = [
        (f"{path}: {node.name}", ast.unparse(one))
        for path, node in large_classes()
        for one in node.decorator_list
        if ast.unparse(one).startswith("dataclass")
    ]
    assert decorated
    assert [name for name, said in decorated if "kw_only=True" not in said] == []


def test_a_large_named_tuple_has_a_reason() -> None:
    found = {node.name for _, node in large_classes() if "NamedTuple" in map(ast.unparse, node.bases)}
    assert found == NAMED_TUPLES.keys()


def test_a_call_names_what_it_gives_a_large_named_tuple() -> None:
    calls = [
        (f"{path}:{node.lineno}", node)
        for path, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in NAMED_TUPLES
    ]
    assert len(calls) > len(NAMED_TUPLES)
    for place, call in calls:
        assert len(call.args) <= MOST, place
        assert not any(isinstance(one, ast.Starred) for one in call.args), place
