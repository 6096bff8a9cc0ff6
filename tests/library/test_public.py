"""What of the package is public: the names of ``prologue.__all__``, each documented and typed, and cheap to have."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import prologue
from prologue.companions import COMPANIONS

ROOT = Path(prologue.__file__).parents[1]
PAGE = ROOT / "docs" / "library.md"
FUNCTIONS = [name for name in prologue.__all__ if inspect.isfunction(getattr(prologue, name))]
CLASSES = [name for name in prologue.__all__ if inspect.isclass(getattr(prologue, name))]


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def test_types_and_names_agree() -> None:
    """Type checkers see imports, Python a table: both have the names of ``__all__``, in the same modules."""
    homes = [*prologue._HOMES.items(), *(home for companion in COMPANIONS for home in companion.public)]
    table = {name: home for home, names in homes for name in names}
    imports = {
        alias.name: node.module
        for node in ast.walk(ast.parse(Path(prologue.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("prologue.")
        for alias in node.names
    }
    assert imports == table
    assert sorted(table) == sorted(prologue.__all__) == dir(prologue)


def test_nothing_else_is_public() -> None:
    assert run("import prologue; print([name for name in vars(prologue) if not name.startswith('_')])") == "[]\n"
    assert {*FUNCTIONS, *CLASSES} == {*prologue.__all__}
    with pytest.raises(AttributeError, match="module 'prologue' has no attribute 'nope'"):
        _ = prologue.nope  # type: ignore[attr-defined]  # that is the point


@pytest.mark.thorough
def test_a_star_brings_the_public_names() -> None:
    code = "from prologue import *; print(sorted(name for name in dir() if not name.startswith('_')))"
    assert ast.literal_eval(run(code)) == sorted(prologue.__all__)


def test_no_room_has_a_public_name() -> None:
    """A room that is loaded is an attribute of the package, and would hide the function."""
    package = Path(prologue.__file__).parent
    assert {*prologue.__all__} & {path.stem for path in package.iterdir()} == set()


def test_the_import_is_cheap() -> None:
    loaded = run("import sys; before = {*sys.modules}; import prologue; print({*sys.modules} - before)")
    assert ast.literal_eval(loaded) == {"prologue"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes_gives_and_raises(name: str) -> None:
    function = getattr(prologue, name)
    text = inspect.getdoc(function) or ""
    assert "\nRaises:\n" in text
    parameters = [each for each in inspect.signature(function).parameters if each not in ("path",)]
    assert not [each for each in parameters if f"\n    {each}: " not in text]


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_and_its_methods_are_documented(name: str) -> None:
    cls = getattr(prologue, name)
    assert cls.__doc__
    own = {key: value for key, value in vars(cls).items() if not key.startswith("_")}
    members = {key: value for key, value in own.items() if inspect.isroutine(value) or isinstance(value, property)}
    assert not [key for key, value in members.items() if not inspect.getdoc(value)]


def test_the_page_names_every_function() -> None:
    text = PAGE.read_text()
    assert not [name for name in FUNCTIONS if f"`{name}(" not in text and f", `{name}(" not in text]


def test_the_package_says_that_it_is_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "Typing :: Typed" in project["project"]["classifiers"]
    assert (ROOT / "prologue" / "py.typed").is_file()
