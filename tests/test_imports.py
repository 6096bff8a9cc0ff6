"""Imports go down only, room by room, in both packages; and what must start light or stand alone does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import prologue
import prologue_bench
from prologue.companions import COMPANIONS

# Ground floor first: a room may import from itself and from those before it. What each is for: docs/architecture.md.
TOOL = (
    "words", "arrays", "companions", "errors", "installation", "documents", "releases", "signals", "outputs", "insn",
    "elf", "kernel", "flow", "plan", "rules", "patching", "gate", "kernel_tree", "examples", "library", "report", "cli",
)  # fmt: skip
"""All that building and judging files needs. It knows of no running kernel and no trace, and imports no companion."""
COMPANION_ROOMS = {
    "perf": (), "dwarf": (), "probe": ("", "report", "library", "cli"), "protocol": ("", "cli"),
    "live": (
        "rules", "memory", "system", "overlay", "tracefs", "pokes", "structs", "audit", "hooks", "report", "pages",
        "library", "cli",
    ),
    "trace": ("ranges", "coresight", "readers", "etm", "path", "views", "exports", "report", "library", "cli"),
}  # fmt: skip
"""The rooms of each, from the ground up: it may import from all of the tool, and from what ``COMPANIONS`` says."""
# A room of the bench, and those that it may import besides itself and errors.
BENCH: dict[str, tuple[str, ...]] = {
    "host": (),
    "guest": ("host",),
    "results": (),
    "recorder": ("host", "results"),
    "exact": ("host", "guest", "results"),
    "trace": ("host", "guest", "exact"),
    "targets": ("host", "guest", "results", "recorder", "exact"),
    "links": ("host", "results"),
    "campaign": ("results", "recorder", "targets", "links"),
    "analysis": ("results", "recorder"),
    "report": ("results", "exact", "analysis"),
    "cli": (
        "host",
        "guest",
        "results",
        "recorder",
        "exact",
        "trace",
        "targets",
        "links",
        "campaign",
        "analysis",
        "report",
    ),
}


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def imported(path: Path, package: str) -> Iterator[str]:
    """Modules of a package that a file imports, anywhere in it."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith(f"{package}."))


def modules(package_file: str | None, room_of: Callable[[Sequence[str]], str]) -> list[tuple[Path, str]]:
    """The package's files in rooms, each with its room; a module at the root is a room of its own."""
    assert package_file is not None
    root = Path(package_file).parent
    inside = [(path, room_of(path.relative_to(root).with_suffix("").parts)) for path in sorted(root.rglob("*.py"))]
    return [(path, room) for path, room in inside if room not in ("__init__", "__main__")]


def first_level(parts: Sequence[str]) -> str:
    return parts[0]


def test_the_tool_imports_downward_and_no_companion() -> None:
    rooms = [each for each in modules(prologue.__file__, first_level) if each[1] not in COMPANION_ROOMS]
    assert {room for _, room in rooms} == {*TOOL}
    for path, room in rooms:
        for name in imported(path, "prologue"):
            other = name.split(".")[1]
            assert other == "__version__" or TOOL.index(other) <= TOOL.index(room), f"{path} imports {name}"


def test_companions_import_what_the_table_says() -> None:
    assert {f"prologue.{name}" for name in COMPANION_ROOMS} | {"prologue_bench"} == {c.package for c in COMPANIONS}
    for companion in COMPANIONS:
        root = Path(str(import_module(companion.package).__file__)).parent
        needed = {name for path in root.rglob("*.py") for name in imported(path, "prologue")}
        needed = {".".join(name.split(".")[:2]) for name in needed if name.split(".")[1] in COMPANION_ROOMS}
        assert needed - {companion.package} <= {*companion.needs}, companion.package
        if companion.package != "prologue_bench":
            assert not [path for path in root.rglob("*.py") if list(imported(path, "prologue_bench"))]


def test_a_companion_needs_only_those_before_it() -> None:
    packages = [companion.package for companion in COMPANIONS]
    for companion in COMPANIONS:
        needs = {*companion.needs}
        assert needs <= {*packages[: packages.index(companion.package)]}
        assert needs >= {more for each in COMPANIONS if each.package in needs for more in each.needs}


