"""A public name means one thing, calls name what they give, docstrings begin with verbs, patterns suit any Python."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import prologue
import prologue_bench
from tests.test_imports import first_level, modules


@cache
def parsed() -> tuple[tuple[Path, ast.Module], ...]:
    """Every file of both packages."""
    files = (*modules(prologue.__file__, first_level), *modules(prologue_bench.__file__, first_level))
    return tuple((path, ast.parse(path.read_text())) for path, _ in files)


def public_types(tree: ast.Module) -> Iterator[str]:
    """Classes and type aliases of a module, each alias by its capital letter and at least one small one."""
    todo = list(tree.body)
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
    for path, tree in parsed():
        for name in public_types(tree):
            places[name].append(path)
    assert {"Kernel", "Target"} <= places.keys()
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


MOST: Final = 4  # values that a call may give by their places
# Named tuples with more fields than that, and why they are no dataclasses: docs/decisions/0010.
NAMED_TUPLES: Final = {
    **dict.fromkeys(("Function", "LostCall", "TableRow"), "sorted by its fields"),
    **dict.fromkeys(("SampleId", "_Write"), "made for every record of a file"),
    **dict.fromkeys(("BpfName", "OwnedRange"), "made for every range of code, and compared as a whole"),
    "Command": "a row of a table of commands",
    "_Step": "the key of many look-ups",
    "InsnRow": "a row of a table",
    "Frame": "made for every call of a trace",
}


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


# First words of a function's docstring. A verb that is missing is added; a noun is not.
VERBS: Final = """
    Add Answer Ask Audit Boot Break Bring Buffer Build Call Carry Change Check Choose Claim Classify Collect Combine
    Compare Compile Continue Copy Count Create Cut Decide Decode Describe Disassemble Do Download Draw Drop Encode
    End Estimate Explain Explore Fetch Fill Find Fix Follow Give Go Group Have Hold Ignore Import Join Judge Keep
    Kill Lay Leave Let List Listen Load Look Make Map Match Merge Mix Move Name Neutralise Note Open Pack Parse Pass
    Patch Pickle Place Plan Print Process Put Quote Raise Rank Read Reboot Recognise Record Refuse Release Remove
    Repeat Replace Report Reserve Resolve Restore Return Run Save Say See Separate Set Shift Shorten Show Split
    Start Store Summarise Swap Switch Take Tell Turn Undo Unpack Verify View Wait Walk Warn Write Yield
"""
# Words that are no head of a name: for classes, properties and modules, which are noun phrases.
HEADLESS: Final = """
    How Its One So Something Such That These They This Those We What When Where Whether Which Who Whom Whose Why
"""


def docstrings() -> Iterator[tuple[str, ast.AST, str]]:
    """Place, node and first word of every docstring."""
    for path, tree in parsed():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                words = (ast.get_docstring(node) or "").split()
                if words:
                    yield f"{path}: {getattr(node, 'name', 'module')}", node, words[0].strip("`,.:;")


def is_property(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any("property" in ast.unparse(word) for word in node.decorator_list)


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    words = [
        (place, word)
        for place, node, word in docstrings()
        if isinstance(node, ast.FunctionDef) and not is_property(node)
    ]
    assert len(words) > 1000
    assert [(place, word) for place, word in words if word not in VERBS.split()] == []


def test_the_docstring_of_a_thing_names_it() -> None:
    words = [
        (place, word)
        for place, node, word in docstrings()
        if is_property(node) or not isinstance(node, ast.FunctionDef)
    ]
    assert len(words) > 500
    assert [(place, word) for place, word in words if word in HEADLESS.split()] == []


VAGUE: Final = ("found", "here", "one", "own", "said", "some", "there")


def test_no_variable_has_a_name_that_says_nothing() -> None:
    names = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in parsed()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.arg | ast.Name) and (node.arg if isinstance(node, ast.arg) else node.id) in VAGUE
    ]
    assert names == []


# Python before 3.11.5, as Debian 12 has it, goes on at the wrong place where an attempt at one of these failed.
_OF_GROUPS = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+|\(\?>")


def test_no_group_is_atomic_or_repeated_possessively() -> None:
    lines = [
        f"{path}:{number}"
        for path, _ in parsed()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _OF_GROUPS.search(line)
    ]
    assert lines == []
