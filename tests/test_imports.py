"""Imports go down only, room by room, in both packages; and what must start light or stand alone does."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import prologue
import prologue_bench

# Ground floor first: a room may import from itself and from those before it. What each is for: docs/architecture.md.
GATE_SIDE = (
    "words", "arrays", "errors", "installation", "documents", "releases", "signals", "outputs", "insn", "elf", "kernel",
    "flow", "plan", "rules", "patching", "gate", "kernel_tree",
)  # fmt: skip
"""All that building and judging files needs; it knows of no running kernel and no trace."""
TOOL = (
    *GATE_SIDE,
    "examples", "library", "report", "cli", "perf", "dwarf", "live.memory", "live.system", "live.overlay",
    "live.tracefs", "live.pokes", "live.structs", "live.audit", "live.hooks", "live.report", "live.pages",
    "live.library", "live.cli", "probe", "trace.ranges", "trace.coresight", "trace.readers", "trace.etm", "trace.path",
    "trace.views", "trace.exports", "trace.report", "trace.library", "trace.cli", "protocol",
)  # fmt: skip
LEAKS = {("live.cli", "probe"), ("live.library", "trace.path"), ("live.library", "trace.ranges"),
         ("cli", "protocol"), ("examples", "live.memory")}  # fmt: skip
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


def room_of_bench(parts: Sequence[str]) -> str:
    """The first level."""
    return parts[0]


def room_of(parts: Sequence[str]) -> str:
    """Rooms of two levels are named by both."""
    return ".".join(parts[:2]) if parts[0] in ("live", "trace") and parts[1] != "__init__" else parts[0]


def test_the_tool_imports_downward() -> None:
    found = modules(prologue.__file__, room_of)
    assert {room for _, room in found} == {*TOOL, "live", "trace"}
    for path, room in found:
        for name in imported(path, "prologue"):
            other = room_of(name.split(".")[1:])
            if other != "__version__" and room not in ("live", "trace") and (room, other) not in LEAKS:
                assert TOOL.index(other) <= TOOL.index(room), f"{path} imports {name}"


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
    found = modules(prologue_bench.__file__, room_of_bench)
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


def test_the_tool_finds_the_bench_by_name_only() -> None:
    """Nothing of the tool imports it; its modules are named where it is asked for, and nowhere else."""
    naming = set()
    for path, _ in modules(prologue.__file__, room_of):
        assert not list(imported(path, "prologue_bench")), path
        nodes = nodes_of(path)
        if any(isinstance(n, ast.Constant) and str(n.value).startswith("prologue_bench.") for n in nodes):
            naming.add(path.relative_to(Path(prologue.__file__).parent).as_posix())
    assert naming == {"cli/bench.py", "cli/completion.py"}


def test_the_second_reader_shares_no_code_with_the_first() -> None:
    """What two readers agree on is worth more than what one says twice: errors is all that they share."""
    found = [(path, name) for path, _ in modules(prologue.__file__, room_of) if path.parent.name == "reread"
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