@pytest.mark.parametrize("name", [name for name, rooms in COMPANION_ROOMS.items() if rooms])
def test_the_rooms_of_a_companion_import_downward(name: str) -> None:
    package = import_module(f"prologue.{name}")
    rooms = COMPANION_ROOMS[name]

    def room_of(parts: Sequence[str]) -> str:
        return parts[0] if parts[0] in rooms else ""

    inside = modules(package.__file__, room_of)
    assert {room for _, room in inside} | {""} == {*rooms, ""}
    for path, room in inside:
        for other in map(room_of, (each.split(".")[2:] or [""] for each in imported(path, f"prologue.{name}"))):
            assert rooms.index(other) <= rooms.index(room), f"{path} imports {other or name}"


@pytest.mark.parametrize("package", [prologue, prologue_bench])
def test_no_circle_of_files(package: ModuleType) -> None:
    """Also not by imports for type checkers, or inside of functions: what stands in a circle is one file."""
    assert package.__file__ is not None
    root = Path(package.__file__).parent
    files = {".".join((package.__name__, *path.relative_to(root).with_suffix("").parts)): path
             for path in root.rglob("*.py")}  # fmt: skip
    graph = {name: {n if n in files else n.rpartition(".")[0] for n in imported(path, package.__name__)} & files.keys()
             for name, path in files.items()}  # fmt: skip
    assert tuple(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_the_bench_imports_downward() -> None:
    found = modules(prologue_bench.__file__, first_level)
    assert {room for _, room in found} == {*BENCH, "errors"}
    for path, room in found:
        for name in imported(path, "prologue_bench"):
            other = name.split(".")[1]
            assert other in ("errors", room, *BENCH.get(room, ())), f"{path} imports {name}"


def test_the_page_says_what_the_bench_may_import() -> None:
    page = Path(__file__).parents[1].joinpath("docs", "architecture.md").read_text().partition("## prologue_bench")[2]
    said: dict[str, tuple[str, ...]] = {}
    for room, rooms in re.findall(r"^\| `(\w+)/?` \| .* \| (.*?) ?\|$", page, re.MULTILINE):
        said[room] = tuple(said)[1:] if rooms == "all above" else tuple(re.findall(r"`(\w+)`", rooms))
    assert said == {"errors": (), **BENCH}


def test_the_flows_name_files_that_exist() -> None:
    root = Path(prologue.__file__).parent
    page = root.parent.joinpath("docs", "architecture.md").read_text()
    flows = re.findall(r"^    .*$", page.partition("## How data flows")[2], re.MULTILINE)
    named = {name for line in flows for name in re.findall(r"(?<![\w/])[a-z]+(?:/[a-z_]+)+(?![\w/(])", line)}
    named = {name for name in named if root.joinpath(name.partition("/")[0]).is_dir()}
    assert len(named) > 20
    assert {
        name for name in named if not root.joinpath(f"{name}.py").is_file() and not root.joinpath(name).is_dir()
    } == set()


def test_the_tool_names_companions_in_the_table_only() -> None:
    """Not even by a name that is imported when it runs; the list of public names is for type checkers."""
    packages = tuple(f"{companion.package}." for companion in COMPANIONS)
    naming = set()
    for path, room in modules(prologue.__file__, first_level):
        nodes = nodes_of(path) if room in TOOL else ()
        if any(isinstance(n, ast.Constant) and str(n.value).startswith(packages) for n in nodes):
            naming.add(room)
    assert naming == {"companions"}


def test_the_second_reader_shares_no_code_with_the_first() -> None:
    """What two readers agree on is worth more than what one says twice: errors is all that they share."""
    found = [(path, name) for path, _ in modules(prologue.__file__, first_level) if path.parent.name == "reread"
             for name in imported(path, "prologue")]  # fmt: skip
    assert found
    for path, name in found:
        assert name.startswith(("prologue.errors", "prologue.patching.reread")), f"{path} imports {name}"


@pytest.mark.parametrize("heavy", ["lief", "capstone", "rich", "drgn", "tabulate", "scipy", "matplotlib"])
def test_the_build_step_does_not_load(heavy: str) -> None:
    code = (
        "import sys, prologue.cli.patch, prologue.cli.main, prologue.cli.parser as p, prologue.cli.subcommands as s;"
        f"s.fill_all(p.build_parser('patch')); sys.exit({heavy!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
